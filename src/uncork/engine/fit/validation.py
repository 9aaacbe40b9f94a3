"""The validation of a ``fit`` under examination: what it takes, what feeds it, its edits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from uncork.core.base.errors import NothingToMeasure
from uncork.core.costmodel.validation_time import MIN_VALIDATION_SHARE
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import StepEdit, has_tf_function
from uncork.core.evidence.callbacks import Validation, ValidationFeed
from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.measure.benchmark.interleave import Block, measure_blocks_interleaved, summarize
from uncork.pipeline.analysis.passes import has_default_rewrites
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.profile.probes import count_elements
from uncork.pipeline.profile.stage_costs import measure_stage_costs as measure_stages
from uncork.pipeline.runtime.cache_fill import MAX_FILL_S, fill_caches
from uncork.pipeline.runtime.trial_copy import create_trial_copy
from uncork.training.input.feed import Feed, count_batch_samples
from uncork.training.input.resident_batches import collect_resident_batches
from uncork.training.input.validation import ValidationSetup
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.pipeline import PipelineProver

# Of a longer validation the rest is reckoned; in lengths of a block, as all of these.
_PASS: Final = 2.5
_TURN: Final = 0.6
_STAGES: Final = 3.0
_ROUNDS: Final = 3
# What is not counted, or not in a cache by then, is given up.
_COUNT_S: Final = 10.0
_FILL_S: Final = 20.0
# A first pass, of which only what is compiled in it matters.
_THROUGH_S: Final = 5.0


class _ValidationRunner(VariantRunner):
    """Validation steps, their caches filled before they are timed."""

    def __init__(self, runner: FitRunner, pipeline: Pipeline | None, fill_s: float) -> None:
        self._runner = runner
        self._pipeline = pipeline
        self._fill_s = fill_s
        self._went_through = False

    def prime(self) -> float:
        """Fill caches, compile, and run one validation, whose last batch may have its own shape.

        Raises:
            NothingToMeasure: A cache takes too long to fill.
        """
        begin = time.perf_counter()
        if self._pipeline is not None and not fill_caches(self._pipeline, self._fill_s):
            raise NothingToMeasure(
                f"the cache of the validation data was not full after {self._fill_s:.0f} s",
                "data that can be read in that time",
                "validate on less data",
            )
        self._runner.prime()
        if not self._went_through:
            self._runner.first_epoch(_THROUGH_S)
            self._went_through = True
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """Seconds of one validation from here; None past the limit."""
        return self._runner.first_epoch(limit_s)

    def block(self, seconds: float) -> Block:
        """Time steps for about ``seconds``."""
        return self._runner.block(seconds)


class ValidationTrial:
    """Runs and edits the validation of one ``fit``; what it reads is a copy of the user's pipeline.

    Args:
        validating: From the arguments of the ``fit``.
        settings: How a step with some edits runs.
        snapshot: Each block starts from these weights.
        scratch: Directory for files that a trial would otherwise write into the user's.

    Attributes:
        samples: In one validation; None where its length is not known, or it has no data.
        feed: A copy of its data.
    """

    def __init__(
        self,
        validating: ValidationSetup,
        settings: Callable[[tuple[StepEdit, ...]], StepSettings],
        snapshot: Snapshot,
        scratch: str,
    ) -> None:
        self._validating = validating
        self._settings = settings
        self._snapshot = snapshot
        pipeline = create_trial_copy(validating.feed.dataset, scratch)
        self.feed = validating.feed
        if pipeline is not None:
            self.feed = self.feed.with_dataset(pipeline.dataset)
        self._original = Variant(pipeline)
        self._runners: dict[Any, VariantRunner] = {}
        self._versions: dict[tuple[PipelineEdit, ...], Variant] = {}
        self._prover = PipelineProver(pipeline)
        model = settings(()).model
        self._held = collect_resident_batches(
            self.feed.batches_dataset(model), is_compiled=model.jit_compile is True
        )
        self._size = max((count_batch_samples(batch) or 0 for batch in self._held), default=0)
        batches = self._batches = self.feed.create_epoch_iterator(model).num_batches or _counted(
            pipeline
        )
        self.samples: int | None = batches * self._size if batches and self._size else None

    def measure(self, epoch_s: float | None, block_s: float) -> Validation | None:
        """What one takes; and where that is much, what its input takes.

        Args:
            epoch_s: Seconds of an epoch's training; None where that is not known.
            block_s: How long to look at each thing.
        """
        seconds = self.seconds((), block_s=block_s)
        if seconds is None or self.samples is None:
            return None
        every = self._validating.epoch_interval
        much = epoch_s and seconds / every > MIN_VALIDATION_SHARE * (epoch_s + seconds / every)
        return Validation(
            validation_s=seconds,
            sample_count=self.samples,
            every_epochs=every,
            validation_count=self._validating.validation_count,
            at=self._put_together_at(),
            feed=self._fed(block_s) if much else None,
        )

    def seconds(
        self,
        edits: tuple[PipelineEdit, ...],
        step: tuple[StepEdit, ...] = (),
        *,
        block_s: float,
    ) -> float | None:
        """Of one validation, its caches filled; None where its length is not known."""
        if self.samples is None:
            return None
        runner = self.runner(edits, step)
        runner.prime()
        return self.samples / runner.block(_PASS * block_s).samples_per_s

    def runner(
        self, edits: tuple[PipelineEdit, ...], step: tuple[StepEdit, ...] = ()
    ) -> VariantRunner:
        """Validation steps, fed as these edits say.

        Raises:
            EditRefused: The pipeline is not what an edit expects.
        """
        if (edits, step) not in self._runners:
            version = self._version(edits)
            feed = self.feed
            if version.pipeline is not None:
                feed = feed.with_dataset(version.pipeline.dataset)
            fill_s = MAX_FILL_S if edits else _FILL_S
            made = _ValidationRunner(self._run(feed, step), version.pipeline, fill_s)
            self._runners[edits, step] = made
        return self._runners[edits, step]

    def prove(self, edits: tuple[PipelineEdit, ...], kind: Guarantee, budget_s: float) -> Proof:
        """Compare the batches of two validations with those of the user's pipeline."""
        return self._prover.prove(self._version(edits), kind, budget_s)

    def release_memory(self) -> None:
        """What edited versions keep in memory is free again."""
        self._versions.clear()
        self._runners.clear()

    def _version(self, edits: tuple[PipelineEdit, ...]) -> Variant:
        """Made once, so that what it keeps in memory is kept for the next look."""
        if not edits:
            return self._original
        if edits not in self._versions:
            self._versions[edits] = self._original.with_pipeline_edits(edits)
        return self._versions[edits]

    def _run(self, feed: Feed, step: tuple[StepEdit, ...]) -> FitRunner:
        """A model that runs eagerly is trained as a graph under a plan, never validated so."""
        settings = self._settings(() if has_tf_function(step) else step)
        return FitRunner(settings, feed, self._snapshot, float(self._size), is_validation=True)

    def _fed(self, block_s: float) -> ValidationFeed | None:
        pipeline = self._original.pipeline
        if pipeline is None or self.feed.steps_per_epoch or not self._batches:
            return None
        resident = PrimedRunner(self._run(self.feed.with_resident_batches(self._held), ()), None)
        runners = (self.runner(()), resident)
        for runner in runners:
            runner.prime()
        as_is, alone = measure_blocks_interleaved(runners, block_s=_TURN * block_s, rounds=_ROUNDS)
        measured, best = summarize(as_is), summarize(alone)
        stages_s = _STAGES * block_s
        return ValidationFeed(
            pipeline_digest=pipeline.digest,
            batch_count=self._batches,
            has_default_rewrites=has_default_rewrites(pipeline),
            measurement=measured,
            resident_speedup=max(1.0, best.samples_per_s / measured.samples_per_s),
            resident_step_cpu_s=best.cpu_s_per_step,
            stages=measure_stages(pipeline, batch_size=self._size, budget_s=stages_s),
        )

    def _put_together_at(self) -> str | None:
        """The line of its last ``batch``."""
        pipeline = self._original.pipeline
        batches = [node for node in pipeline.stages if node.kind == "batch"] if pipeline else []
        return batches[-1].at if batches else None


def _counted(pipeline: Pipeline | None) -> int | None:
    """Batches of a pipeline that does not tell; None where it has no end, or a late one."""
    if pipeline is None or pipeline.cardinality == INFINITE_LENGTH:
        return None
    found = count_elements(pipeline.dataset, budget_s=_COUNT_S)
    return None if found is None else round(found)
