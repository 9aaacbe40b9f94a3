"""Train on larger batches, where as many samples then make no worse a model.

Legal as ``training``, so only with the user's consent. A larger batch pays less for what a step
costs beside its samples, but goes through them in fewer steps; whether these teach as much is not
to be told from outside. So sizes are tried on samples of the training itself, at the learning rate
that goes with them, and judged by samples laid aside.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.core.evidence.batches import BatchSizeTrial
from uncork.optimizations.base.preconditions import batch_callbacks_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    work = context.workload
    if work.data_kind not in ("tf.data", "numpy"):
        return f"a {work.data_kind} makes its batches itself"
    if work.is_fit_in_loop:
        return "fit is called for a few steps at a time"
    if work.batch_callbacks:
        return batch_callbacks_refusal(context)
    if work.has_explicit_steps:
        return "with steps_per_epoch an epoch is so many steps, whatever is in them"
    if work.model is not None and work.model.train_step_digest:
        return "the model has a train_step of its own"
    return ""


@final
class LargerBatchOptimization(Optimization):
    """Put several batches together, the learning rate with them."""

    name = "larger_batch"
    stage = "batch"
    guarantee = "training"
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The largest one that pays and was not seen to make a worse model."""
        work = context.workload
        if context.diagnosis.memory_overflow is not None:
            how = context.diagnosis.memory_overflow.description
            return Skipped(reason=f"there is no memory for the batch as it is, but {how}")
        tried = context.diagnosis.batch_size_trials
        if not tried or work.batch_size is None:
            return Skipped(
                reason="no larger batch trains more samples a second, or none could be tried"
            )
        harmless = [size for size in tried if size.is_within_noise]
        if not harmless:
            return Skipped(reason=_priced(max(tried, key=_gain)))
        size = harmless[-1]
        multiplier, rate = size.batch_multiplier, size.learning_rate_multiplier
        larger = multiplier * work.batch_size
        rebatch = Rebatch(batch_multiplier=multiplier, batch_size=larger, expected_digest="")
        step = LargerBatch(batch_multiplier=multiplier, learning_rate_multiplier=rate)
        return Proposal(
            edits=(rebatch, step) if work.data_kind == "tf.data" else (step,),
            predicted=context.diagnosis.speedup_with_faster_resident_step(size.speedup.ratio),
            at=work.at,
            rationale=f"{multiplier} batches in one, the learning rate times {rate:.3g}",
            source_edit=f"batch({larger}), learning_rate={rate:.3g} * learning_rate",
        )


def _gain(size: BatchSizeTrial) -> float:
    """In time to the same loss."""
    return size.speedup.ratio / size.samples_ratio if size.samples_ratio else 0.0


def _priced(size: BatchSizeTrial) -> str:
    cost = (
        f"take {size.samples_ratio:.2g} times as many to the same loss"
        if size.samples_ratio and size.samples_ratio > 1
        else "are not shown to teach as much"
        if size.samples_ratio
        else "did not come to the same loss"
    )
    faster = f"{size.speedup.ratio:.2g}x as many samples a second"
    return f"{size.batch_multiplier} batches in one train {faster}, but {cost}"
