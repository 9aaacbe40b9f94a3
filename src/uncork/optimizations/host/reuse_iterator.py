"""Keep what ``fit``, ``evaluate`` and ``predict`` read arrays through, from call to call.

Legal because the model's own functions get the same batches, cut from the arrays as Keras cuts
them, in the order in which it shuffles them; callbacks, metrics and histories stay Keras's. What is
left out is the pipeline that each of these calls makes and throws away. Only arrays, and only calls
of a few batches: a longer one is read ahead of its steps by the pipeline that it makes.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import ReuseIterator
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

# Of what a call takes beyond its steps, the part that is the pipeline's making.
_SPARED: Final = 0.95


@final
class ReuseIteratorOptimization(Optimization):
    """One iterator for many calls."""

    name = "reuse_iterator"
    stage = "host"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where ``fit`` is called for a few steps at a time, or a loop evaluates and predicts."""
        del machine, policy
        work = diagnosis.workload
        if work.kind == "custom_loop":
            return _of_loop(diagnosis)
        forbidden = _forbidden(work) or step_edit_refusal(diagnosis)
        if forbidden:
            return forbidden
        predicted = diagnosis.speedup_without_host_time(_SPARED)
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(ReuseIterator(),),
            predicted=predicted,
            at=work.at,
            rationale="no pipeline is made for each call of fit",
            source_edit="train_on_batch, test_on_batch and predict_on_batch, in a loop of your own",
        )


def _forbidden(work: Workload) -> Skipped | None:
    reasons = {
        "fit is not called for a few steps at a time": not work.is_fit_in_loop,
        f"fit is given a {work.data_kind}, not arrays": work.data_kind != "numpy",
        "fit is given steps_per_epoch: its epochs share an iterator": work.has_explicit_steps,
    }
    return next((Skipped(reason=reason) for reason, holds in reasons.items() if holds), None)


def _of_loop(diagnosis: WorkloadDiagnosis) -> Proposal | Skipped:
    found = diagnosis.evaluation_calls
    if found is None:
        return Skipped(reason="the loop calls neither evaluate nor predict")
    predicted = 1 / max(1e-9, 1 - found.setup_share * found.share)
    if predicted < MIN_PREDICTED_SPEEDUP:
        return low_gain_refusal(predicted)
    return Proposal(
        edits=(ReuseIterator(),),
        predicted=predicted,
        at=found.at or diagnosis.workload.at,
        rationale="no pipeline is made for each call of evaluate and predict",
        source_edit="test_on_batch and predict_on_batch, or a tf.function of your own",
    )
