"""Is a loop's step the same as a graph, or under XLA? Both train from one state, same calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.edit import Guarantee
from uncork.core.plan import Proof
from uncork.engine.data_orders import prove_over_orders
from uncork.proof.rounding import (
    ASTRAY_RUNS,
    NUDGE_UNITS,
    NUDGED_RUNS,
    prove_exact,
    prove_rounding,
    rounds_anew,
    tell_enough,
    unrepeatable,
)
from uncork.step import Call, GraphState, Mode, Replay, TakenStep
from uncork.watch import random_state, set_random_state

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
    args, kwargs = step.calls[0]
    now = GraphState(step.graph().get_concrete_function(*args, **kwargs))
    # An optimizer may have got its variables since.
    state = step.began if step.began is not None and len(step.began) == len(now) else now
    otherwise = step.graph(mode)

    def candidate(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = sent((args, kwargs))
        return otherwise(*args, **kwargs)

    try:
        if kind == "precision":
            return _over_orders(step, candidate, state, budget_s)
        if kind != "exact":
            return _compared(step, candidate, state, _ROUNDING_STEPS, kind)
        # Bits that differ do so at once, and a step that runs op by op takes its time.
        first = _compared(step, candidate, state, _FIRST_STEPS, kind)
        return _compared(step, candidate, state, _EXACT_STEPS, kind) if first.passed else first
    finally:
        now.restore()


def _compared(
    step: TakenStep, otherwise: Callable[..., Any], state: GraphState, steps: int, kind: Guarantee
) -> Proof:
    order = [n % len(step.calls) for n in range(steps)]
    train = _Training(step, state)

    def run(function: Callable[..., Any], seed: int | None = None) -> Replay:
        return train.over(function, order, seed=seed)

    original, again = run(step.written), run(step.written)
    refused = unrepeatable(original, again, kind)
    if refused is not None:
        return _by_what_repeats(step, otherwise, state) or refused
    candidate = run(otherwise)
    exact = prove_exact(original, again, candidate, steps)
    if exact is not None and (exact.passed or kind == "exact"):
        return exact
    nudged = [run(step.written, seed) for seed in range(NUDGED_RUNS)]
    rounded = prove_rounding(original, nudged, candidate, steps)
    if rounded.passed or original.equals(again):
        return rounded
    return _by_what_repeats(step, otherwise, state) or rounded


def _by_what_repeats(
    step: TakenStep, otherwise: Callable[..., Any], state: GraphState
) -> Proof | None:
    """Of a training that goes astray by rounding; None where it does not, or not by it alone."""
    order = [n % len(step.calls) for n in range(_FIRST_STEPS)]
    train = _Training(step, state)
    start, first, again = (train.over(step.written, part) for part in ([], order[:1], order[:1]))
    if not rounds_anew(first, again):
        return None
    original, *others = (train.over(step.written, order) for _ in range(1 + ASTRAY_RUNS))
    others += [train.over(step.written, order, seed=seed) for seed in range(NUDGED_RUNS)]
    if not tell_enough(start, original, others):
        return None
    return prove_rounding(original, others, train.over(otherwise, order), len(order))


def _over_orders(
    step: TakenStep, otherwise: Callable[..., Any], state: GraphState, budget_s: float
) -> Proof:
    train = _Training(step, state)
    if not train.over(step.written, [0]).losses:
        detail = "the step returns no loss, and nothing else tells how the training goes"
        return Proof(kind="precision", passed=False, detail=detail)
    return prove_over_orders(
        functools.partial(train.over, step.written),
        functools.partial(train.over, otherwise),
        held=len(step.calls),
        budget_s=budget_s,
    )


class _Training:
    """Short trainings from one state, over the recorded calls of a step.

    Args:
        step: With its calls.
        state: Where each begins.
    """

    def __init__(self, step: TakenStep, state: GraphState) -> None:
        self._calls = step.calls
        self._state = state
        self._random = random_state()

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
        returned = [function(*args, **kwargs) for args, kwargs in (self._calls[n] for n in order)]
        losses = [loss for loss in map(_loss, returned) if loss is not None]
        if windows and losses:
            losses = [float(part.mean()) for part in np.array_split(losses, windows)]
        return Replay(tuple(losses), self._state.values())


def _loss(returned: Any) -> float | None:
    """The first number with a fraction that a step returns."""
    leaves: Sequence[Any] = tf.nest.flatten(returned)
    numbers = (x for x in leaves if tf.is_tensor(x) and x.dtype.is_floating and x.shape == ())
    return next((float(number) for number in numbers), None)
