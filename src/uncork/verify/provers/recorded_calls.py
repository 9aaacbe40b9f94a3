"""Short trainings of a loop of the user's own, over calls of its step that were recorded.

What the step of a loop is called with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.loop_step import Call, TakenStep
from uncork.training.loop_step.loss import returned_loss
from uncork.training.state.arrays import Replay
from uncork.training.state.snapshot import not_finite
from uncork.verify.criteria.rounding import NUDGE_UNITS

# Calls of a step among which at least one updates weights, if it ever does.
_LONG: Final = 64
MOVES_NOTHING: Final = (
    "the function moves no weight: what is made of what it gives back is not seen, and not compared"
)


class RecordedTraining:
    """Trains from one state, again and again.

    Args:
        step: That trains.
        state: Where each training begins.
        calls: Of the step; those that were recorded unless given.
        random: The global random states that each begins with; None for what they are now.
    """

    def __init__(
        self,
        step: TakenStep,
        state: GraphState,
        *,
        calls: Sequence[Call] | None = None,
        random: tuple[Any, ...] | None = None,
    ) -> None:
        self._calls = step.calls if calls is None else calls
        self._names = step.returns
        self._state = state
        self._constants = not_finite(state.saved)
        self._random = random_state() if random is None else random

    @property
    def held(self) -> int:
        """Calls that there are."""
        return len(self._calls)

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
        judged, losses = True, list[float]()
        for args, kwargs in (self._calls[n] for n in order):
            found = returned_loss(function(*args, **kwargs), self._names)
            kept = metric.since() if metric is not None else None
            if kept is not None and (found is None or not found[0]):
                found = True, kept
            if found is not None:
                judged = judged and found[0]
                losses.append(found[1])
        if windows:
            judged = judged and len(losses) >= windows
        if windows and judged:
            losses = [float(part.mean()) for part in np.array_split(losses, windows)]
        values = self._state.values()
        return Replay(
            tuple(losses),
            values,
            judged=judged,
            constants=self._constants,
            learning=self._state.learning,
        )


def until_it_moves(
    train: RecordedTraining, step: TakenStep, state: GraphState, order: list[int]
) -> tuple[list[int], Replay] | None:
    """An order of calls in which weights move, and what it leads to.

    Args:
        train: Over calls of the step.
        step: As written.
        state: Where it began.
        order: Of some calls; of more of them where these move nothing, as gradients may be
            accumulated, or the first ones left out.

    Returns:
        None where nothing moves: steps that only compute something prove nothing.
    """
    for each in (order, [n % train.held for n in range(_LONG)]):
        found = train.over(step.written, each)
        if state.trains(list(found.weights)):
            return each, found
    return None


def state_of_step(step: TakenStep) -> GraphState:
    """Of all that a step changes, as it is now; it may be a graph, and calls were recorded.

    What a call changes may depend on its arguments: one network after the other, say.
    """
    return state_of_calls(step, step.calls)


def state_of_calls(step: TakenStep, calls: Sequence[Call]) -> GraphState:
    """Of all that it changes when it is called so."""
    graph = step.graph()
    return GraphState(*(graph.get_concrete_function(*args, **kwargs) for args, kwargs in calls))


def began(step: TakenStep, now: GraphState) -> GraphState:
    """Its state at its first calls, where that was kept: a loss says most there.

    An optimizer may have got its variables since.
    """
    return step.began if step.began is not None and len(step.began) == len(now) else now


def one_row_less(given: tuple[Any, Any]) -> tuple[Any, Any]:
    """Arguments and keyword arguments, of each that has a row for each sample all but the last.

    Example:
        >>> (x, y), _ = one_row_less(((np.arange(3), np.float32(7)), {}))
        >>> x, float(y)
        (array([0, 1]), 7.0)
    """
    rows = _most_common(tf.nest.flatten(given)) or 0

    def cut(leaf: Any) -> Any:
        is_batch = isinstance(leaf, np.ndarray | tf.Tensor | tf.RaggedTensor)
        return leaf[:-1] if is_batch and rows > 1 and _length(leaf) == rows else leaf

    args, kwargs = tf.nest.map_structure(cut, given)
    return args, kwargs


def _most_common(leaves: list[Any]) -> int | None:
    sizes = [_length(leaf) for leaf in leaves]
    common = Counter(size for size in sizes if size).most_common()
    return min((size for size, count in common if count == common[0][1]), default=None)


def _length(leaf: Any) -> int | None:
    parts = getattr(leaf, "values", None)
    if isinstance(parts, tuple):  # one for each replica
        return sum(_length(part) or 0 for part in parts)
    shape = getattr(leaf, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) and shape[0] else None
