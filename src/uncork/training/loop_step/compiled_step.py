"""A training step that is a ``tf.function`` already: run as it is, or as one of other options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, final

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from uncork.core.base.record import digest
from uncork.pycode.purity.reachability import named_code_digest
from uncork.training.loop_step.array_arguments import WithKeptArrays
from uncork.training.loop_step.loop_step import TakenStep
from uncork.training.loop_step.loss import names_returned
from uncork.training.loop_step.mode import Mode
from uncork.training.loop_step.number_arguments import Numbers, WithTensors
from uncork.training.transforms.padded_arguments import WithLengths


def code_of(function: Any) -> str:
    """Digest of the code of a ``tf.function`` and of what it calls, equal in the next process.

    Its name is part of it: two methods of one class reach the same code. ``""`` for anything else.

    Example:
        >>> code_of(tf.function(lambda x: 2 * x)) != "", code_of("a text")
        (True, '')
    """
    if not isinstance(function, Function):
        return ""
    python = function.python_function
    target = getattr(inspect.unwrap(python), "__self__", None)  # TensorFlow's, of a method
    code = named_code_digest(python, *filter(None, [getattr(target, "target_class", None)]))
    return digest(code, getattr(python, "__qualname__", "")) if code else ""


@final
class CompiledStep(TakenStep):
    """A ``tf.function`` of the user's, taken over wherever it is called from.

    TensorFlow itself hands each call of it over to us. Calls from another function's trace are the
    user's own affair.

    Args:
        function: Made by ``tf.function``.
        on_refusal: Told how it goes on, and why, when it cannot run as it was to.

    Attributes:
        is_xla: Its author compiles it with XLA.

    Example:
        >>> double = tf.function(lambda x: 2 * x)
        >>> step = CompiledStep(double)
        >>> step.mode = Mode.XLA
        >>> int(double(tf.constant(4))), step.unable
        (8, '')
        >>> step.give_back()
    """

    def __init__(
        self, function: Any, on_refusal: Callable[[str, str], None] = lambda _how, _why: None
    ) -> None:
        super().__init__(on_refusal)
        self.refusal, self.code = "", code_of(function)
        self.returns = names_returned(inspect.unwrap(function.python_function))
        self.is_xla = bool(function._jit_compile)
        self._function = function
        self._written = function._call
        self._others: dict[Mode, Any] = {}
        self._numbers = Numbers(function.python_function)
        function._call = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of what TensorFlow does at a call."""
        if self._running or not tf.executing_eagerly():
            return self._written(*args, **kwargs)
        return self.run(*args, **kwargs)

    def written(self, *args: Any, **kwargs: Any) -> Any:
        """The function as its author has it compiled."""
        return self._written(*args, **kwargs)

    def graph(self, mode: Mode = Mode.GRAPH) -> Any:
        """The user's function, or another one of the same Python code and with other options."""
        if not mode.is_other:
            return self._function
        if mode not in self._others:
            python = self._traced_as(mode, self._function.python_function)
            other = self._others[mode] = self._function._clone(python)
            vars(other).update({f"_{name}": value for name, value in mode.options.items()})
            if mode.tensors:
                self._others[mode] = other = WithTensors(other, mode.tensors)
            if mode.arrays:
                self._others[mode] = WithKeptArrays(other, python, mode.arrays, self._tensors)
            if mode.lengths:
                self._others[mode] = WithLengths(self._others[mode], mode.lengths)
        return self._others[mode]

    def anew(self) -> Any:
        """The same, not traced yet: what it takes to compile can be timed."""
        return self._function._clone(self._function.python_function)

    def give_back(self) -> None:
        """Let the user's function be what it was."""
        vars(self._function).pop("_call", None)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_looked_at:
            self._numbers.note(args, kwargs)
            self.numbers = self._numbers.changing
        self._keep_state(args, kwargs)
        self._record(args, kwargs)

        def written() -> Any:
            self._ran_as_written = True
            return self._written(*args, **kwargs)

        return self._otherwise(args, kwargs, written) if self.mode.is_other else written()
