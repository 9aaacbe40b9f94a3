"""What a version may do otherwise without another step: how it validates, how it saves.

Such a candidate is timed and proved by itself, and counts by its part of the whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import Guarantee
from uncork.core.measurement import Comparison
from uncork.core.plan import Proof
from uncork.core.saving import parts_of, saving_comparison
from uncork.core.validating import epoch_comparison, seconds_of, with_validation
from uncork.engine.subject import Subject
from uncork.engine.version import Version, VersionRunner


class Apart(ABC):
    """A part of a training beside its steps."""

    @abstractmethod
    def runner(self, subject: Subject, version: Version) -> VersionRunner:
        """Runs this part of a version."""

    @abstractmethod
    def prove(self, subject: Subject, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare it with the original's."""

    @abstractmethod
    def parts_s(self, now: WorkloadDiagnosis) -> tuple[float, float]:
        """Seconds of the whole without it, and its own."""

    @abstractmethod
    def of_whole(self, now: WorkloadDiagnosis, found: Comparison) -> Comparison:
        """What a comparison of this part says of the whole."""

    def looked_at(
        self, now: WorkloadDiagnosis, samples_per_s: float, *, edited: bool
    ) -> WorkloadDiagnosis:
        """The diagnosis, with the speed of this part as it was just measured."""
        del samples_per_s, edited
        return now


class _Validation(Apart):
    def runner(self, subject: Subject, version: Version) -> VersionRunner:
        return subject.validation_runner(version)

    def prove(self, subject: Subject, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_validation(version, kind, budget_s)

    def parts_s(self, now: WorkloadDiagnosis) -> tuple[float, float]:
        return seconds_of(now)

    def of_whole(self, now: WorkloadDiagnosis, found: Comparison) -> Comparison:
        return epoch_comparison(now, found)

    def looked_at(
        self, now: WorkloadDiagnosis, samples_per_s: float, *, edited: bool
    ) -> WorkloadDiagnosis:
        return with_validation(now, samples_per_s, edited=edited)


class _Saving(Apart):
    def runner(self, subject: Subject, version: Version) -> VersionRunner:
        return subject.saving_runner(version)

    def prove(self, subject: Subject, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_saving(version, kind, budget_s)

    def parts_s(self, now: WorkloadDiagnosis) -> tuple[float, float]:
        return parts_of(now)

    def of_whole(self, now: WorkloadDiagnosis, found: Comparison) -> Comparison:
        return saving_comparison(now, found)


def apart(base: Version, candidate: Version) -> Apart | None:
    """In what a candidate differs, where that is not how its steps run or are fed."""
    if candidate.validation != base.validation:
        return _Validation()
    return _Saving() if candidate.saving != base.saving else None
