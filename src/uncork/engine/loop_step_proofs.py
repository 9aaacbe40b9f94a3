"""Is a loop's step the same as a graph, or under XLA? Both train from one state, same calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.core.edit import Guarantee
from uncork.core.plan import Proof
from uncork.proof.rounding import (
    NUDGE_UNITS,
    NUDGED_RUNS,
    prove_exact,
    prove_rounding,
    unrepeatable,
)
from uncork.step import GraphState, Mode, Replay, TakenStep
from uncork.watch import random_state, set_random_state

# As many as the proofs of a model's own step compare.
_EXACT_STEPS: Final = 24
_FIRST_STEPS: Final = 3
_ROUNDING_STEPS: Final = 12


def prove_step_of_loop(step: TakenStep, mode: Mode, kind: Guarantee) -> Proof:
    """Run the recorded calls as written and otherwise; the variables are given back afterwards.

    Args:
        step: Seen, with some calls recorded; on the thread that calls it.
        mode: How else.
        kind: ``exact``, or ``rounding`` where bits differ.
    """
    if step.refusal or not step.calls:
        detail = step.refusal or "no call of the step was seen"
        return Proof(kind=kind, passed=False, detail=detail)
    args, kwargs = step.calls[0]
    state = GraphState(step.graph().get_concrete_function(*args, **kwargs))
    candidate = step.graph(mode)
    try:
        if kind != "exact":
            return _compared(step, candidate, state, _ROUNDING_STEPS, kind)
        # Bits that differ do so at once, and a step that runs op by op takes its time.
        first = _compared(step, candidate, state, _FIRST_STEPS, kind)
        return _compared(step, candidate, state, _EXACT_STEPS, kind) if first.passed else first
    finally:
        state.restore()


def _compared(
    step: TakenStep, otherwise: Callable[..., Any], state: GraphState, steps: int, kind: Guarantee
) -> Proof:
    calls = [step.calls[n % len(step.calls)] for n in range(steps)]
    random = random_state()

    def run(function: Callable[..., Any], seed: int | None = None) -> Replay:
        set_random_state(random)
        state.restore()
        if seed is not None:
            state.nudge(seed, NUDGE_UNITS)
        losses = [_loss(function(*args, **kwargs)) for args, kwargs in calls]
        return Replay(tuple(loss for loss in losses if loss is not None), state.values())

    original, again = run(step.written), run(step.written)
    refused = unrepeatable(original, again, kind)
    if refused is not None:
        return refused
    candidate = run(otherwise)
    exact = prove_exact(original, again, candidate, steps)
    if exact is not None and (exact.passed or kind == "exact"):
        return exact
    nudged = [run(step.written, seed) for seed in range(NUDGED_RUNS)]
    return prove_rounding(original, nudged, candidate, steps)


def _loss(returned: Any) -> float | None:
    """The first number with a fraction that a step returns."""
    leaves: Sequence[Any] = tf.nest.flatten(returned)
    numbers = (x for x in leaves if tf.is_tensor(x) and x.dtype.is_floating and x.shape == ())
    return next((float(number) for number in numbers), None)
