"""Train on larger batches, if the same number of samples then trains an equally good model.

Legal as ``training``, so only if the user opts in. Larger batches reduce the cost of a step besides
its samples, but make fewer updates; whether these train as well cannot be predicted. So Uncork
tries sizes on samples of the training itself, with a matching learning rate, and compares the loss
on held-out samples.
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
        return f"a {work.data_kind} forms its batches itself"
    if work.is_fit_in_loop:
        return "each call of fit runs a few steps only"
    if work.batch_callbacks:
        return batch_callbacks_refusal(context)
    if work.has_explicit_steps:
        return "with steps_per_epoch an epoch has a fixed number of steps, whatever their size"
    if work.model is not None and work.model.train_step_digest:
        return "the model has a train_step of its own"
    return ""


@final
class LargerBatchOptimization(Optimization):
    """Combine several batches, with a larger learning rate."""

    name = "larger_batch"
    stage = "batch"
    guarantee = "training"
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the largest batch that is faster and did not train a worse model."""
        work = context.workload
        if context.diagnosis.memory_overflow is not None:
            how = context.diagnosis.memory_overflow.description
            return Skipped(reason=f"the unmodified batch fits into memory only {how}")
        trials = context.diagnosis.batch_size_trials
        if not trials or work.batch_size is None:
            return Skipped(
                reason="no larger batch trains more samples a second, or Uncork could try none"
            )
        harmless = [size for size in trials if size.is_within_noise]
        if not harmless:
            return Skipped(reason=_loss_reason(max(trials, key=_gain)))
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


def _loss_reason(size: BatchSizeTrial) -> str:
    cost = (
        f"need {size.samples_ratio:.2g} times as many for the same loss"
        if size.samples_ratio and size.samples_ratio > 1
        else "are not shown to train as well"
        if size.samples_ratio
        else "did not reach the same loss"
    )
    faster = f"{size.speedup.ratio:.2g}x as many samples a second"
    return f"{size.batch_multiplier} batches in one train {faster}, but {cost}"
