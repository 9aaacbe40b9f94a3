"""How long each part of a tuning may take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.optimizations.base.proposal import MIN_PREDICTED_SPEEDUP, Proposal, Skipped

# Of processes, that is expected of a confirmation: two where the gain is large, five where it is in
# doubt.
_CONFIRMATION_PAIRS: Final = 2.5
# Seconds that a confirming process works once it has reached the training call, and the most of a
# budget that all of them together may be reckoned at: a short one is for trials, too.
_WORK_S: Final = 14.0
_MOST: Final = 0.38


def confirmation_s(time_to_training_s: float, budget_s: float) -> float:
    """Seconds that :func:`confirm` will take, as far as can be told beforehand.

    Args:
        time_to_training_s: From the start of a process to the training call.
        budget_s: Of the whole tuning.

    Example:
        >>> confirmation_s(3.0, budget_s=270.0)
        85.0
    """
    return min(_MOST * budget_s, 2 * _CONFIRMATION_PAIRS * (time_to_training_s + _WORK_S))


def whole_budget_s(trials_s: float, time_to_training_s: float) -> float:
    """Seconds of a whole tuning that leave so many for its trials.

    Example:
        >>> whole_budget_s(60.0, time_to_training_s=3.0)
        145.0
    """
    return trials_s + confirmation_s(time_to_training_s, math.inf)


# Seconds of one block. Shorter ones measure the start of an iterator, not the training; where
# epochs are short, some of their ends belong in it, for they belong to the training.
BLOCK_RANGE_S: Final = (1.0, 2.0)
EPOCHS_PER_BLOCK: Final = 2.5
TRIAL_S: Final = 18.0
PROOF_S: Final = 90.0
# Where little time is left, batches of a part of the data are compared.
MIN_PIPELINE_PROOF_S: Final = 15.0
# A step edit of unknown effect is tried on a resident batch first, where noise is least.
RESIDENT_BLOCK_S: Final = 0.5
# What that takes, compilation included, of a step of no great length.
RESIDENT_TRIAL_S: Final = 10.0
# Of the whole budget, for the first diagnosis; seconds where the budget follows from it.
DIAGNOSIS_S: Final = 10.0
DIAGNOSIS_SHARE: Final = 0.07
# For confirming the result, where nothing better is known about what that takes.
RESERVED_SHARE: Final = 0.3
# Of that, what is still kept back from a second look as long as nothing is in force.
RETRY_RESERVED_SHARE: Final = 0.5
# What follows a gain once it is measured: the proof, and a look at where the bottleneck is now.
AFTER_GAIN_S: Final = 20.0
# A look at what a step leaves that is not kept yet, but tried together with others.
COMBINED_OBSERVATION_S: Final = 8.0
# To see what larger batches are worth.
LARGER_BATCHES_S: Final = 40.0
MIN_LARGER_BATCHES_S: Final = 15.0
# To prove what one of them makes of as many samples.
TRAINING_PROOF_S: Final = 40.0

# To record what another backend is compared with; that, and to try it.
HANDOVER_RECORDING_S: Final = 10.0
PROCESS_TRIAL_S: Final = 30.0


def block_s(diagnosis: WorkloadDiagnosis) -> float:
    """Of one block of a training: a few of its epochs, where they are short."""
    shortest, longest = BLOCK_RANGE_S
    steps = diagnosis.workload.steps_per_epoch
    if steps is None or steps * diagnosis.step_s > longest:
        return shortest
    return min(longest, max(shortest, EPOCHS_PER_BLOCK * steps * diagnosis.step_s))


def needed_s(later_proposals: Iterable[Proposal | Skipped], min_gain: float = 1.0) -> float:
    """For what is further along the road, as far as it may gain more than was promised here.

    Example:
        >>> cache = Proposal(edits=(), predicted=8.0, at=None, rationale="")
        >>> needed_s([cache]), needed_s([cache], min_gain=9.0)
        (38.0, 0.0)
    """
    total_s = 0.0
    for proposal in later_proposals:
        if isinstance(proposal, Skipped):
            continue
        if proposal.predicted is None:
            total_s += RESIDENT_TRIAL_S
        elif proposal.predicted >= max(MIN_PREDICTED_SPEEDUP, min_gain):
            total_s += TRIAL_S + AFTER_GAIN_S
    return total_s
