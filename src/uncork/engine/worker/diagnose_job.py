"""Diagnoses one training call, and saves a timeline of its steps where one is asked for."""

from __future__ import annotations

import time
from typing import Final

from uncork.core.base.errors import describe_error
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import DiagnoseJob, JobResult
from uncork.engine.diagnose.observe import observe, with_epoch_hooks
from uncork.engine.subject.subject import Subject
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.benchmark.step_trace import write_trace
from uncork.measure.benchmark.timed_block import timing_overhead_s

# Steps, and the bounds of what they may take in seconds: a trace grows by megabytes a second.
_STEPS: Final = 30
_SHORTEST_S: Final = 0.2
_LONGEST_S: Final = 3.0


def record_timeline(subject: Subject, folder: str, step_s: float) -> str | None:
    """Trace some steps of the original, its input and all.

    Args:
        subject: What is trained.
        folder: Of the user's, for TensorBoard.
        step_s: Of one step.

    Returns:
        Why there is none, where that is so.
    """
    seconds = min(_LONGEST_S, max(_SHORTEST_S, _STEPS * step_s))
    try:
        runner = subject.runner(subject.original)
        runner.prime()
        write_trace(folder, lambda: runner.block(seconds))
    except Exception as error:  # a script that profiles itself, a full disk: the figures stand
        return f"no timeline was saved: {describe_error(error)}"
    return None


class DiagnoseListener(JobListener):
    """Measure, explain, stop."""

    job: DiagnoseJob
    accepts_any_loop = True

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """One diagnosis of the training as it is."""
        self.journal.count_down(time.monotonic() + self.job.policy.budget_s)
        before = observe(subject, machine, self.journal, budget_s=self.job.policy.budget_s)
        share = timing_overhead_s() / before.step_s
        if self.job.timeline_folder is not None:
            self.journal.write("phase", "saving a timeline of some steps")
            missing = record_timeline(subject, self.job.timeline_folder, before.step_s)
            if missing:  # first: it was asked for, and only some notes are shown
                before = replace(before, notes=(missing, *before.notes))
        found = JobResult(machine=machine, before=before, overhead_step_share=share)
        self._finish_with(found)  # whatever the hooks of a callback do to this process
        return replace(found, before=with_epoch_hooks(subject, before, machine))
