"""Reuse the iterator of ``fit``, ``evaluate`` and ``predict`` over arrays from call to call.

Legal because the model's own functions get the same batches, gathered from the arrays as Keras
gathers them, in the order in which it shuffles them; callbacks, metrics and histories stay Keras's.
Only the pipeline is dropped that each of these calls creates and discards. It applies to arrays
only, and to calls of a few batches: a longer call benefits from the prefetching of its pipeline.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import ReuseIterator
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    first_holding,
)

# Share of the time of a call besides its steps that creating the pipeline takes.
_SAVED_SHARE: Final = 0.95


def _fit_refusal(context: Context) -> str:
    if context.is_loop:
        return ""
    work = context.workload
    reasons = {
        "each call of fit runs many steps": not work.is_fit_in_loop,
        f"fit reads a {work.data_kind}, not arrays": work.data_kind != "numpy",
        "with steps_per_epoch the epochs share an iterator already": work.has_explicit_steps,
    }
    return first_holding(reasons) or step_edit_refusal(context)


@final
class ReuseIteratorOptimization(Optimization):
    """Use one iterator for many calls."""

    name = "reuse_iterator"
    stage = "host"
    guarantee = "exact"
    preconditions = (_fit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it if ``fit`` runs a few steps per call, or a loop evaluates and predicts."""
        if context.is_loop:
            return _of_loop(context)
        return Proposal(
            edits=(ReuseIterator(),),
            predicted=context.diagnosis.speedup_without_host_time(_SAVED_SHARE),
            at=context.workload.at,
            rationale="calls of fit no longer create a pipeline each",
            source_edit="train_on_batch, test_on_batch and predict_on_batch, in your own loop",
        )


def _of_loop(context: Context) -> Proposal | Skipped:
    calls = context.diagnosis.evaluation_calls
    if calls is None:
        return Skipped(reason="the loop calls neither evaluate nor predict")
    return Proposal(
        edits=(ReuseIterator(),),
        predicted=1 / max(1e-9, 1 - calls.setup_share * calls.share),
        at=calls.at or context.workload.at,
        rationale="calls of evaluate and predict no longer create a pipeline each",
        source_edit="test_on_batch and predict_on_batch, or a tf.function of your own",
    )
