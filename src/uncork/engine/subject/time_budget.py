"""Baseline and plan in turn, each in processes of their own: the figures that are reported.

How long each part of a tuning may take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.optimizations.base.proposal import WORTH_TRYING, Proposal, Skipped

PAIRS: Final = 3
# Seconds that a confirming process works once it has reached the training call, and the most of a
# budget that all of them together may be reckoned at: a short one is for trials, too.
_WORK_S: Final = 14.0
_MOST: Final = 0.38


def confirming_s(reaching_s: float, budget_s: float) -> float:
    """Seconds that :func:`confirm` will take, as far as can be told beforehand.

    Args:
        reaching_s: From the start of a process to the training call.
        budget_s: Of the whole tuning.

    Example:
        >>> confirming_s(3.0, budget_s=270.0)
        102.0
    """
    return min(_MOST * budget_s, 2 * PAIRS * (reaching_s + _WORK_S))


# Seconds of one block. Shorter ones measure the start of an iterator, not the training; where
# epochs are short, some of their ends belong in it, for they belong to the training.
BLOCK_S: Final = (1.0, 2.0)
EPOCHS_A_BLOCK: Final = 2.5
PAIRS_S: Final = 18.0
PROOF_S: Final = 90.0
# A step edit of unknown effect is tried on a resident batch first, where noise is least.
RESIDENT_BLOCK_S: Final = 0.5
# What that takes, compilation included, of a step of no great length.
ALONE_S: Final = 10.0
# Of the whole budget, for the first diagnosis.
LOOKING_SHARE: Final = 0.07
# For confirming the result, where nothing better is known about what that takes.
RESERVED_SHARE: Final = 0.3
# Of that, what is still kept back from a second look as long as nothing is in force.
RISKED_SHARE: Final = 0.5
# What follows a gain once it is measured: the proof, and a look at where the bottleneck is now.
TAIL_S: Final = 20.0
# A look at what a step leaves that is not kept yet, but tried together with others.
BETWEEN_S: Final = 8.0
# To see what larger batches are worth.
BATCHES_S: Final = 40.0
LEAST_BATCHES_S: Final = 15.0
# To prove what one of them makes of as many samples.
TRAINING_S: Final = 40.0

# To record what another backend is compared with; that, and to try it.
HANDED_OVER_S: Final = 10.0
ELSEWHERE_S: Final = 30.0


def block_s(now: WorkloadDiagnosis) -> float:
    """Of one block of a training: a few of its epochs, where they are short."""
    shortest, longest = BLOCK_S
    steps = now.workload.steps_per_epoch
    if steps is None or steps * now.step_s > longest:
        return shortest
    return min(longest, max(shortest, EPOCHS_A_BLOCK * steps * now.step_s))


def needed_s(further: Iterable[Proposal | Skipped], promised: float = 1.0) -> float:
    """For what is further along the road, as far as it may gain more than was promised here.

    Example:
        >>> cache = Proposal(edits=(), predicted=8.0, at=None, why="")
        >>> needed_s([cache]), needed_s([cache], promised=9.0)
        (38.0, 0.0)
    """
    total_s = 0.0
    for proposal in further:
        if isinstance(proposal, Skipped):
            continue
        if proposal.predicted is None:
            total_s += ALONE_S
        elif proposal.predicted >= max(WORTH_TRYING, promised):
            total_s += PAIRS_S + TAIL_S
    return total_s
