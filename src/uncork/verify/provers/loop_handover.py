"""Is a loop's training the same in another process? Its recorded calls are made again there."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.random_state import apart_from_process, random_state
from uncork.core.documents.plan import Proof
from uncork.training.loop_step.loop_step import Call, TakenStep
from uncork.training.loop_step.mode import Mode
from uncork.training.state.arrays import Replay
from uncork.verify.criteria.rounding import NUDGED_RUNS, unrepeatable
from uncork.verify.provers.handover import FEWEST_STEPS, HandedCalls, steps_handed_over, too_large
from uncork.verify.provers.recorded_calls import (
    MOVES_NOTHING,
    RecordedTraining,
    began,
    state_of_step,
    until_it_moves,
)

_NOT_SEEN: Final = "no call of the step was seen"
_PLAIN: Final = (bool, int, float, complex, str, bytes)


def handed_over(step: TakenStep) -> HandedCalls:
    """What another process needs; the variables are given back afterwards.

    Args:
        step: Seen, with some calls recorded; on the thread that calls it.
    """
    refused = step.refusal or ("" if step.calls else _NOT_SEEN)
    if refused:
        return HandedCalls(state=[], order=[], runs=[], refused=refused, calls=[], random=())
    now = state_of_step(step)
    state = began(step, now)
    values = state.saved
    refused = too_large(sum(value.nbytes for value in values))
    random = random_state()
    order, runs = [0], list[Replay]()
    try:
        if not refused:
            train = RecordedTraining(step, state, random=random)
            moving = until_it_moves(train, step, state, _order(step, train))
            if moving is None:
                refused = MOVES_NOTHING
            else:
                order, first = moving
                runs, refused = _runs(step, train, order, first)
    finally:
        now.restore()
    return HandedCalls(
        state=values,
        order=order,
        runs=runs,
        refused=refused,
        calls=[_portable(call) for call in step.calls],
        random=apart_from_process(random),
    )


def proved_elsewhere(step: TakenStep, mode: Mode, handed: HandedCalls) -> Proof:
    """Train as another process did, from its state; the variables are left so.

    Args:
        step: Seen, with a call recorded; on the thread that calls it.
        mode: How it runs here.
        handed: By :func:`handed_over`.
    """
    refused = handed.refused or step.refusal or _called_otherwise(step, handed)
    if not refused:
        state = state_of_step(step)
        refused = state.take(handed.state)
    if refused:
        return Proof(kind="exact", passed=False, detail=refused)
    calls = [_as_called(leaves, step.calls[0]) for leaves in handed.calls]
    function = step.written if mode == Mode.WRITTEN else step.graph(mode)
    train = RecordedTraining(step, state, calls=calls, random=handed.random)
    return handed.judged(train.over(function, handed.order))


def _called_otherwise(step: TakenStep, handed: HandedCalls) -> str:
    """Why the calls that were recorded there cannot be made here; ``""`` where they can."""
    if not step.calls:
        return _NOT_SEEN
    count, counts = len(_portable(step.calls[0])), {len(leaves) for leaves in handed.calls}
    there = " or ".join(map(str, sorted(counts)))
    return "" if counts == {count} else f"the step gets {count} values here, and {there} there"


def _runs(
    step: TakenStep, train: RecordedTraining, order: list[int], first: Replay
) -> tuple[list[Replay], str]:
    """The original twice and nudged; or why there is nothing to compare with."""
    again = train.over(step.written, order)
    differ = unrepeatable(first, again, "exact")
    if differ is not None:
        return [], differ.detail
    nudged = [train.over(step.written, order, seed=seed) for seed in range(NUDGED_RUNS)]
    return [first, again, *nudged], ""


def _order(step: TakenStep, train: RecordedTraining) -> list[int]:
    few = [n % len(step.calls) for n in range(FEWEST_STEPS)]
    train.over(step.written, few)  # traced by then
    begin = time.perf_counter()
    train.over(step.written, few)
    steps = steps_handed_over((time.perf_counter() - begin) / len(few))
    return [n % len(step.calls) for n in range(steps)]


def _portable(call: Call) -> list[Any]:
    """Its leaves; None for one that only this process has."""
    return [_taken(leaf) for leaf in tf.nest.flatten(call, expand_composites=True)]


def _taken(leaf: Any) -> Any:
    if tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable):
        is_value = leaf.dtype not in (tf.resource, tf.variant)
        return ("tensor", leaf.numpy()) if is_value and hasattr(leaf, "numpy") else None
    return ("value", leaf) if isinstance(leaf, (np.ndarray, np.generic, *_PLAIN)) else None


def _as_called(leaves: list[Any], like: Call) -> Call:
    """A call as it was made there, with this process's own objects in it."""
    own = tf.nest.flatten(like, expand_composites=True)
    taken = [_given(leaf, each) for leaf, each in zip(leaves, own, strict=True)]
    call: Call = tf.nest.pack_sequence_as(like, taken, expand_composites=True)
    return call


def _given(leaf: Any, own: Any) -> Any:
    if leaf is None:
        return own
    kind, value = leaf
    return tf.convert_to_tensor(value) if kind == "tensor" else value
