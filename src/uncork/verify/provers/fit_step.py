"""Runs the short trainings that the proofs of step edits compare."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee, find_loosest_guarantee
from uncork.core.edits.step import LayersInInput, StepEdit, StepsPerExecution
from uncork.training.optimizer.learning_rate import is_warming_up
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.snapshot import (
    Snapshot,
    read_training_state,
    read_weights,
    set_training_state,
)
from uncork.verify.criteria.rounding import (
    DIVERGING_RUNS,
    NUDGED_RUNS,
    TOO_LITTLE_MOVEMENT,
    can_detect_divergence,
    create_nudge,
    differs_only_by_rounding,
    prove_exact,
    prove_rounding,
    refuse_unrepeatable,
)
from uncork.verify.provers.data_orders import (
    MAX_STEPS,
    TrainFunction,
    prove_over_orders,
    sample_order,
    train_over_orders,
)
from uncork.verify.provers.handover import (
    MIN_HANDOVER_STEPS,
    FitHandover,
    handover_steps,
    size_refusal,
)

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

    def __init__(
        self, original: StepSettings, snapshot: Snapshot, recording: BatchRecording
    ) -> None:
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

    def record_handover(self, edits: tuple[StepEdit, ...], budget_s: float) -> FitHandover:
        """What another process needs to compare its training with the original.

        Args:
            edits: In force there.
            budget_s: For losses over orders of the data; 0 where none are compared.
        """
        try:
            order = self._order(edits, self._affordable())
            orders, replays = (
                train_over_orders(
                    lambda order, windows: self._run(self._original, order, windows),
                    batch_count=self._held,
                    budget_s=budget_s,
                    steps_per_loss=int(self._original.model.steps_per_execution),
                )
                if budget_s
                else ([], [])
            )
            if not all(replay.is_loss_comparable for replay in replays):
                orders, replays = [], []
            runs, refused = self._runs(order)
        finally:
            self._snapshot.restore_values()
        model = self._original.model
        return FitHandover(
            weights=[np.asarray(value) for value in model.get_weights()],
            optimizer_variables=[
                tf.convert_to_tensor(v.value).numpy() for v in model.optimizer.variables
            ],
            batches=[tf.nest.map_structure(np.asarray, b) for b in self._recording.batches],
            orders=orders,
            losses=[replay.losses for replay in replays],
            state=read_training_state(model),
            order=order,
            runs=runs,
            refusal_reason=refused,
        )

    def _affordable(self) -> int:
        """Steps of each run that is handed over: fewer where one takes seconds."""
        few = sample_order(self._held, MIN_HANDOVER_STEPS, seed=0)
        self._run(self._original, few)  # traced by then
        begin = time.perf_counter()
        self._run(self._original, few)
        return handover_steps((time.perf_counter() - begin) / len(few))

    def _runs(self, order: list[int]) -> tuple[list[ReplayResult], str]:
        """The original twice and nudged; or why there is nothing to compare with."""
        large = size_refusal(self._snapshot.size_bytes)
        if large:
            return [], large
        twice = self._twice(order, "exact")
        if isinstance(twice, Proof):
            return [], twice.detail
        return [*twice, *self._nudged(order)], ""

    def _order(self, edits: tuple[StepEdit, ...], steps: int) -> list[int]:
        """Whole executions, and one cut short by the end of the data."""
        group = _group(edits)
        return sample_order(self._held, steps + group + group // 2, seed=0)

    def _twice(
        self, order: list[int], kind: Guarantee
    ) -> tuple[ReplayResult, ReplayResult] | Proof:
        """Two runs of the original, or that nothing can be compared with them."""
        original, again = self._both(order)
        if not original.is_equal_to(again):
            # Rounding has not grown by then.
            refused = refuse_unrepeatable(*self._both(order[:_ROUNDING_STEPS]), kind)
            if refused is not None:
                return refused
        return original, again

    def _both(self, order: list[int]) -> tuple[ReplayResult, ReplayResult]:
        return self._run(self._original, order), self._run(self._original, order)

    def _nudged(self, order: list[int]) -> list[ReplayResult]:
        feed = self._recording.feed(order)
        return [
            run_replay(self._original, self._snapshot, feed, disturb=create_nudge(seed))
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
            found, passed=False, detail=f"{found.detail}; {TOO_LITTLE_MOVEMENT}"
        )

    def _longer_s(self, steps: int) -> float:
        """Seconds for all runs of so many steps more; all is traced by now."""
        order = sample_order(self._held, steps, seed=0)
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
        if rounded.passed or original.is_equal_to(again):
            tells = can_detect_divergence(start, original, [again, *nudged])
            return rounded, tells and self._trains(start, original)
        return self._by_what_repeats(settings) or rounded, True

    def _trains(self, start: ReplayResult, end: ReplayResult) -> bool:
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
        if not differs_only_by_rounding(*self._both(order[:1])):
            return None
        start = self._start()
        original, *others = (self._run(self._original, order) for _ in range(1 + DIVERGING_RUNS))
        others += self._nudged(order)
        if not (can_detect_divergence(start, original, others) and self._trains(start, original)):
            return None
        return prove_rounding(original, others, self._run(settings, order), len(order))

    def _precision(self, settings: StepSettings, budget_s: float) -> Proof:
        if is_warming_up(self._original.model.optimizer, MAX_STEPS):
            detail = "the learning rate is still warming up in the steps to be compared"
            return Proof(kind="precision", passed=False, detail=detail)
        accumulated = _accumulated(self._original.model.optimizer)
        if _UPDATES * accumulated > MAX_STEPS:
            detail = (
                f"gradients are accumulated over {accumulated} steps, too many for a comparison"
            )
            return Proof(kind="precision", passed=False, detail=detail)
        unit = _group(settings.edits)  # losses are read at the end of an execution only

        def train(settings: StepSettings) -> TrainFunction:
            return lambda order, windows: self._run(settings, order, windows, unit)

        return prove_over_orders(
            train(self._original),
            train(settings),
            batch_count=self._held,
            budget_s=budget_s,
            start=self._start(),
            steps_per_loss=unit,
            min_steps=_UPDATES * accumulated if accumulated > 1 else 0,
        )

    def _start(self) -> ReplayResult:
        """What every training begins with."""
        self._snapshot.restore_values()
        return ReplayResult(
            (),
            read_weights(self._original.model),
            constant_positions=self._snapshot.non_finite_positions,
        )

    def _run(
        self, settings: StepSettings, order: list[int], windows: int = 1, every: int = 1
    ) -> ReplayResult:
        feed = self._recording.feed(order, for_variant=settings is not self._original)
        return run_replay(settings, self._snapshot, feed, windows=windows, loss_interval=every)


def prove_fit_handover(settings: StepSettings, handover: FitHandover) -> Proof:
    """Train as another process did, from its state over its batches; the model is left so.

    Args:
        settings: How the step runs here.
        handover: By :meth:`StepProver.handed_over`.
    """
    if handover.refusal_reason:
        return Proof(kind="exact", passed=False, detail=handover.refusal_reason)
    set_training_state(settings.model, handover.state)
    recording = BatchRecording(tuple(handover.batches))
    return handover.compare(
        run_replay(settings, Snapshot(settings.model), recording.feed(handover.order))
    )


def _as_drawn(proof: Proof, edits: tuple[StepEdit, ...]) -> Proof:
    """Numbers that are drawn ahead of the training leave their seeds in another state than it."""
    if not any(isinstance(edit, LayersInInput) and edit.is_random for edit in edits):
        return proof
    detail = f"{proof.detail}; seeds of the preprocessing layers are ahead of the training"
    return replace(proof, kind=find_loosest_guarantee(proof.kind, "resampled"), detail=detail)


def _accumulated(optimizer: Any) -> int:
    """Steps for one update."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return int(getattr(inner, "gradient_accumulation_steps", None) or 1)


def _group(edits: tuple[StepEdit, ...]) -> int:
    return max((e.steps for e in edits if isinstance(e, StepsPerExecution)), default=1)
