"""Is a loop's training the same in another process? Its recorded calls are made again there."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.random_state import random_state, without_process_state
from uncork.core.documents.plan import Proof
from uncork.training.loop_step.loop_step import CallArguments, InterceptedStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.rounding import NUDGED_RUNS, refuse_unrepeatable
from uncork.verify.provers.handover import (
    MIN_HANDOVER_STEPS,
    LoopHandover,
    handover_steps,
    size_refusal,
)
from uncork.verify.provers.recorded_calls import (
    NO_WEIGHT_CHANGE,
    RecordedTraining,
    initial_state,
    replay_until_change,
    state_of_step,
)

_NOT_SEEN: Final = "no call of the step was recorded"
_PLAIN: Final = (bool, int, float, complex, str, bytes)


def record_loop_handover(step: InterceptedStep) -> LoopHandover:
    """What another process needs; the variables are given back afterwards.

    Args:
        step: Seen, with some calls recorded; on the thread that calls it.
    """
    refused = step.refusal or ("" if step.recorded_calls else _NOT_SEEN)
    if refused:
        return LoopHandover(
            state=[], order=[], runs=[], refusal_reason=refused, calls=[], random_states=()
        )
    now = state_of_step(step)
    state = initial_state(step, now)
    values = state.initial_values
    refused = size_refusal(sum(value.nbytes for value in values))
    random = random_state()
    order, runs = [0], list[ReplayResult]()
    try:
        if not refused:
            train = RecordedTraining(step, state, random_states=random)
            moving = replay_until_change(train, step, state, _order(step, train))
            if moving is None:
                refused = NO_WEIGHT_CHANGE
            else:
                order, first = moving
                runs, refused = _runs(step, train, order, first)
    finally:
        now.restore()
    return LoopHandover(
        state=values,
        order=order,
        runs=runs,
        refusal_reason=refused,
        calls=[_portable(call) for call in step.recorded_calls],
        random_states=without_process_state(random),
    )


def prove_loop_handover(step: InterceptedStep, mode: StepMode, handover: LoopHandover) -> Proof:
    """Train as another process did, from its state; the variables are left so.

    Args:
        step: Seen, with a call recorded; on the thread that calls it.
        mode: How it runs here.
        handover: By :func:`record_loop_handover`.
    """
    refused = handover.refusal_reason or step.refusal or _called_otherwise(step, handover)
    if not refused:
        state = state_of_step(step)
        refused = state.set_initial_values(handover.state)
    if refused:
        return Proof(kind="exact", passed=False, detail=refused)
    calls = [_as_called(leaves, step.recorded_calls[0]) for leaves in handover.calls]
    function = step.original if mode == StepMode.ORIGINAL else step.graph_function(mode)
    train = RecordedTraining(step, state, calls=calls, random_states=handover.random_states)
    return handover.compare(train.replay(function, handover.order))


def _called_otherwise(step: InterceptedStep, handed: LoopHandover) -> str:
    """Why the calls that were recorded there cannot be made here; ``""`` where they can."""
    if not step.recorded_calls:
        return _NOT_SEEN
    count, counts = len(_portable(step.recorded_calls[0])), {len(leaves) for leaves in handed.calls}
    there = " or ".join(map(str, sorted(counts)))
    return (
        ""
        if counts == {count}
        else f"the step gets {count} values in this process, and {there} in the other one"
    )


def _runs(
    step: InterceptedStep, train: RecordedTraining, order: list[int], first: ReplayResult
) -> tuple[list[ReplayResult], str]:
    """The original twice and nudged; or why there is nothing to compare with."""
    again = train.replay(step.original, order)
    differ = refuse_unrepeatable(first, again, "exact")
    if differ is not None:
        return [], differ.detail
    nudged = [train.replay(step.original, order, seed=seed) for seed in range(NUDGED_RUNS)]
    return [first, again, *nudged], ""


def _order(step: InterceptedStep, train: RecordedTraining) -> list[int]:
    few = [n % len(step.recorded_calls) for n in range(MIN_HANDOVER_STEPS)]
    train.replay(step.original, few)  # traced by then
    begin = time.perf_counter()
    train.replay(step.original, few)
    steps = handover_steps((time.perf_counter() - begin) / len(few))
    return [n % len(step.recorded_calls) for n in range(steps)]


def _portable(call: CallArguments) -> list[Any]:
    """Its leaves; None for one that only this process has."""
    return [_taken(leaf) for leaf in tf.nest.flatten(call, expand_composites=True)]


def _taken(leaf: Any) -> Any:
    if tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable):
        is_value = leaf.dtype not in (tf.resource, tf.variant)
        return ("tensor", leaf.numpy()) if is_value and hasattr(leaf, "numpy") else None
    return ("value", leaf) if isinstance(leaf, (np.ndarray, np.generic, *_PLAIN)) else None


def _as_called(leaves: list[Any], like: CallArguments) -> CallArguments:
    """A call as it was made there, with this process's own objects in it."""
    own = tf.nest.flatten(like, expand_composites=True)
    taken = [_given(leaf, each) for leaf, each in zip(leaves, own, strict=True)]
    call: CallArguments = tf.nest.pack_sequence_as(like, taken, expand_composites=True)
    return call


def _given(leaf: Any, own: Any) -> Any:
    if leaf is None:
        return own
    kind, value = leaf
    return tf.convert_to_tensor(value) if kind == "tensor" else value
