"""Is a loop's step the same as a graph, or under XLA? Both train from one state, same calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee, find_loosest_guarantee
from uncork.core.edits.step import PadArguments
from uncork.measure.machine.devices import is_tf32_enabled
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.loop_step import CallArguments, InterceptedStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.precision.tf32 import without_tf32
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.precision import NO_LOSS_REASON
from uncork.verify.criteria.rounding import (
    DIVERGING_RUNS,
    NUDGED_RUNS,
    TOO_LITTLE_MOVEMENT,
    can_detect_divergence,
    differs_only_by_rounding,
    prove_exact,
    prove_rounding,
    refuse_unrepeatable,
)
from uncork.verify.provers.data_orders import prove_over_orders
from uncork.verify.provers.padding import returned_value_difference, select_padded_calls
from uncork.verify.provers.recorded_calls import (
    NO_WEIGHT_CHANGE,
    RecordedTraining,
    drop_last_row,
    initial_state,
    replay_until_change,
    state_of_step,
)

# As many as the proofs of a model's own step compare.
_EXACT_STEPS: Final = 24
_FIRST_STEPS: Final = 3
_ROUNDING_STEPS: Final = 12


def _as_they_are(call: CallArguments) -> CallArguments:
    return call


def prove_loop_step(
    step: InterceptedStep,
    mode: StepMode,
    kind: Guarantee,
    budget_s: float = math.inf,
    sent: Callable[[CallArguments], CallArguments] = _as_they_are,
) -> Proof:
    """Run the recorded calls as written and otherwise; the variables are given back afterwards.

    Args:
        step: Seen, with some calls recorded; on the thread that calls it.
        mode: How else.
        kind: ``exact``, ``rounding`` where bits differ, or ``precision``.
        budget_s: Seconds that a proof of ``precision`` may take.
        sent: What it is called with otherwise, of the arguments that were recorded.
    """
    if step.refusal or not step.recorded_calls:
        detail = step.refusal or "no call of the step was recorded"
        return Proof(kind=kind, passed=False, detail=detail)
    now = state_of_step(step)
    state = initial_state(step, now)
    otherwise = step.graph_function(mode)

    def candidate(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = sent((args, kwargs))
        return otherwise(*args, **kwargs)

    try:
        if kind == "precision":
            return _over_orders(step, candidate, state, budget_s)
        return _of_weights(step, mode, kind, candidate, state, as_they_are=sent is _as_they_are)
    finally:
        now.restore()


def _of_weights(
    step: InterceptedStep,
    mode: StepMode,
    kind: Guarantee,
    candidate: Callable[..., Any],
    state: GraphState,
    *,
    as_they_are: bool,
) -> Proof:
    if (mode.is_xla or mode.is_xla_off) and as_they_are and is_tf32_enabled():
        return _without_tf32(step, candidate, state)
    if mode.padded_arguments is not None:
        return _filled_up(step, mode.padded_arguments, candidate, state)
    if kind != "exact":
        return _compared(step, step.recorded_calls, candidate, state, _ROUNDING_STEPS, kind)
    # Bits that differ do so at once, and a step that runs op by op takes its time.
    first = _compared(step, step.recorded_calls, candidate, state, _FIRST_STEPS, kind)
    if not first.passed:
        return first
    return _compared(step, step.recorded_calls, candidate, state, _EXACT_STEPS, kind)


def _filled_up(
    step: InterceptedStep, edit: PadArguments, otherwise: Callable[..., Any], state: GraphState
) -> Proof:
    """What fills arguments up must count nowhere: in no variable, nor in what the step returns."""
    calls, untold = select_padded_calls(step.recorded_calls, edit)
    if untold:
        return Proof(kind="rounding", passed=False, detail=untold)
    proof = _compared(step, calls, otherwise, state, _ROUNDING_STEPS, "rounding")
    others = ""
    if proof.passed:
        others = returned_value_difference(step.original, otherwise, calls, state)
    if others:
        return replace(proof, passed=False, detail=others)
    return replace(
        proof, kind=find_loosest_guarantee(proof.kind, "rounding")
    )  # longer sums may round otherwise


def _without_tf32(step: InterceptedStep, otherwise: Callable[..., Any], state: GraphState) -> Proof:
    """Called with a row less, both are compiled anew, and kernels are chosen anew for both."""
    calls = [drop_last_row(call) for call in step.recorded_calls]
    with without_tf32():
        found = _compared(step, calls, otherwise, state, _ROUNDING_STEPS, "rounding")
    return replace(found, detail=f"{found.detail}; without TF32, which rounds in both")


def _compared(
    step: InterceptedStep,
    calls: list[CallArguments],
    otherwise: Callable[..., Any],
    state: GraphState,
    steps: int,
    kind: Guarantee,
) -> Proof:
    train = RecordedTraining(step, state, calls=calls)
    moving = replay_until_change(train, step, state, [n % len(calls) for n in range(steps)])
    if moving is None:
        return Proof(kind=kind, passed=False, detail=NO_WEIGHT_CHANGE)
    order, original = moving
    steps = len(order)

    def run(function: Callable[..., Any], seed: int | None = None) -> ReplayResult:
        return train.replay(function, order, seed=seed)

    again = run(step.original)
    refused = refuse_unrepeatable(original, again, kind)
    if refused is not None:
        return _by_what_repeats(step, calls, otherwise, state) or refused
    candidate = run(otherwise)
    exact = prove_exact(original, again, candidate, steps)
    if exact is not None and (exact.passed or kind == "exact"):
        return exact
    nudged = [run(step.original, seed) for seed in range(NUDGED_RUNS)]
    rounded = prove_rounding(original, nudged, candidate, steps)
    tells = can_detect_divergence(train.replay(step.original, []), original, [again, *nudged])
    if rounded.passed and not tells:
        rounded = replace(rounded, passed=False, detail=f"{rounded.detail}; {TOO_LITTLE_MOVEMENT}")
    elif rounded.passed or original.is_equal_to(again):
        return rounded
    return _by_what_repeats(step, calls, otherwise, state) or rounded


def _by_what_repeats(
    step: InterceptedStep,
    calls: list[CallArguments],
    otherwise: Callable[..., Any],
    state: GraphState,
) -> Proof | None:
    """Of a training that goes astray by rounding; None where it does not, or not by it alone."""
    order = [n % len(calls) for n in range(_FIRST_STEPS)]
    train = RecordedTraining(step, state, calls=calls)
    start, first, again = (train.replay(step.original, part) for part in ([], order[:1], order[:1]))
    if not differs_only_by_rounding(first, again):
        return None
    original, *others = (train.replay(step.original, order) for _ in range(1 + DIVERGING_RUNS))
    others += [train.replay(step.original, order, seed=seed) for seed in range(NUDGED_RUNS)]
    moves = state.has_trained(list(original.weights))
    if not (moves and can_detect_divergence(start, original, others)):
        return None
    return prove_rounding(original, others, train.replay(otherwise, order), len(order))


def _over_orders(
    step: InterceptedStep, otherwise: Callable[..., Any], state: GraphState, budget_s: float
) -> Proof:
    train = RecordedTraining(step, state)
    moving = replay_until_change(train, step, state, [0])
    first = moving[1] if moving else train.replay(step.original, [0])
    if not (first.losses and first.is_loss_comparable):
        nothing = "the step returns no loss, and nothing else shows the progress of the training"
        detail = NO_LOSS_REASON if first.losses else nothing
        return Proof(kind="precision", passed=False, detail=detail)
    if moving is None:
        return Proof(kind="precision", passed=False, detail=NO_WEIGHT_CHANGE)

    def over_otherwise(order: Sequence[int], windows: int | None = None) -> ReplayResult:
        step.reset_loss_scale()
        return train.replay(otherwise, order, windows)

    return prove_over_orders(
        functools.partial(train.replay, step.original),
        over_otherwise,
        batch_count=len(step.recorded_calls),
        budget_s=budget_s,
        start=train.replay(step.original, []),
    )
