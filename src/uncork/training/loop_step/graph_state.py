"""The variables that a traced function reads or writes: all that its calls leave behind."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tf.eager_context import async_wait
from uncork.training.loop_step.loss import MetricLoss
from uncork.training.state.arrays import Arrays

# In the names of what Keras's layers keep beside their weights.
_MOVING: Final = "moving_"


class GraphState:
    """Takes the values of a function's variables, and gives them back.

    Args:
        traced: Concrete functions. What they got hold of while they were traced is all that they
            can change: variables of models, of optimizers, of generators of random numbers alike.

    Example:
        >>> counter = tf.Variable(1.0)
        >>> count = tf.function(lambda: counter.assign_add(1.0)).get_concrete_function()
        >>> state = GraphState(count)
        >>> _ = count()
        >>> float(state.current_values()[0])
        2.0
        >>> state.restore()
        >>> float(counter)
        1.0
    """

    def __init__(self, *traced: Any) -> None:
        # A function does not keep its variables alive: what is looked up here must be held.
        each = {id(one): one for one in traced}.values()
        found = [variable for one in each for variable in _in_order(one)]
        self._variables = tuple({id(variable): variable for variable in found}.values())
        self._saved = self.current_values()

    def current_values(self) -> Arrays:
        """As they are now."""
        return [tf.identity(variable).numpy() for variable in self._variables]

    @property
    def initial_values(self) -> Arrays:
        """As they were at the beginning."""
        return self._saved

    def set_initial_values(self, values: Arrays) -> str:
        """Let the beginning be what another process found there.

        Returns:
            Why these cannot be values of these variables; ``""`` where they can.
        """
        if [_kind(value) for value in values] != [_kind(value) for value in self._saved]:
            return "the step has other variables in another process"
        self._saved = values
        return ""

    @property
    def learned_positions(self) -> frozenset[int]:
        """Positions of what can be trained, and of slots, which are as large.

        Moving averages are as large as well, and follow the data, whatever the weights do.
        """
        sizes = {tuple(v.shape) for v in self._variables if v.trainable and v.shape.rank}
        slots = {
            n
            for n, v in enumerate(self._variables)
            if v.shape.rank and tuple(v.shape) in sizes and _MOVING not in v.name
        }
        return frozenset(slots | {n for n, v in enumerate(self._variables) if v.trainable})

    def metric_loss(self) -> MetricLoss | None:
        """The loss that the function keeps the mean of, where it is plain which that is."""
        return MetricLoss.from_variables(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def has_trained(self, values: Arrays) -> bool:
        """Something that can be trained is another one than at the beginning.

        Args:
            values: After some calls.
        """
        each = zip(self._variables, self._saved, values, strict=True)
        return any(v.trainable and a.tobytes() != b.tobytes() for v, a, b in each)

    def restore(self) -> None:
        """Give back what they were at the beginning."""
        for variable, value in zip(self._variables, self._saved, strict=True):
            variable.assign(value)
        async_wait()  # another process's device lets a function begin before that

    def perturb(self, seed: int, units: int) -> None:
        """Move every number with a fraction by some units in the last place, up or down."""
        signs = np.random.default_rng(seed)
        for variable in self._variables:
            if variable.dtype.is_floating:
                value = tf.identity(variable).numpy()
                unit = float(np.spacing(np.ones((), value.dtype)))
                sign = signs.choice(np.array([-1.0, 1.0]), size=value.shape)
                variable.assign((value * (1 + units * unit * sign)).astype(value.dtype))
        async_wait()  # another process's device lets a function begin before that


def _in_order(traced: Any) -> tuple[Any, ...]:
    """Its variables as they were met while it was traced: in each process alike.

    TensorFlow keeps them in a set, ordered by where they are in memory.
    """
    met = {id(tensor): n for n, tensor in enumerate(traced.captured_inputs)}

    def place(variable: Any) -> int:
        return met.get(id(getattr(variable, "handle", None)), len(met))

    return tuple(sorted(traced.variables, key=place))


def _kind(value: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return value.dtype, value.shape
