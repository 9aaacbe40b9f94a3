"""Is a loop's step the same as a graph, or under XLA? Both train from one state, same calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee, loosest
from uncork.core.edits.step import PadArguments
from uncork.measure.machine.devices import rounds_to_tf32
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.loop_step import Call, TakenStep
from uncork.training.loop_step.mode import Mode
from uncork.training.precision.tf32 import without_tf32
from uncork.training.state.arrays import Replay
from uncork.verify.criteria.precision import NO_LOSS
from uncork.verify.criteria.rounding import (
    ASTRAY_RUNS,
    NUDGED_RUNS,
    TOO_LITTLE,
    prove_exact,
    prove_rounding,
    rounds_anew,
    tell_enough,
    unrepeatable,
)
from uncork.verify.provers.data_orders import prove_over_orders
from uncork.verify.provers.padding import returns_otherwise, telling_calls
from uncork.verify.provers.recorded_calls import (
    MOVES_NOTHING,
    RecordedTraining,
    began,
    one_row_less,
    state_of_step,
    until_it_moves,
)

# As many as the proofs of a model's own step compare.
_EXACT_STEPS: Final = 24
_FIRST_STEPS: Final = 3
_ROUNDING_STEPS: Final = 12


def _as_they_are(call: Call) -> Call:
    return call


def prove_step_of_loop(
    step: TakenStep,
    mode: Mode,
    kind: Guarantee,
    budget_s: float = math.inf,
    sent: Callable[[Call], Call] = _as_they_are,
) -> Proof:
    """Run the recorded calls as written and otherwise; the variables are given back afterwards.

    Args:
        step: Seen, with some calls recorded; on the thread that calls it.
        mode: How else.
        kind: ``exact``, ``rounding`` where bits differ, or ``precision``.
        budget_s: Seconds that a proof of ``precision`` may take.
        sent: What it is called with otherwise, of the arguments that were recorded.
    """
    if step.refusal or not step.calls:
        detail = step.refusal or "no call of the step was seen"
        return Proof(kind=kind, passed=False, detail=detail)
    now = state_of_step(step)
    state = began(step, now)
    otherwise = step.graph(mode)

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
    step: TakenStep,
    mode: Mode,
    kind: Guarantee,
    candidate: Callable[..., Any],
    state: GraphState,
    *,
    as_they_are: bool,
) -> Proof:
    if (mode.xla or mode.no_xla) and as_they_are and rounds_to_tf32():
        return _without_tf32(step, candidate, state)
    if mode.lengths is not None:
        return _filled_up(step, mode.lengths, candidate, state)
    if kind != "exact":
        return _compared(step, step.calls, candidate, state, _ROUNDING_STEPS, kind)
    # Bits that differ do so at once, and a step that runs op by op takes its time.
    first = _compared(step, step.calls, candidate, state, _FIRST_STEPS, kind)
    if not first.passed:
        return first
    return _compared(step, step.calls, candidate, state, _EXACT_STEPS, kind)


def _filled_up(
    step: TakenStep, edit: PadArguments, otherwise: Callable[..., Any], state: GraphState
) -> Proof:
    """What fills arguments up must count nowhere: in no variable, nor in what the step returns."""
    calls, untold = telling_calls(step.calls, edit)
    if untold:
        return Proof(kind="rounding", passed=False, detail=untold)
    proof = _compared(step, calls, otherwise, state, _ROUNDING_STEPS, "rounding")
    others = ""
    if proof.passed:
        others = returns_otherwise(step.written, otherwise, calls, state)
    if others:
        return replace(proof, passed=False, detail=others)
    return replace(proof, kind=loosest(proof.kind, "rounding"))  # longer sums may round otherwise


def _without_tf32(step: TakenStep, otherwise: Callable[..., Any], state: GraphState) -> Proof:
    """Called with a row less, both are compiled anew, and kernels are chosen anew for both."""
    calls = [one_row_less(call) for call in step.calls]
    with without_tf32():
        found = _compared(step, calls, otherwise, state, _ROUNDING_STEPS, "rounding")
    return replace(found, detail=f"{found.detail}; without TF32, by which either rounds")


def _compared(
    step: TakenStep,
    calls: list[Call],
    otherwise: Callable[..., Any],
    state: GraphState,
    steps: int,
    kind: Guarantee,
) -> Proof:
    train = RecordedTraining(step, state, calls=calls)
    moving = until_it_moves(train, step, state, [n % len(calls) for n in range(steps)])
    if moving is None:
        return Proof(kind=kind, passed=False, detail=MOVES_NOTHING)
    order, original = moving
    steps = len(order)

    def run(function: Callable[..., Any], seed: int | None = None) -> Replay:
        return train.over(function, order, seed=seed)

    again = run(step.written)
    refused = unrepeatable(original, again, kind)
    if refused is not None:
        return _by_what_repeats(step, calls, otherwise, state) or refused
    candidate = run(otherwise)
    exact = prove_exact(original, again, candidate, steps)
    if exact is not None and (exact.passed or kind == "exact"):
        return exact
    nudged = [run(step.written, seed) for seed in range(NUDGED_RUNS)]
    rounded = prove_rounding(original, nudged, candidate, steps)
    tells = tell_enough(train.over(step.written, []), original, [again, *nudged])
    if rounded.passed and not tells:
        rounded = replace(rounded, passed=False, detail=f"{rounded.detail}; {TOO_LITTLE}")
    elif rounded.passed or original.equals(again):
        return rounded
    return _by_what_repeats(step, calls, otherwise, state) or rounded


def _by_what_repeats(
    step: TakenStep, calls: list[Call], otherwise: Callable[..., Any], state: GraphState
) -> Proof | None:
    """Of a training that goes astray by rounding; None where it does not, or not by it alone."""
    order = [n % len(calls) for n in range(_FIRST_STEPS)]
    train = RecordedTraining(step, state, calls=calls)
    start, first, again = (train.over(step.written, part) for part in ([], order[:1], order[:1]))
    if not rounds_anew(first, again):
        return None
    original, *others = (train.over(step.written, order) for _ in range(1 + ASTRAY_RUNS))
    others += [train.over(step.written, order, seed=seed) for seed in range(NUDGED_RUNS)]
    moves = state.trains(list(original.weights))
    if not (moves and tell_enough(start, original, others)):
        return None
    return prove_rounding(original, others, train.over(otherwise, order), len(order))


def _over_orders(
    step: TakenStep, otherwise: Callable[..., Any], state: GraphState, budget_s: float
) -> Proof:
    train = RecordedTraining(step, state)
    moving = until_it_moves(train, step, state, [0])
    first = moving[1] if moving else train.over(step.written, [0])
    if not (first.losses and first.judged):
        nothing = "the step returns no loss, and nothing else tells how the training goes"
        detail = NO_LOSS if first.losses else nothing
        return Proof(kind="precision", passed=False, detail=detail)
    if moving is None:
        return Proof(kind="precision", passed=False, detail=MOVES_NOTHING)

    def over_otherwise(order: Sequence[int], windows: int | None = None) -> Replay:
        step.begin_scaling()
        return train.over(otherwise, order, windows)

    return prove_over_orders(
        functools.partial(train.over, step.written),
        over_otherwise,
        held=len(step.calls),
        budget_s=budget_s,
        start=train.over(step.written, []),
    )
