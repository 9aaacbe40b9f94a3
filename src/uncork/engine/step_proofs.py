"""Runs the short trainings that the proofs of step edits compare."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from uncork.core.edit import Guarantee, StepEdit, StepsPerExecution
from uncork.core.plan import Proof
from uncork.engine.data_orders import Train, order_of, prove_over_orders, some_orders
from uncork.engine.handed_over import HandedOver
from uncork.proof.rounding import (
    NUDGED_RUNS,
    nudge,
    prove_exact,
    prove_rounding,
    unrepeatable,
)
from uncork.step import Recording, Replay, Snapshot, StepSettings, replay

# Steps compared: enough for several executions of a grouped step, few enough that rounding noise
# has not yet grown into another trajectory.
_EXACT_STEPS = 24
_ROUNDING_STEPS = 12


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
            return self._weights(settings, kind)
        finally:
            self._snapshot.restore_values()

    def handed_over(self, budget_s: float) -> HandedOver:
        """What another process needs to compare its training with the original."""
        try:
            orders, replays = some_orders(
                lambda order, windows: self._run(self._original, order, windows),
                held=self._held,
                budget_s=budget_s,
            )
        finally:
            self._snapshot.restore_values()
        model = self._original.model
        return HandedOver(
            weights=[np.asarray(value) for value in model.get_weights()],
            optimizer=[tf.convert_to_tensor(v.value).numpy() for v in model.optimizer.variables],
            batches=[tf.nest.map_structure(np.asarray, b) for b in self._recording.batches],
            orders=orders,
            losses=[replay.losses for replay in replays],
        )

    def _weights(self, settings: StepSettings, kind: Guarantee) -> Proof:
        group = _group(settings.edits)
        steps = _EXACT_STEPS if kind == "exact" else _ROUNDING_STEPS
        # Whole executions, and one cut short by the end of the data.
        order = order_of(self._held, steps + group + group // 2, seed=0)
        original, again = (self._run(self._original, order) for _ in range(2))
        if not original.equals(again):
            few = order[:_ROUNDING_STEPS]  # rounding has not grown by then
            one, other = (self._run(self._original, few) for _ in range(2))
            refused = unrepeatable(one, other, kind)
            if refused is not None:
                return refused
        candidate = self._run(settings, order)
        exact = prove_exact(original, again, candidate, len(order))
        if exact is not None and (exact.passed or kind == "exact"):
            return exact
        feed = self._recording.feed(order)
        nudged = [
            replay(self._original, self._snapshot, feed, disturb=nudge(seed))
            for seed in range(NUDGED_RUNS)
        ]
        return prove_rounding(original, nudged, candidate, len(order))

    def _precision(self, settings: StepSettings, budget_s: float) -> Proof:
        def train(settings: StepSettings) -> Train:
            return lambda order, windows: self._run(settings, order, windows)

        return prove_over_orders(
            train(self._original),
            train(settings),
            held=self._held,
            budget_s=budget_s,
            unit=_group(settings.edits),  # losses are read at the end of an execution only
        )

    def _run(self, settings: StepSettings, order: list[int], windows: int = 1) -> Replay:
        return replay(settings, self._snapshot, self._recording.feed(order), windows=windows)


def _group(edits: tuple[StepEdit, ...]) -> int:
    return max((e.steps for e in edits if isinstance(e, StepsPerExecution)), default=1)
