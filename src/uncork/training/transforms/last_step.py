"""The step that meets the end of the data, where XLA compiles all steps.

How long data are that are filtered or read from records, only their end tells: the step that asks
for a batch then gets none. As TensorFlow runs it, whatever of that step needs no batch still
happens: it is counted, seeds go on, weights decay. A step that XLA compiles runs as a whole or not
at all, and the training would go on from another count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import tensorflow as tf

from uncork.training.tracing.model_attribute import override_attribute

_MAKES: Final = "make_train_function"


@contextmanager
def run_original_last_step(
    model: Any,
    jit_compile: Any,
    is_compiled: Callable[[], bool],
    without_xla: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    """The last step of such an epoch is left to the function that the user's own settings make.

    Args:
        model: Set to be compiled with XLA.
        jit_compile: As its user wrote it.
        is_compiled: It is still: a callback may have called ``compile``.
        without_xla: What else would compile the step does not, inside.
    """
    make = getattr(model, _MAKES)

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        make(*args, **kwargs)
        if is_compiled() and not isinstance(model.train_function, LastStepFallback):

            def as_written() -> Any:
                with without_xla():
                    return _as_written(model, make, jit_compile)

            model.train_function = LastStepFallback(model.train_function, as_written)
        return model.train_function

    with override_attribute(model, _MAKES, made):
        yield


class LastStepFallback:
    """A training function that hands over to another one at the end of the data.

    Args:
        function: Keras's, compiled with XLA.
        create_original: Makes the other one, which is traced only if it is needed.

    Example:
        >>> def at_the_end(_):
        ...     raise tf.errors.OutOfRangeError(None, None, "no more")
        >>> LastStepFallback(at_the_end, lambda: lambda _: "counted")(iter(()))
        'counted'
    """

    def __init__(self, function: Any, create_original: Callable[[], Any]) -> None:
        self._function = function
        self._as_written = functools.cache(create_original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An execution."""
        try:
            return self._function(*args, **kwargs)
        except tf.errors.OutOfRangeError:
            # An iterator stays at its end: this raises the same, when it has counted.
            return self._as_written()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def _as_written(model: Any, make: Callable[..., Any], jit_compile: Any) -> Any:
    now = {name: getattr(model, name) for name in ("jit_compile", "train_function")}
    model.jit_compile = jit_compile
    try:
        make(force=True)
        return model.train_function
    finally:
        for name, value in now.items():
            setattr(model, name, value)
