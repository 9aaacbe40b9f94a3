"""Train on larger batches, where as many samples then make no worse a model.

Legal as ``training``, so only with the user's consent. A larger batch pays less for what a step
costs beside its samples, but goes through them in fewer steps; whether these teach as much is not
to be told from outside. So sizes are tried on samples of the training itself, at the learning rate
that goes with them, and judged by samples laid aside.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import Rebatch
from uncork.core.edits.step import LargerBatch
from uncork.core.evidence.batches import BatchSize
from uncork.optimizations.base.preconditions import no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)


@final
class TrainInLargerBatches(Optimization):
    """Put several batches together, the learning rate with them."""

    name = "larger_batch"
    stage = "batch"
    guarantee = "training"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The largest one that pays and was not seen to make a worse model."""
        work = diagnosis.workload
        forbidden = no_step_edit(diagnosis) or _forbidden(work)
        if forbidden:
            return forbidden
        if diagnosis.too_large is not None:
            how = diagnosis.too_large.how
            return Skipped(reason=f"there is no memory for the batch as it is, but {how}")
        tried = diagnosis.batch_sizes
        if not tried or work.batch_size is None:
            return Skipped(
                reason="no larger batch trains more samples a second, or none could be tried"
            )
        held = [size for size in tried if size.holds]
        if not held:
            return Skipped(reason=_priced(max(tried, key=_gain)))
        size = held[-1]
        predicted = diagnosis.with_resident_faster(size.faster.ratio)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        larger, rate = size.times * work.batch_size, size.rate
        edits: tuple[Edit, ...] = (LargerBatch(times=size.times, rate=rate),)
        if work.data == "tf.data":
            edits = (Rebatch(times=size.times, batch_size=larger, expects=""), *edits)
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=work.at,
            why=f"{size.times} batches in one, the learning rate times {rate:.3g}",
            source_edit=f"batch({larger}), learning_rate={rate:.3g} * learning_rate",
        )


def _gain(size: BatchSize) -> float:
    """In time to the same loss."""
    return size.faster.ratio / size.price if size.price else 0.0


def _priced(size: BatchSize) -> str:
    cost = (
        f"take {size.price:.2g} times as many to the same loss"
        if size.price and size.price > 1
        else "are not shown to teach as much"
        if size.price
        else "did not come to the same loss"
    )
    faster = f"{size.faster.ratio:.2g}x as many samples a second"
    return f"{size.times} batches in one train {faster}, but {cost}"


def _forbidden(work: Workload) -> Skipped | None:
    if work.data not in ("tf.data", "numpy"):
        return Skipped(reason=f"a {work.data} makes its batches itself")
    if work.called_in_loop:
        return Skipped(reason="fit is called for a few steps at a time")
    if work.batch_hooks:
        names = ", ".join(work.batch_hooks)
        return Skipped(reason=f"callbacks act on every batch and must keep seeing each: {names}")
    if work.steps_given:
        return Skipped(reason="with steps_per_epoch an epoch is so many steps, whatever is in them")
    if work.model is not None and work.model.train_step:
        return Skipped(reason="the model has a train_step of its own")
    return None
