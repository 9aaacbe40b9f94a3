"""A training step that is a ``tf.function`` already: run as it is, or as one of other options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, final

import tensorflow as tf

from uncork.compat.tf.functions import (
    Function,
    clone,
    intercept_calls,
    is_xla_compiled,
    restore_calls,
)
from uncork.core.base.record import digest
from uncork.pycode.purity.reachability import named_code_digest
from uncork.training.loop_step.array_arguments import CachedArrayFunction
from uncork.training.loop_step.loop_step import InterceptedStep
from uncork.training.loop_step.loss import find_returned_names
from uncork.training.loop_step.mode import StepMode
from uncork.training.loop_step.number_arguments import ChangingNumbers, TensorArgumentFunction
from uncork.training.transforms.padded_arguments import PaddedArgumentFunction


def function_code_digest(function: Any) -> str:
    """Digest of the code of a ``tf.function`` and of what it calls, equal in the next process.

    Its name is part of it: two methods of one class reach the same code. ``""`` for anything else.

    Example:
        >>> function_code_digest(tf.function(lambda x: 2 * x)) != "", function_code_digest("a text")
        (True, '')
    """
    if not isinstance(function, Function):
        return ""
    python = function.python_function
    target = getattr(inspect.unwrap(python), "__self__", None)  # TensorFlow's, of a method
    code = named_code_digest(python, *filter(None, [getattr(target, "target_class", None)]))
    return digest(code, getattr(python, "__qualname__", "")) if code else ""


@final
class CompiledStep(InterceptedStep):
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
        >>> step.mode = StepMode.XLA
        >>> int(double(tf.constant(4))), step.mode_refusal
        (8, '')
        >>> step.restore()
    """

    def __init__(
        self, function: Any, on_refusal: Callable[[str, str], None] = lambda _how, _why: None
    ) -> None:
        super().__init__(on_refusal)
        self.refusal, self.code_digest = "", function_code_digest(function)
        self.returned_names = find_returned_names(inspect.unwrap(function.python_function))
        self.is_xla = is_xla_compiled(function)
        self._function = function
        self._others: dict[StepMode, Any] = {}
        self._numbers = ChangingNumbers(function.python_function)
        self._written = intercept_calls(function, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of what TensorFlow does at a call."""
        if self._running or not tf.executing_eagerly():
            return self._written(*args, **kwargs)
        return self.run(*args, **kwargs)

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """The function as its author has it compiled."""
        return self._written(*args, **kwargs)

    def graph_function(self, mode: StepMode = StepMode.GRAPH) -> Any:
        """The user's function, or another one of the same Python code and with other options."""
        if not mode.is_modified:
            return self._function
        if mode not in self._others:
            python = self._traced_as(mode, self._function.python_function)
            other = clone(self._function, python, **mode.tf_function_options)
            self._others[mode] = other
            if mode.tensor_arguments:
                self._others[mode] = other = TensorArgumentFunction(other, mode.tensor_arguments)
            if mode.array_arguments:
                self._others[mode] = CachedArrayFunction(
                    other, python, mode.array_arguments, self._tensors
                )
            if mode.padded_arguments:
                self._others[mode] = PaddedArgumentFunction(
                    self._others[mode], mode.padded_arguments
                )
        return self._others[mode]

    def untraced_copy(self) -> Any:
        """The same, not traced yet: what it takes to compile can be timed."""
        return clone(self._function, self._function.python_function)

    def restore(self) -> None:
        """Let the user's function be what it was."""
        restore_calls(self._function)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_examined:
            self._numbers.note_call(args, kwargs)
            self.number_arguments = self._numbers.changing_names
        self._save_initial_state(args, kwargs)
        self._record(args, kwargs)

        def written() -> Any:
            self._ran_as_written = True
            return self._written(*args, **kwargs)

        return self._run_in_mode(args, kwargs, written) if self.mode.is_modified else written()
