"""Run short epochs without tf.data's autotuner.

When an iterator is destroyed, at the end of every epoch, TensorFlow waits for the thread that tunes
the pipeline. That thread sleeps 10 ms, then 20, 40, and so on up to a minute, and in about every
fourth epoch it is not woken: the training stands still until the sleep is over, for up to as long
again as the epoch took (seen with TensorFlow 2.21). Without the autotuner nobody waits.

Legal because the autotuner chooses how many threads and how large a buffer, never what a pipeline
gives. Without it tf.data neither adds a prefetch nor runs bare maps in parallel by itself, so a
prefetch is added here, and the trial shows whether anything else was lost.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import AutotuneOff, Prefetch
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Seconds. A trial sees the ends of epochs only when some of them fall into it.
MAX_SHORT_EPOCH_S: Final = 3.0

# Of the time; where more was, it was chance.
_MOST_LOST: Final = 0.6

_SOURCE: Final = """\
options = tf.data.Options()
options.autotune.enabled = False
dataset = dataset.prefetch(2).with_options(options)"""


@final
class AutotuneOffOptimization(Optimization):
    """Turn the autotuner off where epochs end often."""

    name = "autotune_off"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Epochs so short that waiting at their ends can matter."""
        workload = context.workload
        if not workload.has_default_rewrites:
            return Skipped(reason="tf.data's autotuner or its rewrites are off already")
        if workload.epochs < 2 or workload.steps_per_epoch is None:
            return Skipped(reason="one epoch, or epochs of unknown length")
        epoch_s = workload.steps_per_epoch * context.diagnosis.step_s
        if epoch_s > MAX_SHORT_EPOCH_S:
            return Skipped(reason=f"an epoch lasts {epoch_s:.1f} s: its end is met too rarely")
        return Proposal(
            edits=autotune_off_edits(context),
            predicted=_predicted(context),
            at=context.stages[-1].at,
            rationale=f"an epoch lasts {epoch_s:.1f} s, and its end may wait for the autotuner",
            source_edit=_SOURCE,
        )


def _predicted(context: Context) -> float | None:
    """Without what was lost between epochs; None where that could not be told."""
    lost = context.diagnosis.measurement.between_epochs_share
    return None if lost is None else 1 / (1 - min(lost, _MOST_LOST))


def following_autotune_off_edits(context: Context, costs: StepCosts) -> tuple[Edit, ...]:
    """Edits that turn the autotuner off behind others, where these leave it nothing to tune.

    Args:
        context: Of the training as it is.
        costs: Of its steps with what is kept in memory by then.
    """
    return autotune_off_edits(context, expects="") if _can_stop_autotuner(context, costs) else ()


def _can_stop_autotuner(context: Context, costs: StepCosts) -> bool:
    """Epochs will be short, and of the input little be left that the autotuner could spread out.

    Without it bare maps no longer run in parallel; serial ones, such as random ones, never did.
    """
    steps = context.workload.steps_per_epoch
    if steps is None or not context.workload.has_default_rewrites:
        return False
    spread_out = [s for s in costs.stages if s.parallelism == AUTOTUNE]
    left_s = sum((s.wall_s_per_element or 0.0) * (s.elements_per_step or 0.0) for s in spread_out)
    return steps * costs.step_s() <= MAX_SHORT_EPOCH_S and left_s < costs.consumer_s


def autotune_off_edits(context: Context, expects: str | None = None) -> tuple[Edit, ...]:
    """Edits that turn the autotuner off, and keep the prefetch that it would have injected.

    Args:
        context: Of the training as it is.
        expects: Digest of what these edits find; that of the diagnosis unless given.
    """
    digest = context.pipeline_digest if expects is None else expects
    behind = [s.kind for s in context.stages if s.kind != "options"]
    if behind and behind[-1] == "prefetch":
        return (AutotuneOff(expected_digest=digest),)
    return (Prefetch(expected_digest=digest), AutotuneOff(expected_digest=""))
