"""What a version may do otherwise beside its steps: how it validates, saves, or compiles them.

Such a candidate is timed and proved by itself, and counts by its part of the whole.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from uncork.core.base.measurement import Comparison
from uncork.core.costmodel.checkpoint_time import checkpoint_comparison, checkpoint_trial_parts
from uncork.core.costmodel.compile_time import (
    CompileTime,
    compile_comparison,
    estimate_compile_time,
)
from uncork.core.costmodel.validation_time import (
    epoch_and_validation_s,
    epoch_comparison,
    required_part_speedup,
    with_validation_speed,
)
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import JitCompileOff, PaddingEdit
from uncork.engine.subject.subject import Subject
from uncork.training.variant import Variant, VariantRunner


class SecondaryCost(ABC):
    """A part of a training that is timed by itself.

    Attributes:
        leaves_steps_unchanged: The training's steps, and what feeds them, are as before.
        max_block_s: Seconds of one block of a trial, at most.
    """

    leaves_steps_unchanged: ClassVar[bool] = True
    max_block_s: ClassVar[float] = math.inf

    @abstractmethod
    def runner(self, subject: Subject, variant: Variant) -> VariantRunner:
        """Runs this part of a version."""

    @abstractmethod
    def prove(self, subject: Subject, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Compare it with the original's."""

    @abstractmethod
    def min_ratio(self, diagnosis: WorkloadDiagnosis, total_gain: float) -> float:
        """How many times as fast this part must be for such a speed-up of the whole."""

    @abstractmethod
    def scale_to_whole(self, diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
        """What a comparison of this part says of the whole."""

    def update_diagnosis(
        self, diagnosis: WorkloadDiagnosis, samples_per_s: float, *, edited: bool
    ) -> WorkloadDiagnosis:
        """The diagnosis, with the speed of this part as it was just measured."""
        del samples_per_s, edited
        return diagnosis


class _Validation(SecondaryCost):
    # A validation is shorter than a training, and its steps are alike.
    max_block_s = 0.5

    def runner(self, subject: Subject, variant: Variant) -> VariantRunner:
        return subject.validation_runner(variant)

    def prove(self, subject: Subject, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_validation(variant, kind, budget_s)

    def min_ratio(self, diagnosis: WorkloadDiagnosis, total_gain: float) -> float:
        return required_part_speedup(*epoch_and_validation_s(diagnosis), total_gain)

    def scale_to_whole(self, diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
        return epoch_comparison(diagnosis, comparison)

    def update_diagnosis(
        self, diagnosis: WorkloadDiagnosis, samples_per_s: float, *, edited: bool
    ) -> WorkloadDiagnosis:
        return with_validation_speed(diagnosis, samples_per_s, is_edited=edited)


class _Saving(SecondaryCost):
    def runner(self, subject: Subject, variant: Variant) -> VariantRunner:
        return subject.checkpoint_runner(variant)

    def prove(self, subject: Subject, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_checkpoints(variant, kind, budget_s)

    def min_ratio(self, diagnosis: WorkloadDiagnosis, total_gain: float) -> float:
        return required_part_speedup(*checkpoint_trial_parts(diagnosis), total_gain)

    def scale_to_whole(self, diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
        return checkpoint_comparison(diagnosis, comparison)


class _Compiling(SecondaryCost):
    """Steps of shapes that are compiled by then: when others come up is chance in a trial."""

    leaves_steps_unchanged = False

    def __init__(self, anew: CompileTime) -> None:
        self._anew = anew

    def runner(self, subject: Subject, variant: Variant) -> VariantRunner:
        return subject.resident_runner(variant)

    def prove(self, subject: Subject, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        return subject.prove_step(variant, kind, budget_s)

    def min_ratio(self, diagnosis: WorkloadDiagnosis, total_gain: float) -> float:
        return self._anew.step_speedup_for(total_gain)

    def scale_to_whole(self, diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
        return compile_comparison(self._anew, comparison)


def secondary_cost_of(
    base: Variant, candidate: Variant, diagnosis: WorkloadDiagnosis
) -> SecondaryCost | None:
    """In what a candidate differs, where that is to be timed by itself.

    Args:
        base: In force.
        candidate: With more edits.
        diagnosis: What is known of the base.
    """
    if candidate.validation_edits != base.validation_edits:
        return _Validation()
    if candidate.checkpoint_edits != base.checkpoint_edits:
        return _Saving()
    added = candidate.step_edits[len(base.step_edits) :]
    anew = next(
        (
            _compiled(diagnosis, edit)
            for edit in added
            if isinstance(edit, JitCompileOff | PaddingEdit)
        ),
        None,
    )
    return _Compiling(anew) if anew is not None else None


def _compiled(now: WorkloadDiagnosis, edit: JitCompileOff | PaddingEdit) -> CompileTime | None:
    return estimate_compile_time(now, 0 if isinstance(edit, JitCompileOff) else edit.multiple)
