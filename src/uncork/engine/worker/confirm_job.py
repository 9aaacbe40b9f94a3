"""What a version trains, seen by running it for a moment: for a script with a patch.

What is done with the training call that is meant: diagnose it, tune it, confirm a plan.
"""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import Final

from uncork.core.base.journal import Journal
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import FIRST_EPOCH_S, Confirmation, Job, Result
from uncork.core.documents.plan import Plan
from uncork.engine.subject.subject import Subject
from uncork.engine.worker.job_listener import Trial
from uncork.measure.benchmark.interleave import in_turn, summarize
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.training.variant import Version, VersionRunner

_CONFIRM_BLOCK_S: Final = 1.0
_CONFIRM_ROUNDS: Final = 3
_CEILING_ROUNDS: Final = 2


class Confirming(Trial):
    """Measure one version in a fresh process: the script as it is, or with a plan's edits."""

    wants_source_lines = False

    def __init__(self, job: Job, journal: Journal, scratch: str, plan: Plan | None) -> None:
        super().__init__(job, journal, scratch)
        self._plan = plan

    def work(self, subject: Subject, machine: Machine) -> Result:
        """First epoch from cold, then the steady state, one block after the other.

        Nothing runs in between: a pipeline that stands still for a while is another one for
        TensorFlow's autotuner, and the version as written never does.
        """
        version = self._version(subject)
        runner, first_epoch_s, filling_s = self._begun(subject, version)
        runner.prime()
        (blocks,) = in_turn([runner], block_s=_CONFIRM_BLOCK_S, rounds=_CONFIRM_ROUNDS)
        confirmation = Confirmation(
            measurement=summarize(blocks),
            of_ceiling=None if self._plan is None else _of_ceiling(subject, version, runner),
            first_epoch_s=first_epoch_s,
            filling_s=filling_s,
            validation_s=self._validation_s(subject, version),
        )
        return Result(machine=machine, confirmation=confirmation)

    def _begun(
        self, subject: Subject, version: Version
    ) -> tuple[VersionRunner, float | None, float | None]:
        """What runs the version, its first epoch, and what filling its caches takes."""
        is_first = self.job.first_epoch_s >= FIRST_EPOCH_S  # others only warm up
        subject.whole = is_first
        runner = subject.runner(version)
        first_epoch_s = runner.first_epoch(self.job.first_epoch_s)
        subject.whole = self.job.whole or (is_first and first_epoch_s is not None)
        part = subject.on_part(version)
        if part is version or part.pipeline is None or subject.shorter is None:
            return runner, first_epoch_s, None
        if not is_first:
            return runner, None, None
        runner = subject.runner(version)
        begin = time.perf_counter()
        fill_caches(part.pipeline)
        return runner, None, (time.perf_counter() - begin) / subject.shorter.share(version)

    def _validation_s(self, subject: Subject, version: Version) -> float | None:
        """The figures of the training are there: whatever a validation does, it leaves them."""
        if self.job.validates:
            with suppress(Exception):
                return subject.validation_s(version)
        return None

    def _version(self, subject: Subject) -> Version:
        if self._plan is None:
            return subject.original
        version = subject.original.with_pipeline_edits(self._plan.pipeline_edits)
        version = version.with_loader_edits(self._plan.loader_edits)
        version = version.with_validation_edits(self._plan.validation_edits)
        return version.with_step_edits(self._plan.step_edits)


def _of_ceiling(subject: Subject, version: Version, runner: VersionRunner) -> float:
    """Its speed over that of its step on a resident batch, in turn: what is left to win."""
    resident = subject.resident(version)
    resident.prime()
    runners = [runner, resident]
    ours, theirs = in_turn(runners, block_s=_CONFIRM_BLOCK_S, rounds=_CEILING_ROUNDS)
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(b.samples_per_s / r.samples_per_s for b, r in pairs)


# Seconds of training, compilation aside: it is to be seen at work, not to be timed.
_MOMENT_S: Final = 1.0


class Checking(Confirming):
    """Let one version train a little, and hand back what it trained."""

    def work(self, subject: Subject, machine: Machine) -> Result:
        """A moment of its first epoch, from cold."""
        version = self._version(subject)
        subject.runner(version).first_epoch(_MOMENT_S)
        with suppress(Exception):  # of a loop's own step something is known once it was looked for
            subject.untraced_s(_MOMENT_S / 10)
        digest = version.pipeline.digest if version.pipeline else ""
        return Result(machine=machine, trained=replace(subject.seen(), pipeline=digest))
