"""Short trainings of a loop of the user's own, over calls of its step that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.proof.rounding import NUDGE_UNITS
from uncork.step import Call, GraphState, Replay, TakenStep
from uncork.watch import random_state, set_random_state


class RecordedTraining:
    """Trains from one state, again and again.

    Args:
        calls: Of the step.
        state: Where each training begins.
        random: The global random states that each begins with; None for what they are now.
    """

    def __init__(
        self, calls: Sequence[Call], state: GraphState, random: tuple[Any, ...] | None = None
    ) -> None:
        self._calls = calls
        self._state = state
        self._random = random_state() if random is None else random

    def over(
        self,
        function: Callable[..., Any],
        order: Sequence[int],
        windows: int | None = None,
        *,
        seed: int | None = None,
    ) -> Replay:
        """Call a function on these recorded arguments, in this order.

        Args:
            function: The step, as written or otherwise.
            order: Of the calls.
            windows: Losses are averaged over so many parts; None for each by itself.
            seed: Of a nudge of the last bits; None for none.
        """
        set_random_state(self._random)
        self._state.restore()
        if seed is not None:
            self._state.nudge(seed, NUDGE_UNITS)
        metric = self._state.metric_loss()
        told: list[float | None] = []
        for args, kwargs in (self._calls[n] for n in order):
            loss = _loss(function(*args, **kwargs))
            told.append(metric.since() if loss is None and metric is not None else loss)
        losses = [loss for loss in told if loss is not None]
        if windows and losses:
            losses = [float(part.mean()) for part in np.array_split(losses, windows)]
        return Replay(tuple(losses), self._state.values())


def state_of_step(step: TakenStep) -> GraphState:
    """Of all that a step changes, as it is now; it may be a graph, and a call was recorded."""
    args, kwargs = step.calls[0]
    return GraphState(step.graph().get_concrete_function(*args, **kwargs))


def began(step: TakenStep, now: GraphState) -> GraphState:
    """Its state at its first calls, where that was kept: a loss says most there.

    An optimizer may have got its variables since.
    """
    return step.began if step.began is not None and len(step.began) == len(now) else now


def _loss(returned: Any) -> float | None:
    """The first number with a fraction that a step returns."""
    leaves: Sequence[Any] = tf.nest.flatten(returned)
    numbers = (x for x in leaves if tf.is_tensor(x) and x.dtype.is_floating and x.shape == ())
    return next((float(number) for number in numbers), None)
