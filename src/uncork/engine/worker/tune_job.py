"""What is done with the training call that is meant: diagnose it, tune it, confirm a plan."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import Result
from uncork.core.documents.plan import ENDED
from uncork.engine.diagnose.observe import observe, with_disk, with_epoch_hooks
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.time_budget import (
    ELSEWHERE_S,
    HANDED_OVER_S,
    LOOKING_SHARE,
    confirming_s,
)
from uncork.engine.tune.fit_in_memory import made_to_fit
from uncork.engine.tune.tuner import Walk
from uncork.engine.worker.job_listener import Trial
from uncork.measure.benchmark.timed_block import clock_s
from uncork.optimizations.compile.keras_backend import AnotherBackend


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


def _walked(walk: Walk, *, interrupted: bool) -> Result:
    return Result(
        machine=walk.machine,
        before=walk.before,
        after=walk.now if walk.version is not walk.subject.original else None,
        steps=tuple(walk.steps),
        overhead_share=clock_s() / walk.before.step_s,
        interrupted=interrupted,
    )
