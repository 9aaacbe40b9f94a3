"""One way to run a training, and what runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import replace
from uncork.core.edits.edit import AsyncCheckpoint, Edit, LoaderEdit, select_validation_edits
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import StepEdit, find_batch_multiplier
from uncork.measure.benchmark.interleave import Block, compare_few_pairs
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.apply import apply_edit


@dataclass(frozen=True)
class Variant:
    """One way to run a training.

    Attributes:
        pipeline: Its input pipeline, None where there is no tf.data.
        step_edits: Edits of the training step, in order.
        pipeline_edits: The pipeline edits that led to ``pipeline``, each with the digest that it
            expects.
        loader_edits: Edits of a loader in Python.
        validation_edits: Edits of the pipeline that feeds the validation.
        checkpoint_edits: Edits of how checkpoints are written.
    """

    pipeline: Pipeline | None
    step_edits: tuple[StepEdit, ...] = ()
    pipeline_edits: tuple[PipelineEdit, ...] = field(default=())
    loader_edits: tuple[LoaderEdit, ...] = ()
    validation_edits: tuple[PipelineEdit, ...] = ()
    checkpoint_edits: tuple[AsyncCheckpoint, ...] = ()

    @property
    def batch_multiplier(self) -> int:
        """How many of the script's batches a step trains on."""
        return find_batch_multiplier(self.step_edits)

    def with_edits(self, edits: tuple[Edit, ...]) -> Variant:
        """All of them in their places, those of each kind in order.

        Raises:
            EditRefused: The pipeline is not what an edit expects.
        """
        version = self.with_pipeline_edits(tuple(e for e in edits if isinstance(e, PipelineEdit)))
        version = version.with_loader_edits(tuple(e for e in edits if isinstance(e, LoaderEdit)))
        version = version.with_step_edits(tuple(e for e in edits if isinstance(e, StepEdit)))
        version = version.with_validation_edits(select_validation_edits(edits))
        saving = tuple(edit for edit in edits if isinstance(edit, AsyncCheckpoint))
        return replace_fields(version, checkpoint_edits=version.checkpoint_edits + saving)

    def with_pipeline_edits(self, edits: tuple[PipelineEdit, ...]) -> Variant:
        """Apply edits in order; one that expects nothing in particular takes what it finds.

        Raises:
            EditRefused: The pipeline is not what an edit expects.
        """
        pipeline, done = self.pipeline, list(self.pipeline_edits)
        for edit in edits:
            assert pipeline is not None
            concrete = (
                edit if edit.expected_digest else replace(edit, expected_digest=pipeline.digest)
            )
            pipeline = apply_edit(pipeline, concrete)
            done.append(concrete)
        return replace_fields(self, pipeline=pipeline, pipeline_edits=tuple(done))

    def with_step_edits(self, edits: tuple[StepEdit, ...]) -> Variant:
        """Add edits of the training step."""
        return replace_fields(self, step_edits=self.step_edits + edits)

    def with_loader_edits(self, edits: tuple[LoaderEdit, ...]) -> Variant:
        """Add edits of a loader in Python."""
        return replace_fields(self, loader_edits=self.loader_edits + edits)

    def with_validation_edits(self, edits: tuple[PipelineEdit, ...]) -> Variant:
        """Add edits of the validation's pipeline."""
        return replace_fields(self, validation_edits=self.validation_edits + edits)


class VariantRunner(ABC):
    """A version that can run some of its steps; compiled and warm after :meth:`prime`."""

    @abstractmethod
    def prime(self) -> float:
        """Compile and start up, outside any measurement; seconds it took."""

    @abstractmethod
    def first_epoch(self, limit_s: float) -> float | None:
        """Seconds of the first epoch from cold; None when it is not known or lasts longer."""

    @abstractmethod
    def block(self, seconds: float) -> Block:
        """Time steps for about ``seconds`` from a fresh iterator."""


def compare_in_memory(base: VariantRunner, candidate: VariantRunner, block_s: float) -> Comparison:
    """Two runners on batches from memory, compiled first: a few pairs are enough."""
    candidate.prime()
    base.prime()
    return compare_few_pairs(base, candidate, block_s=block_s).comparison
