"""One version of a training in a fresh process: measured, or only seen to train."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from dataclasses import replace as replace_fields
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import (
    MAX_FIRST_EPOCH_S,
    CheckJob,
    Confirmation,
    ConfirmJob,
    JobResult,
)
from uncork.engine.subject.subject import Subject
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.benchmark.interleave import measure_blocks_interleaved, summarize
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy, find_draw_seeds
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.training.variant import Variant, VariantRunner

_CONFIRM_BLOCK_S: Final = 1.0
# Of one process: speeds differ more from process to process than within one.
_CONFIRM_ROUNDS: Final = 2
_CEILING_BLOCK_S: Final = 0.5
_CEILING_ROUNDS: Final = 3


class VersionListener(JobListener):
    """Acts on one version of a training: the script as it is, or with a plan's edits."""

    wants_source_lines = False

    def version_of(self, subject: Subject, original: Variant | None = None) -> Variant:
        """The version of a subject, or of another original."""
        original = original or subject.original
        if self.plan is None:
            return original
        version = original.with_pipeline_edits(self.plan.pipeline_edits)
        version = version.with_loader_edits(self.plan.loader_edits)
        version = version.with_validation_edits(self.plan.validation_edits)
        return version.with_step_edits(self.plan.step_edits)


class ConfirmListener(VersionListener):
    """Measure one version in a fresh process."""

    job: ConfirmJob

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """First epoch from cold, then the steady state, one block after the other.

        Nothing runs in between: a pipeline that stands still for a while is another one for
        TensorFlow's autotuner, and the version as written never does.
        """
        version = self.version_of(subject)
        runner, first_epoch_s, filling_s = self._begun(subject, version)
        runner.prime()
        (blocks,) = measure_blocks_interleaved(
            [runner], block_s=_CONFIRM_BLOCK_S, rounds=_CONFIRM_ROUNDS
        )
        has_ceiling = self.plan is not None and self.job.has_ceiling
        confirmation = Confirmation(
            measurement=summarize(blocks),
            ceiling_share=_of_ceiling(subject, version, runner) if has_ceiling else None,
            first_epoch_s=first_epoch_s,
            cache_fill_s=filling_s,
            validation_s=self._validation_s(subject, version),
        )
        return JobResult(machine=machine, confirmation=confirmation)

    def _begun(
        self, subject: Subject, version: Variant
    ) -> tuple[VariantRunner, float | None, float | None]:
        """What runs the version, its first epoch, and what filling its caches takes."""
        is_first = self.job.max_first_epoch_s >= MAX_FIRST_EPOCH_S  # others only warm up
        subject.use_all_data = is_first
        runner = subject.runner(version)
        first_epoch_s = runner.first_epoch(self.job.max_first_epoch_s)
        subject.use_all_data = self.job.is_full_cache_fill or (
            is_first and first_epoch_s is not None
        )
        part = subject.with_less_data(version)
        if part is version or part.pipeline is None or subject.data_subset is None:
            return runner, first_epoch_s, None
        if not is_first:
            return runner, None, None
        runner = subject.runner(version)
        begin = time.perf_counter()
        fill_caches(part.pipeline)
        return runner, None, (time.perf_counter() - begin) / subject.data_subset.kept_share(version)

    def _validation_s(self, subject: Subject, version: Variant) -> float | None:
        """The figures of the training are there: whatever a validation does, it leaves them."""
        if self.job.has_validation:
            with suppress(Exception):
                return subject.validation_s(version)
        return None


def _of_ceiling(subject: Subject, version: Variant, runner: VariantRunner) -> float:
    """Its speed over that of its step on a resident batch, in turn: what is left to win."""
    resident = subject.resident_runner(version)
    resident.prime()
    runners = [runner, resident]
    ours, theirs = measure_blocks_interleaved(
        runners, block_s=_CEILING_BLOCK_S, rounds=_CEILING_ROUNDS
    )
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(b.samples_per_s / r.samples_per_s for b, r in pairs)


# Seconds of training, compilation aside: it is to be seen at work, not to be timed.
_MOMENT_S: Final = 1.0
# For the digests of batches, of two passes.
_DIGESTS_S: Final = 120.0
_SEED: Final = 20261
_PASS_END: Final = "end"


class CheckListener(VersionListener):
    """Let one version train a little, and hand back what it trained."""

    job: CheckJob

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """A moment of its first epoch, from cold."""
        version = self.version_of(subject)
        subject.runner(version).first_epoch(_MOMENT_S)
        with suppress(Exception):  # of a loop's own step something is known once it was looked for
            subject.untraced_s(_MOMENT_S / 10)
        digest = version.pipeline.digest if version.pipeline else ""
        return JobResult(
            machine=machine,
            trained_workload=replace(subject.observed_workload(), pipeline_digest=digest),
            batch_digests=self._batch_digests(subject),
            draw_seeds=find_draw_seeds(version.pipeline) if version.pipeline else (),
        )

    def _batch_digests(self, subject: Subject) -> tuple[str, ...]:
        """Of the batches of two passes, each draw with a seed; nothing where none can be made."""
        if not self.job.batch_count or subject.original.pipeline is None:
            return ()
        with suppress(Exception):  # what cannot be seen is not said to be equal
            seeded = create_seeded_copy(subject.original.pipeline, _SEED)
            twin = self.version_of(subject, replace_fields(subject.original, pipeline=seeded))
            assert twin.pipeline is not None
            found = element_digests(
                twin.pipeline.dataset, max_elements=self.job.batch_count, max_s=_DIGESTS_S
            )
            return tuple(d for epoch in found.epochs for d in (*epoch.digests, _PASS_END))
        return ()
