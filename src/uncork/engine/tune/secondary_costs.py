"""What a version may do otherwise beside its steps: how it validates, saves, or compiles them.

Such a candidate is timed and proved by itself, and counts by its part of the whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from uncork.core.base.measurement import Comparison
from uncork.core.costmodel.checkpoint_time import parts_of, saving_comparison
from uncork.core.costmodel.compile_time import Compiling, compiling_comparison, compiling_of
from uncork.core.costmodel.validation_time import (
    epoch_comparison,
    faster_for,
    seconds_of,
    with_validation,
)
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import FillsUp, JitCompileOff
from uncork.engine.subject.subject import Subject
from uncork.training.variant import Version, VersionRunner


class Apart(ABC):
    """A part of a training that is timed by itself.

    Attributes:
        is_beside: The training's steps, and what feeds them, are as before.
    """

    is_beside: ClassVar[bool] = True

    @abstractmethod
    def runner(self, subject: Subject, version: Version) -> VersionRunner:
        """Runs this part of a version."""

    @abstractmethod
    def prove(self, subject: Subject, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare it with the original's."""

    @abstractmethod
    def at_least(self, now: WorkloadDiagnosis, gain: float) -> float:
        """How many times as fast this part must be for such a speed-up of the whole."""

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

    def at_least(self, now: WorkloadDiagnosis, gain: float) -> float:
        return faster_for(*seconds_of(now), gain)

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

    def at_least(self, now: WorkloadDiagnosis, gain: float) -> float:
        return faster_for(*parts_of(now), gain)

    def of_whole(self, now: WorkloadDiagnosis, found: Comparison) -> Comparison:
        return saving_comparison(now, found)


class _Compiling(Apart):
    """Steps of shapes that are compiled by then: when others come up is chance in a trial."""

    is_beside = False

    def __init__(self, anew: Compiling) -> None:
        self._anew = anew

    def runner(self, subject: Subject, version: Version) -> VersionRunner:
        return subject.resident(version)

    def prove(self, subject: Subject, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_step(version, kind, budget_s)

    def at_least(self, now: WorkloadDiagnosis, gain: float) -> float:
        return self._anew.faster_for(gain)

    def of_whole(self, now: WorkloadDiagnosis, found: Comparison) -> Comparison:
        return compiling_comparison(self._anew, found)


def apart(base: Version, candidate: Version, now: WorkloadDiagnosis) -> Apart | None:
    """In what a candidate differs, where that is to be timed by itself.

    Args:
        base: In force.
        candidate: With more edits.
        now: What is known of the base.
    """
    if candidate.validation != base.validation:
        return _Validation()
    if candidate.saving != base.saving:
        return _Saving()
    added = candidate.step[len(base.step) :]
    anew = next(
        (_compiled(now, edit) for edit in added if isinstance(edit, JitCompileOff | FillsUp)), None
    )
    return _Compiling(anew) if anew is not None else None


def _compiled(now: WorkloadDiagnosis, edit: JitCompileOff | FillsUp) -> Compiling | None:
    return compiling_of(now, 0 if isinstance(edit, JitCompileOff) else edit.multiple)
