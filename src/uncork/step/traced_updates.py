"""Weights updated by one kernel each, only while a step of a user's own is traced.

A graph keeps the kernels that the optimizer's update was traced to. So the optimizer itself stays
as it is: for whoever calls it elsewhere, saves it, or goes on with it.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf
from tensorflow.python.util import tf_decorator

from uncork.step.fused_updates import fusable_weights, kernel_updates

_UPDATE: Final = "_distributed_tf_update_step"
_NONE: Final = (
    "no optimizer of Keras's that TensorFlow has such a kernel for updates a weight in it"
)


class Updates:
    """Updates of weights by one step: those that became a kernel each.

    Attributes:
        replaced: How many.

    Example:
        >>> weight = keras.Variable([1.0, 2.0])
        >>> optimizer = keras.optimizers.Adam(0.5)
        >>> optimizer.build([weight])
        >>> updates = Updates()
        >>> step = tf.function(updates.in_kernels(lambda g: optimizer.apply([g])))
        >>> _ = step(tf.constant([1.0, -1.0]))
        >>> weight.numpy().round(3).tolist(), updates.replaced
        ([0.5, 2.5], 1)
    """

    def __init__(self) -> None:
        self.replaced = 0
        self._traced = False

    @property
    def why_none(self) -> str:
        """Why there is none, as part of a sentence; ``""`` where nothing was traced, too."""
        return "" if self.replaced or not self._traced else _NONE

    def in_kernels(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function whose optimizers update so whenever it is traced.

        Args:
            python: What a ``tf.function`` is made of. TensorFlow converts its branches as before.
        """

        def traced(*args: Any, **kwargs: Any) -> Any:
            with self._in_force():
                # TensorFlow puts its conversion of the function there.
                return traced.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

        return tf_decorator.make_decorator(python, traced)  # type: ignore[no-any-return]

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """On this thread, for every optimizer of Keras's."""
        owner = next(c for c in keras.optimizers.Optimizer.__mro__ if _UPDATE in vars(c))
        as_ever, here = vars(owner)[_UPDATE], threading.get_ident()

        @functools.wraps(as_ever)
        def update(optimizer: Any, strategy: Any, pairs: Any, rate: Any) -> None:
            own = functools.partial(as_ever, optimizer)
            if threading.get_ident() != here or not tf.inside_function():
                own(strategy, pairs, rate)
            else:
                self.replaced += kernel_updates(optimizer, own, strategy, pairs, rate)

        setattr(owner, _UPDATE, tf.autograph.experimental.do_not_convert(update))
        try:
            yield
        finally:
            setattr(owner, _UPDATE, as_ever)
            self._traced = True


def fusable_in(function: Any) -> int:
    """How many weights that a step trains one kernel each could update.

    Args:
        function: A ``tf.function`` that was called before.
    """
    traced = getattr(function, "_function_cache", None)
    values = [] if traced is None else traced.values()
    held = {id(variable) for each in values for variable in each.variables}
    # Their type is asked, not they: proxies of all kinds are among these objects.
    kind = keras.optimizers.Optimizer
    known = [each for each in gc.get_objects() if issubclass(type(each), kind) and each.built]
    its_own = (each for each in known if any(id(slot.value) in held for slot in each.variables))
    return sum(map(fusable_weights, its_own))
