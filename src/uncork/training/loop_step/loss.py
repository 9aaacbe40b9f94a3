"""Which number, or which metric, of a custom loop's step is its loss."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.training.state.loss_value import find_logged_loss, is_not_loss

# Ends of the names of a mean's two variables.
_TOTAL: Final = "/total:0"
_COUNT: Final = "/count:0"


class MetricLoss:
    """What a mean has been given since it was last asked for.

    As TensorFlow's introductions have it: ``train_loss(loss)`` at the end of a step that returns
    nothing. Only a metric whose name says that it is a loss is taken for one.

    Args:
        total: The sum of what it was given.
        count: How often.

    Example:
        >>> import keras
        >>> metric = keras.metrics.Mean(name="train_loss")
        >>> loss = MetricLoss.from_variables(variable.value for variable in metric.variables)
        >>> metric.update_state(3.0)
        >>> metric.update_state(5.0)
        >>> loss.mean_since_last(), loss.mean_since_last()
        (4.0, None)
    """

    def __init__(self, total: Any, count: Any) -> None:
        self._total = total
        self._count = count
        self._before = self._now()

    @classmethod
    def from_variables(cls, variables: Iterable[Any]) -> MetricLoss | None:
        """Of these variables; None where there is not exactly one mean of a loss."""
        named: dict[str, list[Any]] = {}
        for variable in variables:
            if variable.shape == ():
                named.setdefault(variable.name, []).append(variable)
        found = [
            (total, count)
            for name, totals in named.items()
            if name.endswith(_TOTAL) and "loss" in name.lower()
            for total in totals
            for count in named.get(name.removesuffix(_TOTAL) + _COUNT, ())
        ]
        return cls(*found[0]) if len(found) == 1 else None

    def mean_since_last(self) -> float | None:
        """The mean since the last time, or since the step set it to 0; None of nothing."""
        before, now = self._before, self._now()
        self._before = now
        if now[1] <= before[1] and now != before:
            before = (0.0, 0.0)
        given = now[1] - before[1]
        return (now[0] - before[0]) / given if given > 0 else None

    def _now(self) -> tuple[float, float]:
        return float(self._total), float(self._count)


_LOADS: Final = "LOAD_"
_BUILDS: Final = "BUILD_TUPLE"
_RETURNS: Final = "RETURN_VALUE"


def find_returned_names(python: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the variables that a function returns: one, or several in a tuple.

    Read from its bytecode: a step that was made of statements of a loop stands in no file.

    Returns:
        Nothing where it returns something else, or not the same everywhere.

    Example:
        >>> def step(x):
        ...     loss, accuracy = x * 2, x / 2
        ...     return loss, accuracy
        >>> find_returned_names(step), find_returned_names(lambda x: x + 1)
        (('loss', 'accuracy'), ())
    """
    found: set[tuple[str, ...]] = set()
    loaded: tuple[str, ...] = ()
    built: tuple[str, ...] | None = None
    code = getattr(python, "__code__", None)
    for each in dis.get_instructions(code) if code is not None else ():
        if each.opname == _RETURNS:
            found.add(loaded[-1:] if built is None else built)
        elif each.opname == _BUILDS:
            count = int(each.arg or 0)
            built = loaded[-count:] if len(loaded) >= count > 0 else ()
            continue
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        is_plain = each.opname.startswith(_LOADS) and all(isinstance(n, str) for n in names)
        loaded, built = (*loaded, *names) if is_plain else (), None
    return found.pop() if len(found) == 1 else ()


def find_returned_loss(returned: Any, names: Sequence[str]) -> tuple[bool, float] | None:
    """The loss among what a call has returned, and whether it is plain that it is one.

    Of several numbers their names tell; where these do not, as of two networks that work against
    each other, it is their mean, which repeats itself where the step does.

    Args:
        returned: By the step.
        names: Of what it returns (:func:`find_returned_names`).

    Returns:
        None where there is no number with a fraction.

    Example:
        >>> low, high = tf.constant(0.5), tf.constant(2.0)
        >>> find_returned_loss((low, high), ("accuracy", "loss")), find_returned_loss(high, ())
        ((True, 2.0), (True, 2.0))
        >>> (
        ...     find_returned_loss((low, high), ("g_loss", "d_loss")),
        ...     find_returned_loss((low, high), ()),
        ... )
        ((False, 1.25), (False, 1.25))
    """
    numbers = list(_numbers(returned, "", names))
    if not numbers:
        return None
    if len(numbers) == 1:
        name, number = numbers[0]
        return not is_not_loss(name), float(number)
    told = {name or str(n): number for n, (name, number) in enumerate(numbers)}
    name, loss = find_logged_loss(told)
    return bool(name) and len(told) == len(numbers), loss


def _numbers(part: Any, name: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Each number with a fraction, and what it is called; ``""`` where nothing tells."""
    if isinstance(part, Mapping):
        for key in part:
            yield from _numbers(part[key], str(key), ())
    elif isinstance(part, list | tuple):
        names = getattr(part, "_fields", names)
        known = names if len(names) == len(part) else [""] * len(part)
        for each, its_name in zip(part, known, strict=True):
            yield from _numbers(each, its_name, ())
    elif tf.is_tensor(part) and part.dtype.is_floating and part.shape == ():
        yield (names[0] if len(names) == 1 and not name else name), part
