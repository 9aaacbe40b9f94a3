"""Feed the validation as well as the training.

After each epoch ``fit`` reads the validation data from the beginning, and trains nothing meanwhile.
So its pipeline is asked for what would be proposed for a training's, as far as that is exact; the
best of it is tried on validation steps, and counts by what an epoch with its validation gains.

Legal because each of these edits is, of whatever data: it gives the same elements in the same order
in every pass, and a validation that begins anew each time is such a pass.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.record import replace
from uncork.core.costmodel.validation_time import (
    MIN_VALIDATION_SHARE,
    epoch_and_validation_s,
    epoch_gain,
    validation_as_training,
)
from uncork.core.edits.edit import ValidationInput
from uncork.core.edits.pipeline import PipelineEdit
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped
from uncork.optimizations.input_caching.cache import CacheOptimization
from uncork.optimizations.input_parallelism.parallelize_prefix import ParallelizePrefixOptimization
from uncork.optimizations.input_parallelism.prefetch import PrefetchOptimization
from uncork.optimizations.input_rewrites.vectorize import VectorizeOptimization

# Of equal ones the first: what is not done again needs no threads.
_WAYS: Final[tuple[Optimization, ...]] = (
    CacheOptimization(),
    ParallelizePrefixOptimization(),
    VectorizeOptimization(),
    PrefetchOptimization(),
)


def _refusal(context: Context) -> str:
    if context.is_loop:
        return "a loop of your own validates by itself"
    if context.diagnosis.validation is None:
        return (
            "nothing is validated, or from data that has no end or that Python makes, or "
            "under a tf.distribute strategy, or in a process that goes on"
        )
    if context.workload.validation_steps:
        return "validation_steps is given: a cache would never see all of its data"
    return ""


@final
class ValidationInputOptimization(Optimization):
    """The best exact edit of the validation's pipeline."""

    name = "validation_input"
    stage = "input"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Edits of one way, with the gain of an epoch and its validation."""
        validating = validation_as_training(context.diagnosis)
        if validating is None:
            return _unknown(context)
        answers = [way.propose(replace(context, diagnosis=validating)) for way in _WAYS]
        ways = [answer for answer in answers if isinstance(answer, Proposal) and answer.predicted]
        if not ways:
            return next(answer for answer in answers if isinstance(answer, Skipped))
        best = max(ways, key=lambda way: round(way.predicted or 1.0, 2))
        edits = tuple(edit for edit in best.edits if isinstance(edit, PipelineEdit))
        return Proposal(
            edits=(
                ValidationInput(edits=edits, expected_digest=validating.workload.pipeline_digest),
            ),
            predicted=epoch_gain(context.diagnosis, best.predicted or 1.0),
            at=best.at,
            rationale=f"of the validation data {best.rationale}",
            source_edit=best.source_edit,
        )


def _unknown(context: Context) -> Skipped:
    """Why nobody looked at what feeds it."""
    epoch_s, validating_s = epoch_and_validation_s(context.diagnosis)
    if not epoch_s:
        return Skipped(reason="what validating takes of an epoch of unknown length is not known")
    share = validating_s / (epoch_s + validating_s)
    if share > MIN_VALIDATION_SHARE:
        return Skipped(reason="the validation data is no tf.data pipeline, or edited already")
    return Skipped(reason=f"validating takes {share:.1%} of an epoch")
