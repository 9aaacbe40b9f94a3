"""Run short epochs without tf.data's autotuner.

When an iterator is destroyed, at the end of every epoch, TensorFlow waits for the thread that tunes
the pipeline. That thread sleeps for 10 ms, then 20, 40, and so on up to a minute. In about every
fourth epoch nothing wakes it, and the training waits until the sleep is over, for up to the
duration of the epoch (seen with TensorFlow 2.21). Without the autotuner there is no wait.

Legal because the autotuner chooses numbers of threads and sizes of buffers, never the elements of a
pipeline. Without it tf.data neither adds a prefetch nor runs bare maps in parallel, so Uncork adds
a prefetch, and the trial shows whether anything else is slower.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import AutotuneOff, Prefetch
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Seconds. A trial must contain the ends of some epochs.
MAX_SHORT_EPOCH_S: Final = 3.0

# Share of the time. A larger share is noise.
_MAX_LOST_SHARE: Final = 0.6

_SOURCE: Final = """\
options = tf.data.Options()
options.autotune.enabled = False
dataset = dataset.prefetch(2).with_options(options)"""


@final
class AutotuneOffOptimization(Optimization):
    """Turn the autotuner off where epochs are short."""

    name = "autotune_off"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it for epochs so short that the wait at their ends can matter."""
        workload = context.workload
        if not workload.has_default_rewrites:
            return Skipped(reason="tf.data's autotuner or its rewrites are off already")
        if workload.epochs < 2 or workload.steps_per_epoch is None:
            return Skipped(reason="one epoch only, or epochs of unknown length")
        epoch_s = workload.steps_per_epoch * context.diagnosis.step_s
        if epoch_s > MAX_SHORT_EPOCH_S:
            return Skipped(reason=f"an epoch lasts {epoch_s:.1f} s, so epochs end too rarely")
        return Proposal(
            edits=autotune_off_edits(context),
            predicted=_predicted(context),
            at=context.stages[-1].at,
            rationale=f"an epoch lasts {epoch_s:.1f} s, and its end may wait for the autotuner",
            source_edit=_SOURCE,
        )


def _predicted(context: Context) -> float | None:
    """Without the time lost between epochs; None where it is unknown."""
    lost_share = context.diagnosis.measurement.between_epochs_share
    return None if lost_share is None else 1 / (1 - min(lost_share, _MAX_LOST_SHARE))


def following_autotune_off_edits(context: Context, costs: StepCosts) -> tuple[Edit, ...]:
    """Turn the autotuner off after other edits, where these leave it nothing to tune.

    Args:
        context: Of the training as it is.
        costs: Of its steps with the cache in memory.
    """
    return autotune_off_edits(context, expects="") if _can_stop_autotuner(context, costs) else ()


def _can_stop_autotuner(context: Context, costs: StepCosts) -> bool:
    """Whether epochs will be short and leave little input work for the autotuner to spread.

    Without it bare maps no longer run in parallel; serial ones, such as random ones, never did.
    """
    steps = context.workload.steps_per_epoch
    if steps is None or not context.workload.has_default_rewrites:
        return False
    autotuned = [s for s in costs.stages if s.parallelism == AUTOTUNE]
    left_s = sum((s.wall_s_per_element or 0.0) * (s.elements_per_step or 0.0) for s in autotuned)
    return steps * costs.step_s() <= MAX_SHORT_EPOCH_S and left_s < costs.consumer_s


def autotune_off_edits(context: Context, expects: str | None = None) -> tuple[Edit, ...]:
    """Turn the autotuner off, and add the prefetch that it would have injected.

    Args:
        context: Of the training as it is.
        expects: Digest of the pipeline before these edits; by default that of the diagnosis.
    """
    digest = context.pipeline_digest if expects is None else expects
    kinds = [s.kind for s in context.stages if s.kind != "options"]
    if kinds and kinds[-1] == "prefetch":
        return (AutotuneOff(expected_digest=digest),)
    return (Prefetch(expected_digest=digest), AutotuneOff(expected_digest=""))
