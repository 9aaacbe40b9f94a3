"""Keep what ``fit``, ``evaluate`` and ``predict`` read arrays through, from call to call.

Legal because the model's own functions get the same batches, cut from the arrays as Keras cuts
them, in the order in which it shuffles them; callbacks, metrics and histories stay Keras's. What is
left out is the pipeline that each of these calls makes and throws away. Only arrays, and only calls
of a few batches: a longer one is read ahead of its steps by the pipeline that it makes.
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

# Of what a call takes beyond its steps, the part that is the pipeline's making.
_SPARED: Final = 0.95


def _fit_refusal(context: Context) -> str:
    if context.is_loop:
        return ""
    work = context.workload
    reasons = {
        "fit is not called for a few steps at a time": not work.is_fit_in_loop,
        f"fit is given a {work.data_kind}, not arrays": work.data_kind != "numpy",
        "fit is given steps_per_epoch: its epochs share an iterator": work.has_explicit_steps,
    }
    return first_holding(reasons) or step_edit_refusal(context)


@final
class ReuseIteratorOptimization(Optimization):
    """One iterator for many calls."""

    name = "reuse_iterator"
    stage = "host"
    guarantee = "exact"
    preconditions = (_fit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where ``fit`` is called for a few steps at a time, or a loop evaluates and predicts."""
        if context.is_loop:
            return _of_loop(context)
        return Proposal(
            edits=(ReuseIterator(),),
            predicted=context.diagnosis.speedup_without_host_time(_SPARED),
            at=context.workload.at,
            rationale="no pipeline is made for each call of fit",
            source_edit="train_on_batch, test_on_batch and predict_on_batch, in a loop of your own",
        )


def _of_loop(context: Context) -> Proposal | Skipped:
    calls = context.diagnosis.evaluation_calls
    if calls is None:
        return Skipped(reason="the loop calls neither evaluate nor predict")
    return Proposal(
        edits=(ReuseIterator(),),
        predicted=1 / max(1e-9, 1 - calls.setup_share * calls.share),
        at=calls.at or context.workload.at,
        rationale="no pipeline is made for each call of evaluate and predict",
        source_edit="test_on_batch and predict_on_batch, or a tf.function of your own",
    )
