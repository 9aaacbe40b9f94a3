"""Short trainings of a custom loop over recorded calls of its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.loop_step import CallArguments, InterceptedStep
from uncork.training.loop_step.loss import find_returned_loss
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.snapshot import find_non_finite
from uncork.verify.criteria.rounding import NUDGE_UNITS

# Calls of a step among which at least one updates weights, if it ever does.
_LONG: Final = 64
NO_WEIGHT_CHANGE: Final = (
    "the function changes no weight: Uncork cannot compare how its result is used"
)


class RecordedTraining:
    """Trains from one state, again and again.

    Args:
        step: That trains.
        state: Where each training begins.
        calls: Of the step; those that were recorded unless given.
        random_states: The global random states that each begins with; None for what they are now.
    """

    def __init__(
        self,
        step: InterceptedStep,
        state: GraphState,
        *,
        calls: Sequence[CallArguments] | None = None,
        random_states: tuple[Any, ...] | None = None,
    ) -> None:
        self._calls = step.recorded_calls if calls is None else calls
        self._names = step.returned_names
        self._state = state
        self._constants = find_non_finite(state.initial_values)
        self._random = random_state() if random_states is None else random_states

    @property
    def call_count(self) -> int:
        """Calls that there are."""
        return len(self._calls)

    def replay(
        self,
        function: Callable[..., Any],
        order: Sequence[int],
        windows: int | None = None,
        *,
        seed: int | None = None,
    ) -> ReplayResult:
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
            self._state.perturb(seed, NUDGE_UNITS)
        metric = self._state.metric_loss()
        judged, losses = True, list[float]()
        for args, kwargs in (self._calls[n] for n in order):
            found = find_returned_loss(function(*args, **kwargs), self._names)
            kept = metric.mean_since_last() if metric is not None else None
            if kept is not None and (found is None or not found[0]):
                found = True, kept
            if found is not None:
                judged = judged and found[0]
                losses.append(found[1])
        if windows:
            judged = judged and len(losses) >= windows
        if windows and judged:
            losses = [float(part.mean()) for part in np.array_split(losses, windows)]
        values = self._state.current_values()
        return ReplayResult(
            tuple(losses),
            values,
            is_loss_comparable=judged,
            constant_positions=self._constants,
            learned_positions=self._state.learned_positions,
        )


def replay_until_change(
    training: RecordedTraining, step: InterceptedStep, state: GraphState, order: list[int]
) -> tuple[list[int], ReplayResult] | None:
    """An order of calls in which weights move, and what it leads to.

    Args:
        training: Over calls of the step.
        step: As written.
        state: Where it began.
        order: Of some calls; of more of them where these move nothing, as gradients may be
            accumulated, or the first ones left out.

    Returns:
        None where nothing moves: steps that only compute something prove nothing.
    """
    for each in (order, [n % training.call_count for n in range(_LONG)]):
        found = training.replay(step.original, each)
        if state.has_trained(list(found.weights)):
            return each, found
    return None


def state_of_step(step: InterceptedStep) -> GraphState:
    """Of all that a step changes, as it is now; it may be a graph, and calls were recorded.

    What a call changes may depend on its arguments: one network after the other, say.
    """
    return state_of_calls(step, step.recorded_calls)


def state_of_calls(step: InterceptedStep, calls: Sequence[CallArguments]) -> GraphState:
    """Of all that it changes when it is called so."""
    graph = step.graph_function()
    return GraphState(*(graph.get_concrete_function(*args, **kwargs) for args, kwargs in calls))


def initial_state(step: InterceptedStep, current_state: GraphState) -> GraphState:
    """Its state at its first calls, where that was kept: a loss says most there.

    An optimizer may have got its variables since.
    """
    return (
        step.initial_state
        if step.initial_state is not None and len(step.initial_state) == len(current_state)
        else current_state
    )


def drop_last_row(call: tuple[Any, Any]) -> tuple[Any, Any]:
    """Arguments and keyword arguments, of each that has a row for each sample all but the last.

    Example:
        >>> (x, y), _ = drop_last_row(((np.arange(3), np.float32(7)), {}))
        >>> x, float(y)
        (array([0, 1]), 7.0)
    """
    rows = most_common_length(tf.nest.flatten(call)) or 0

    def cut(leaf: Any) -> Any:
        is_batch = isinstance(leaf, np.ndarray | tf.Tensor | tf.RaggedTensor)
        return leaf[:-1] if is_batch and rows > 1 and _length(leaf) == rows else leaf

    args, kwargs = tf.nest.map_structure(cut, call)
    return args, kwargs


def most_common_length(leaves: list[Any]) -> int | None:
    """The first dimension that most leaves have; the smallest of several; None without any."""
    sizes = [_length(leaf) for leaf in leaves]
    common = Counter(size for size in sizes if size).most_common()
    return min((size for size, count in common if count == common[0][1]), default=None)


def _length(leaf: Any) -> int | None:
    parts = getattr(leaf, "values", None)
    if isinstance(parts, tuple):  # one for each replica
        return sum(_length(part) or 0 for part in parts)
    shape = getattr(leaf, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) and shape[0] else None
