"""What is done with the training call that is meant: diagnose it, tune it, confirm a plan."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.costmodel.tuning_budget import trials_budget_s
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.job import JobResult, TuneJob
from uncork.core.documents.plan import LOOP_ENDED_NOTE, Policy
from uncork.engine.diagnose.observe import observe, with_disk, with_epoch_hooks
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.time_budget import (
    DIAGNOSIS_S,
    DIAGNOSIS_SHARE,
    HANDOVER_RECORDING_S,
    PROCESS_TRIAL_S,
    confirmation_s,
    whole_budget_s,
)
from uncork.engine.tune.fit_in_memory import fit_into_memory
from uncork.engine.tune.tuner import Tuner
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.benchmark.timed_block import timing_overhead_s
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization


class TuneListener(JobListener):
    """Measure, walk the road, stop. What was found so far survives an interruption."""

    job: TuneJob
    _walk: Tuner | None = None

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """A diagnosis, every step of the road, a diagnosis of what is in force at the end."""
        age_s = time.time() - psutil.Process().create_time()
        started = time.monotonic() - age_s
        job, needed = self.job, None
        look_s = DIAGNOSIS_SHARE * job.policy.budget_s if job.is_budget_chosen else DIAGNOSIS_S
        if job.is_budget_chosen:
            self.journal.count_down(started + job.policy.budget_s)
        if job.min_parts:
            needed = fit_into_memory(
                subject, job.min_parts, job.out_of_memory_error, job.policy, self.journal
            )
        before = observe(subject, machine, self.journal, budget_s=look_s)
        before = replace(before, memory_overflow=needed[0] if needed else None)
        before = with_disk(before, self.job.policy.disk_cache_folder, self.journal)
        policy = self._policy(before, age_s)
        self._walk = walk = Tuner(
            subject,
            before,
            machine,
            policy,
            self.journal,
            start_time_s=started,
            reserved_s=confirmation_s(age_s, policy.budget_s),
            can_start_processes=self.job.handover_path is not None,
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
        found = replace(_walked(walk, interrupted=False), has_handover=handed_over)
        self._finish_with(found)  # whatever the hooks of a callback do to this process
        return replace(found, before=with_epoch_hooks(subject, walk.before, machine))

    def _policy(self, before: WorkloadDiagnosis, time_to_training_s: float) -> Policy:
        """With a budget that follows the training, unless the user chose one."""
        chosen = self.job.policy
        if self.job.is_budget_chosen:
            return chosen
        trials_s = trials_budget_s(before)
        self.journal.write("phase", f"trying optimizations for about {trials_s:.0f} s")
        passed_s = time.time() - psutil.Process().create_time()
        budget_s = passed_s + whole_budget_s(trials_s, time_to_training_s)
        return replace(chosen, budget_s=budget_s)

    def _hand_over(self, subject: Subject, walk: Tuner) -> bool:
        """Leave what is to be tried in a process of its own; whether there is anything."""
        tried = walk.process_optimizations()
        if self.job.handover_path is None or not tried or walk.time_left_s < PROCESS_TRIAL_S:
            return False
        self.journal.write("phase", "recording a reference for trials in other processes")
        # Only another backend is compared by its losses.
        orders_s = HANDOVER_RECORDING_S if KerasBackendOptimization.name in tried else 0.0
        try:
            found = subject.record_handover(walk.variant, orders_s)
            if found is not None:
                found.write(Path(self.job.handover_path))
        except Exception as error:  # as of a trial: it must not take the tuning with it
            self.journal.write("phase", f"Uncork tries no other process: {error}"[:200])
            return False
        finally:
            subject.restore()
        return found is not None

    def _save(self) -> None:
        """A trial that takes the memory of the machine ends this process without a word."""
        found = self.partial_result(interrupted=True)
        if found is not None:
            self._write(self._complete(found))

    def partial_result(self, *, interrupted: bool) -> JobResult | None:
        """The steps tried so far."""
        if self._walk is None:
            return None
        if not interrupted and LOOP_ENDED_NOTE not in self._notes:
            self._notes.append(LOOP_ENDED_NOTE)
        return _walked(self._walk, interrupted=interrupted)


def _walked(walk: Tuner, *, interrupted: bool) -> JobResult:
    return JobResult(
        machine=walk.machine,
        before=walk.before,
        after=walk.diagnosis if walk.variant is not walk.subject.original else None,
        steps=tuple(walk.steps),
        budget_s=walk.policy.budget_s,
        overhead_step_share=timing_overhead_s() / walk.before.step_s,
        is_interrupted=interrupted,
    )
