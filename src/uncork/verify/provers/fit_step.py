"""Runs the short trainings that the proofs of step edits compare."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee, loosest
from uncork.core.edits.step import LayersInInput, StepEdit, StepsPerExecution
from uncork.training.optimizer.learning_rate import warms_up
from uncork.training.run.replay import Recording, replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import Replay
from uncork.training.state.snapshot import Snapshot, give_state, state_of, weights
from uncork.verify.criteria.rounding import (
    ASTRAY_RUNS,
    NUDGED_RUNS,
    TOO_LITTLE,
    nudge,
    prove_exact,
    prove_rounding,
    rounds_anew,
    tell_enough,
    unrepeatable,
)
from uncork.verify.provers.data_orders import (
    MOST_STEPS,
    Train,
    order_of,
    prove_over_orders,
    some_orders,
)
from uncork.verify.provers.handover import FEWEST_STEPS, HandedFit, steps_handed_over, too_large

# Steps compared: enough for several executions of a grouped step, few enough that rounding noise
# has not yet grown into another trajectory.
_EXACT_STEPS = 24
_ROUNDING_STEPS = 12
# Times as many, where the weights do not move in these, or hardly.
_LONGER = 8
# Seconds that these may take whatever the budget.
_LONGER_S = 10.0
# Updates that must be among the steps whose losses are compared.
_UPDATES = 8


class StepProver:
    """Compares the original step with an edited one on the same recorded batches.

    Args:
        original: The user's own settings.
        snapshot: Where every training starts.
        recording: What every training reads.
    """

    def __init__(self, original: StepSettings, snapshot: Snapshot, recording: Recording) -> None:
        self._original = original
        self._snapshot = snapshot
        self._recording = recording
        self._held = len(recording.batches)

    def prove(self, settings: StepSettings, kind: Guarantee, budget_s: float) -> Proof:
        """Put one guarantee to the test; the original's weights are given back afterwards."""
        try:
            if kind == "precision":
                return self._precision(settings, budget_s)
            return _as_drawn(self._weights(settings, kind, budget_s), settings.edits)
        finally:
            self._snapshot.restore_values()

    def handed_over(self, edits: tuple[StepEdit, ...], budget_s: float) -> HandedFit:
        """What another process needs to compare its training with the original.

        Args:
            edits: In force there.
            budget_s: For losses over orders of the data; 0 where none are compared.
        """
        try:
            order = self._order(edits, self._affordable())
            orders, replays = (
                some_orders(
                    lambda order, windows: self._run(self._original, order, windows),
                    held=self._held,
                    budget_s=budget_s,
                    unit=int(self._original.model.steps_per_execution),
                )
                if budget_s
                else ([], [])
            )
            if not all(replay.judged for replay in replays):
                orders, replays = [], []
            runs, refused = self._runs(order)
        finally:
            self._snapshot.restore_values()
        model = self._original.model
        return HandedFit(
            weights=[np.asarray(value) for value in model.get_weights()],
            optimizer=[tf.convert_to_tensor(v.value).numpy() for v in model.optimizer.variables],
            batches=[tf.nest.map_structure(np.asarray, b) for b in self._recording.batches],
            orders=orders,
            losses=[replay.losses for replay in replays],
            state=state_of(model),
            order=order,
            runs=runs,
            refused=refused,
        )

    def _affordable(self) -> int:
        """Steps of each run that is handed over: fewer where one takes seconds."""
        few = order_of(self._held, FEWEST_STEPS, seed=0)
        self._run(self._original, few)  # traced by then
        begin = time.perf_counter()
        self._run(self._original, few)
        return steps_handed_over((time.perf_counter() - begin) / len(few))

    def _runs(self, order: list[int]) -> tuple[list[Replay], str]:
        """The original twice and nudged; or why there is nothing to compare with."""
        large = too_large(self._snapshot.bytes)
        if large:
            return [], large
        twice = self._twice(order, "exact")
        if isinstance(twice, Proof):
            return [], twice.detail
        return [*twice, *self._nudged(order)], ""

    def _order(self, edits: tuple[StepEdit, ...], steps: int) -> list[int]:
        """Whole executions, and one cut short by the end of the data."""
        group = _group(edits)
        return order_of(self._held, steps + group + group // 2, seed=0)

    def _twice(self, order: list[int], kind: Guarantee) -> tuple[Replay, Replay] | Proof:
        """Two runs of the original, or that nothing can be compared with them."""
        original, again = self._both(order)
        if not original.equals(again):
            # Rounding has not grown by then.
            refused = unrepeatable(*self._both(order[:_ROUNDING_STEPS]), kind)
            if refused is not None:
                return refused
        return original, again

    def _both(self, order: list[int]) -> tuple[Replay, Replay]:
        return self._run(self._original, order), self._run(self._original, order)

    def _nudged(self, order: list[int]) -> list[Replay]:
        feed = self._recording.feed(order)
        return [
            replay(self._original, self._snapshot, feed, disturb=nudge(seed))
            for seed in range(NUDGED_RUNS)
        ]

    def _weights(self, settings: StepSettings, kind: Guarantee, budget_s: float) -> Proof:
        """By few steps, or by more where the weights do not move in these, or hardly."""
        steps = _EXACT_STEPS if kind == "exact" else _ROUNDING_STEPS
        found, tells = self._after(settings, kind, steps)
        if not tells and found.passed and self._longer_s(steps) < max(budget_s, _LONGER_S):
            found, tells = self._after(settings, kind, _LONGER * steps)
        if tells or not found.passed:
            return found
        return self._by_what_repeats(settings) or replace(
            found, passed=False, detail=f"{found.detail}; {TOO_LITTLE}"
        )

    def _longer_s(self, steps: int) -> float:
        """Seconds for all runs of so many steps more; all is traced by now."""
        order = order_of(self._held, steps, seed=0)
        begin = time.perf_counter()
        self._run(self._original, order)
        return _LONGER * (3 + NUDGED_RUNS) * (time.perf_counter() - begin)

    def _after(self, settings: StepSettings, kind: Guarantee, steps: int) -> tuple[Proof, bool]:
        """What so many steps prove, and whether a training that strays would be seen to."""
        order = self._order(settings.edits, steps)
        twice = self._twice(order, kind)
        if isinstance(twice, Proof):
            return self._by_what_repeats(settings) or twice, True
        original, again = twice
        candidate = self._run(settings, order)
        start = self._start()
        exact = prove_exact(original, again, candidate, len(order))
        if exact is not None and (exact.passed or kind == "exact"):
            return exact, self._trains(start, original)
        nudged = self._nudged(order)
        rounded = prove_rounding(original, nudged, candidate, len(order))
        if rounded.passed or original.equals(again):
            tells = tell_enough(start, original, [again, *nudged])
            return rounded, tells and self._trains(start, original)
        return self._by_what_repeats(settings) or rounded, True

    def _trains(self, start: Replay, end: Replay) -> bool:
        """Some weight of all that learn is another one; or there is none that learns."""
        model = self._original.model
        learning = set(map(id, model.trainable_variables))
        each = zip(model.weights, start.weights, end.weights, strict=False)  # slots come behind
        moved = [a.tobytes() != b.tobytes() for v, a, b in each if id(v) in learning]
        return any(moved) or not moved

    def _by_what_repeats(self, settings: StepSettings) -> Proof | None:
        """Of a training that goes astray by rounding; None where it does not, or not by it alone.

        By as few steps as it takes, as runs are further apart with each.
        """
        order = self._order(settings.edits, 1)
        if not rounds_anew(*self._both(order[:1])):
            return None
        start = self._start()
        original, *others = (self._run(self._original, order) for _ in range(1 + ASTRAY_RUNS))
        others += self._nudged(order)
        if not (tell_enough(start, original, others) and self._trains(start, original)):
            return None
        return prove_rounding(original, others, self._run(settings, order), len(order))

    def _precision(self, settings: StepSettings, budget_s: float) -> Proof:
        if warms_up(self._original.model.optimizer, MOST_STEPS):
            detail = "the learning rate is still warmed up in the steps that would be compared"
            return Proof(kind="precision", passed=False, detail=detail)
        accumulated = _accumulated(self._original.model.optimizer)
        if _UPDATES * accumulated > MOST_STEPS:
            detail = f"gradients are accumulated over {accumulated} steps, too many to wait for"
            return Proof(kind="precision", passed=False, detail=detail)
        unit = _group(settings.edits)  # losses are read at the end of an execution only

        def train(settings: StepSettings) -> Train:
            return lambda order, windows: self._run(settings, order, windows, unit)

        return prove_over_orders(
            train(self._original),
            train(settings),
            held=self._held,
            budget_s=budget_s,
            start=self._start(),
            unit=unit,
            least=_UPDATES * accumulated if accumulated > 1 else 0,
        )

    def _start(self) -> Replay:
        """What every training begins with."""
        self._snapshot.restore_values()
        return Replay((), weights(self._original.model), constants=self._snapshot.not_finite)

    def _run(
        self, settings: StepSettings, order: list[int], windows: int = 1, every: int = 1
    ) -> Replay:
        feed = self._recording.feed(order, otherwise=settings is not self._original)
        return replay(settings, self._snapshot, feed, windows=windows, every=every)


def proved_elsewhere(settings: StepSettings, handed: HandedFit) -> Proof:
    """Train as another process did, from its state over its batches; the model is left so.

    Args:
        settings: How the step runs here.
        handed: By :meth:`StepProver.handed_over`.
    """
    if handed.refused:
        return Proof(kind="exact", passed=False, detail=handed.refused)
    give_state(settings.model, handed.state)
    recording = Recording(tuple(handed.batches))
    return handed.judged(replay(settings, Snapshot(settings.model), recording.feed(handed.order)))


def _as_drawn(proof: Proof, edits: tuple[StepEdit, ...]) -> Proof:
    """Numbers that are drawn ahead of the training leave their seeds in another state than it."""
    if not any(isinstance(edit, LayersInInput) and edit.draws for edit in edits):
        return proof
    detail = f"{proof.detail}; seeds of the first layers run ahead of the training"
    return replace(proof, kind=loosest(proof.kind, "resampled"), detail=detail)


def _accumulated(optimizer: Any) -> int:
    """Steps for one update."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return int(getattr(inner, "gradient_accumulation_steps", None) or 1)


def _group(edits: tuple[StepEdit, ...]) -> int:
    return max((e.steps for e in edits if isinstance(e, StepsPerExecution)), default=1)
