"""How long a tuning may take where the user did not say: a part of what it is expected to save."""

from __future__ import annotations

from typing import Final

from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of the seconds that the training is expected to save.
_SHARE_OF_SAVING: Final = 0.1
# Seconds: less tries hardly anything, and few optimizations need more.
MIN_TRIALS_S: Final = 60.0
MAX_TRIALS_S: Final = 600.0
# Seconds, where nobody knows how long the training is.
_UNKNOWN_LENGTH_S: Final = 180.0


def trials_budget_s(diagnosis: WorkloadDiagnosis) -> float:
    """Seconds for trying optimizations: a tenth of what they are expected to save.

    Counted is one run of the training as its script asks for it, and the largest speed-up that the
    diagnosis leaves room for.

    Args:
        diagnosis: Of the training as written.

    Returns:
        Between :data:`MIN_TRIALS_S` and :data:`MAX_TRIALS_S`.
    """
    whole_s = training_s(diagnosis)
    if whole_s is None:
        return _UNKNOWN_LENGTH_S
    saved_s = whole_s * (1 - 1 / _largest_speedup(diagnosis))
    return min(MAX_TRIALS_S, max(MIN_TRIALS_S, _SHARE_OF_SAVING * saved_s))


def training_s(diagnosis: WorkloadDiagnosis) -> float | None:
    """Seconds of the whole training call with its validations; None where its length is unknown."""
    work, validation = diagnosis.workload, diagnosis.validation
    if work.is_fit_in_loop or work.is_epoch_count_assumed or not work.steps_per_epoch:
        return None
    steps_s = work.epochs * work.steps_per_epoch * diagnosis.step_s
    return steps_s + (validation.validation_count * validation.validation_s if validation else 0.0)


def _largest_speedup(diagnosis: WorkloadDiagnosis) -> float:
    """What a faster input, or what any finding promises at most."""
    return max(diagnosis.headroom, *(found.upper_bound for found in diagnosis.findings), 1.0)
