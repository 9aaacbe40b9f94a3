"""The verbs that experiment, as a parent process that never loads TensorFlow calls them."""

from __future__ import annotations

import time
from pathlib import Path

from uncork.compat.versions import require_tensorflow
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Diagnosis, Overhead
from uncork.core.documents.job import Job
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.engine.commands.oom_retry import diagnosed
from uncork.engine.commands.tune import _notes
from uncork.engine.process.worker_process import Follow, Script, run_child
from uncork.pycode.frames.stack import told
from uncork.rules.nondeterminism import repeated


def diagnose(
    script: Script,
    follow: Follow,
    *,
    training: int | None = None,
    budget_s: float = 20.0,
    timeline: Path | None = None,
) -> Diagnosis:
    """Where does the time go? The script is stopped after the measurement.

    Args:
        script: What to run.
        follow: Called with each event as it happens.
        training: Index of the training call; the first that does real work unless given.
        budget_s: Seconds for the measuring, the script's own start and compilation aside.
        timeline: Folder for a trace of some steps, which TensorBoard can show.
    """
    require_tensorflow()
    begin = time.monotonic()
    job = Job(
        mode="diagnose",
        training=training,
        policy=Policy(budget_s=budget_s),
        timeline=str(timeline.absolute()) if timeline else None,
    )
    result = diagnosed(job, script, follow)
    assert result.before is not None
    by_chance = repeated(result.before)
    notes = tuple(dict.fromkeys([*by_chance, *result.before.notes, *_notes(result)]))
    return Diagnosis(
        script=told(script.path),
        machine=result.machine,
        workloads=(replace(result.before, notes=notes),),
        reached=result.reached,
        overhead=Overhead(measured_share=result.overhead_share, total_s=time.monotonic() - begin),
    )


def list_trainings(script: Script, follow: Follow) -> tuple[Workload, ...]:
    """All training calls of a script, each cut short after its first step."""
    require_tensorflow()
    result = run_child(Job(mode="list"), script, follow)
    return result.reached
