"""The verbs that experiment, as a parent process that never loads TensorFlow calls them."""

from __future__ import annotations

import time
from pathlib import Path

from uncork.compat.versions import require_tensorflow
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Diagnosis, Overhead
from uncork.core.documents.job import DiagnoseJob, ListJob
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.engine.commands.oom_retry import run_diagnosis
from uncork.engine.commands.tune import _notes
from uncork.engine.process.worker_process import EventHandler, Script, run_worker
from uncork.rules.nondeterminism import nondeterminism_notes


def diagnose(
    script: Script,
    on_event: EventHandler,
    *,
    training: int | None = None,
    budget_s: float = 20.0,
    timeline: Path | None = None,
) -> Diagnosis:
    """Where does the time go? The script is stopped after the measurement.

    Args:
        script: What to run.
        on_event: Called with each event as it happens.
        training: Index of the training call; the first that does real work unless given.
        budget_s: Seconds for the measuring, the script's own start and compilation aside.
        timeline: Folder for a trace of some steps, which TensorBoard can show.
    """
    require_tensorflow()
    begin = time.monotonic()
    job = DiagnoseJob(
        training_index=training,
        policy=Policy(budget_s=budget_s),
        timeline_folder=str(timeline.absolute()) if timeline else None,
    )
    result = run_diagnosis(job, script, on_event)
    assert result.before is not None
    by_chance = nondeterminism_notes(result.before)
    notes = tuple(dict.fromkeys([*by_chance, *result.before.notes, *_notes(result)]))
    return Diagnosis(
        **script.recorded_fields,
        machine=result.machine,
        workloads=(replace(result.before, notes=notes),),
        reached_workloads=result.reached_workloads,
        overhead=Overhead(step_share=result.overhead_step_share, total_s=time.monotonic() - begin),
    )


def list_trainings(script: Script, on_event: EventHandler) -> tuple[Workload, ...]:
    """All training calls of a script, each cut short after its first step."""
    require_tensorflow()
    result = run_worker(ListJob(), script, on_event)
    return result.reached_workloads
