"""Python numbers among the arguments of a step: for each of them TensorFlow traces it anew."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

# Different values of an argument after which it is taken for one that goes on changing.
_MANY: Final = 3


def positional_parameter_names(python: Callable[..., Any]) -> tuple[str, ...]:
    """Names of what a function can be given by position, in order; nothing where none can tell.

    Example:
        >>> positional_parameter_names(lambda x, y, *, rate: x * y * rate)
        ('x', 'y')
    """
    try:
        found = inspect.signature(python).parameters.values()
    except (TypeError, ValueError):
        return ()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(each.name for each in found if each.kind in by_position)


class ChangingNumbers:
    """Which arguments of a function are Python numbers that change from call to call.

    Args:
        python: The function.

    Example:
        >>> numbers = ChangingNumbers(lambda x, rate, size: x)
        >>> for call in range(4):
        ...     numbers.note_call((tf.ones(2), 0.1 * call, 8), {})
        >>> numbers.changing_names
        ('rate',)
    """

    def __init__(self, python: Callable[..., Any]) -> None:
        self._parameters = positional_parameter_names(python)
        self._values: dict[str, set[float]] = {}

    @property
    def changing_names(self) -> tuple[str, ...]:
        """Their names, in the order in which they were met."""
        return tuple(name for name, values in self._values.items() if len(values) >= _MANY)

    def note_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One call."""
        for name, value in (*zip(self._parameters, args, strict=False), *kwargs.items()):
            if _is_number(value):
                values = self._values.setdefault(name, set())
                if len(values) < _MANY:
                    values.add(value)


class NumberReplacer:
    """Puts something in the place of Python numbers among the arguments of a function.

    Args:
        parameters: From :func:`positional_parameter_names` the function.
        names: Of the arguments.

    Example:
        >>> rate = NumberReplacer(("x", "rate"), ("rate",))
        >>> rate.replace_numbers((2, 0.5), {}, convert=lambda number: "any")
        ((2, 'any'), {})
    """

    def __init__(self, parameters: tuple[str, ...], names: tuple[str, ...]) -> None:
        self._names = frozenset(names)
        self._parameters = parameters

    def replace_numbers(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], convert: Callable[[float], Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with other ones where numbers of these names stood."""

        def other(name: str, value: Any) -> Any:
            return convert(value) if name in self._names and _is_number(value) else value

        names = (*self._parameters, *[""] * (len(args) - len(self._parameters)))
        by_position = tuple(other(name, arg) for name, arg in zip(names, args, strict=False))
        return by_position, {name: other(name, value) for name, value in kwargs.items()}


def number_to_tensor(number: float) -> Any:
    """A tensor in the place of a number; whole ones with room to be counted up and multiplied.

    Python's have no end, and 32 bits would come to one in the middle of a training.

    Example:
        >>> number_to_tensor(3).dtype, number_to_tensor(0.5).dtype
        (tf.int64, tf.float32)
    """
    return tf.constant(number, tf.int64 if isinstance(number, int) else tf.float32)


class TensorArgumentFunction:
    """A ``tf.function`` that is given tensors where its caller hands over Python numbers.

    Args:
        function: Traced once for all of their values.
        names: Of the arguments.

    Example:
        >>> scaled = TensorArgumentFunction(tf.function(lambda x, rate: x * rate), ("rate",))
        >>> [float(scaled(tf.constant(2.0), rate)) for rate in (1.0, 2.0, 3.0)]
        [2.0, 4.0, 6.0]
        >>> scaled.experimental_get_tracing_count()
        1
    """

    def __init__(self, function: Any, names: tuple[str, ...]) -> None:
        self._function = function
        self._numbers = NumberReplacer(positional_parameter_names(function.python_function), names)
        self._by: Callable[[float], Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, and its only trace."""
        args, kwargs = self._with_tensors(args, kwargs)
        return self._function(*args, **kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The trace that serves such a call."""
        args, kwargs = self._with_tensors(args, kwargs)
        return self._function.get_concrete_function(*args, **kwargs)

    def _with_tensors(self, args: Any, kwargs: Any) -> Any:
        """Of 64 bits, unless the function does with them what it does with shapes, say."""
        if self._by is None:
            wide = self._numbers.replace_numbers(args, kwargs, convert=number_to_tensor)
            try:
                self._function.get_concrete_function(*wide[0], **wide[1])
            except (TypeError, ValueError):  # of two kinds that do not go together
                self._by = tf.constant
            else:
                self._by = number_to_tensor
        return self._numbers.replace_numbers(args, kwargs, convert=self._by)

    def experimental_get_tracing_count(self) -> int:
        """How often it was traced."""
        return int(self._function.experimental_get_tracing_count())


def _is_number(value: Any) -> bool:
    """Not a Boolean: that chooses between two ways, each of which is traced once."""
    return type(value) in (int, float)
