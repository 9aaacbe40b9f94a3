"""What is done with the training call that is meant: diagnose it, tune it, confirm a plan."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from uncork.core.job import FIRST_EPOCH_S, Confirmation, Job, Result
from uncork.core.journal import Journal
from uncork.core.machine import Machine
from uncork.core.plan import ENDED, Plan
from uncork.core.record import replace
from uncork.engine.confirm import confirming_s
from uncork.engine.made_to_fit import made_to_fit
from uncork.engine.observe import observe, with_disk, with_epoch_hooks
from uncork.engine.pipelines import fill_caches
from uncork.engine.seconds import ELSEWHERE_S, HANDED_OVER_S, LOOKING_SHARE
from uncork.engine.subject import Subject
from uncork.engine.timeline import keep_timeline
from uncork.engine.trial import Trial
from uncork.engine.version import Version, VersionRunner
from uncork.engine.walk import Walk
from uncork.measure import in_turn, summarize
from uncork.measure.overhead import clock_s
from uncork.road.keras_backend import AnotherBackend

_CONFIRM_BLOCK_S: Final = 1.0
_CONFIRM_ROUNDS: Final = 3
_CEILING_ROUNDS: Final = 2


class Diagnosing(Trial):
    """Measure, explain, stop."""

    takes_any_loop = True

    def work(self, subject: Subject, machine: Machine) -> Result:
        """One diagnosis of the training as it is."""
        before = observe(subject, machine, self.journal, budget_s=self.job.policy.budget_s)
        share = clock_s() / before.step_s
        if self.job.timeline is not None:
            self.journal.write("phase", "keeping a timeline of some steps")
            missing = keep_timeline(subject, self.job.timeline, before.step_s)
            if missing:  # first: it was asked for, and only some notes are shown
                before = replace(before, notes=(missing, *before.notes))
        found = Result(machine=machine, before=before, overhead_share=share)
        self._done(found)  # whatever the hooks of a callback do to this process
        return replace(found, before=with_epoch_hooks(subject, before, machine))


class Tuning(Trial):
    """Measure, walk the road, stop. What was found so far survives an interruption."""

    _walk: Walk | None = None

    def work(self, subject: Subject, machine: Machine) -> Result:
        """A diagnosis, every step of the road, a diagnosis of what is in force at the end."""
        age_s = time.time() - psutil.Process().create_time()
        started = time.monotonic() - age_s
        look_s = LOOKING_SHARE * self.job.policy.budget_s
        job, needed = self.job, None
        if job.parts:
            needed = made_to_fit(subject, job.parts, job.out_of_memory, job.policy, self.journal)
        before = observe(subject, machine, self.journal, budget_s=look_s)
        before = replace(before, too_large=needed[0] if needed else None)
        before = with_disk(before, self.job.policy.disk_cache, self.journal)
        self._walk = walk = Walk(
            subject,
            before,
            machine,
            self.job.policy,
            self.journal,
            started=started,
            reserved_s=confirming_s(age_s, self.job.policy.budget_s),
            has_children=self.job.hand_over is not None,
            after_step=self._save,
            steps=[needed[1]] if needed else [],
        )
        if needed:
            self._save()
        try:
            walk.run()
            handed_over = self._hand_over(subject, walk)
        except KeyboardInterrupt:
            return _walked(walk, interrupted=True)
        found = replace(_walked(walk, interrupted=False), handed_over=handed_over)
        self._done(found)  # whatever the hooks of a callback do to this process
        return replace(found, before=with_epoch_hooks(subject, walk.before, machine))

    def _hand_over(self, subject: Subject, walk: Walk) -> bool:
        """Leave what is to be tried in a process of its own; whether there is anything."""
        tried = walk.elsewhere()
        if self.job.hand_over is None or not tried or walk.left_s < ELSEWHERE_S:
            return False
        self.journal.write("phase", "recording what another process is to be compared with")
        # Only another backend is compared by its losses.
        orders_s = HANDED_OVER_S if AnotherBackend.name in tried else 0.0
        try:
            found = subject.hand_over(walk.version, orders_s)
            if found is not None:
                found.write(Path(self.job.hand_over))
        except Exception as error:  # as of a trial: it must not take the tuning with it
            self.journal.write("phase", f"no other process is tried: {error}"[:200])
            return False
        finally:
            subject.restore()
        return found is not None

    def _save(self) -> None:
        """A trial that takes the memory of the machine ends this process without a word."""
        found = self.partial(interrupted=True)
        if found is not None:
            self._write(self._complete(found))

    def partial(self, *, interrupted: bool) -> Result | None:
        """The steps tried so far."""
        if self._walk is None:
            return None
        if not interrupted and ENDED not in self._notes:
            self._notes.append(ENDED)
        return _walked(self._walk, interrupted=interrupted)


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


def _walked(walk: Walk, *, interrupted: bool) -> Result:
    return Result(
        machine=walk.machine,
        before=walk.before,
        after=walk.now if walk.version is not walk.subject.original else None,
        steps=tuple(walk.steps),
        overhead_share=clock_s() / walk.before.step_s,
        interrupted=interrupted,
    )
