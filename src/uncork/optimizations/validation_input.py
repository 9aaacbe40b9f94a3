"""Speed up the input of the validation like that of the training.

After each epoch ``fit`` reads the validation data from the start, and trains nothing meanwhile.
Uncork proposes for its pipeline what it would propose for a training, as far as that is exact. It
tries the best of these on validation steps, and counts the gain for an epoch with its validation.

Legal because each of these edits is legal for any data: it gives the same elements in the same
order in every pass, and a validation that starts again each time is such a pass.
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

# Of equal gains the first wins: work that is not done needs no threads.
_OPTIMIZATIONS: Final[tuple[Optimization, ...]] = (
    CacheOptimization(),
    ParallelizePrefixOptimization(),
    VectorizeOptimization(),
    PrefetchOptimization(),
)


def _refusal(context: Context) -> str:
    if context.is_loop:
        return "your training loop runs its own validation"
    if context.diagnosis.validation is None:
        return (
            "no validation, or one with endless data, data from Python or a tf.distribute "
            "strategy, or in a process that continues"
        )
    if context.workload.validation_steps:
        return "with validation_steps a cache never sees all validation data"
    return ""


@final
class ValidationInputOptimization(Optimization):
    """Apply the best exact edit to the pipeline of the validation."""

    name = "validation_input"
    stage = "input"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose the edits of one optimization, with the gain for an epoch and its validation."""
        validating = validation_as_training(context.diagnosis)
        if validating is None:
            return _unknown(context)
        answers = [o.propose(replace(context, diagnosis=validating)) for o in _OPTIMIZATIONS]
        proposals = [
            answer for answer in answers if isinstance(answer, Proposal) and answer.predicted
        ]
        if not proposals:
            return next(answer for answer in answers if isinstance(answer, Skipped))
        best = max(proposals, key=lambda proposal: round(proposal.predicted or 1.0, 2))
        edits = tuple(edit for edit in best.edits if isinstance(edit, PipelineEdit))
        return Proposal(
            edits=(
                ValidationInput(edits=edits, expected_digest=validating.workload.pipeline_digest),
            ),
            predicted=epoch_gain(context.diagnosis, best.predicted or 1.0),
            at=best.at,
            rationale=f"for the validation data, {best.rationale}",
            source_edit=best.source_edit,
        )


def _unknown(context: Context) -> Skipped:
    """Why the diagnosis has no measurements of the validation data."""
    epoch_s, validating_s = epoch_and_validation_s(context.diagnosis)
    if not epoch_s:
        return Skipped(reason="the validation's share of an epoch of unknown length is not known")
    share = validating_s / (epoch_s + validating_s)
    if share > MIN_VALIDATION_SHARE:
        return Skipped(reason="the validation data is no tf.data pipeline, or is edited already")
    return Skipped(reason=f"the validation takes {share:.1%} of an epoch")
