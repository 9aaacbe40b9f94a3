"""A script whose training runs out of memory: said so, or tuned as it fits, in another process."""

from __future__ import annotations

from typing import Final

from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Event
from uncork.core.base.record import replace
from uncork.core.documents.job import DiagnoseJob, JobResult, TuneJob
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import EventHandler, Script, run_worker

# Parts that a batch, or the model, is cut in at least, one process after the other: none, and more
# each time that the machine has ended one.
_PARTS: Final = (0, 2, 16)
_MEASURING: Final = "measuring"
_KILLED: Final = "SIGKILL ended the script's process while Uncork measured its training"
_BESIDE: Final = "memory for the training, and for copies of its weights and of some batches"
_MORE_ROOM: Final = "end other processes that use memory, or use a machine with more memory"
_EXPECTED: Final = "a training step that fits into memory"


def run_diagnosis(job: DiagnoseJob, script: Script, on_event: EventHandler) -> JobResult:
    """Run a job that looks at a training as it is written.

    Raises:
        OutOfMemory: There is no memory for it.
        ChildFailed: There is no result, for another reason.
    """
    found = _run(job, script, on_event)
    if isinstance(found, JobResult):
        return found
    raise OutOfMemory(
        found,
        _EXPECTED,
        f"uncork tune {script}: it tries to train the same batch in less memory; "
        "or use a smaller batch",
    )


def run_tuning(job: TuneJob, script: Script, on_event: EventHandler) -> JobResult:
    """Run a job that tunes a training; one that runs out of memory as written, as it fits.

    Raises:
        OutOfMemory: In parts there is no memory for it either.
        ChildFailed: There is no result, for another reason.
    """
    said = ""
    for parts in _PARTS:
        found = _run(replace(job, min_parts=parts, out_of_memory_error=said), script, on_event)
        if isinstance(found, JobResult):
            return found
        said = said or found
        text = f"{found}: trying micro-batches"
        on_event(Event(kind="phase", text=text, is_milestone=True))
    raise OutOfMemory(
        f"{said}; it does so with {parts} micro-batches, too", _EXPECTED, "use a smaller batch"
    )


def _run(job: DiagnoseJob | TuneJob, script: Script, follow: EventHandler) -> JobResult | str:
    """What came of it, or how it ran out of memory: killed while a step was measured, perhaps.

    Raises:
        OutOfMemory: As written it was seen to run, and what is looked at beside it does not fit.
    """
    seen: list[Event] = []

    def followed(event: Event) -> None:
        seen.append(event)
        follow(event)

    try:
        result = run_worker(job, script, followed)
        said = result.out_of_memory_error
    except WorkerFailed as failure:
        if not failure.is_killed or not any(each.text.startswith(_MEASURING) for each in seen):
            raise
        said = _KILLED
    in_parts = isinstance(job, TuneJob) and job.min_parts
    if said and not in_parts and any(each.kind == "measured" for each in seen):
        raise OutOfMemory(f"{said}; the training itself runs", _BESIDE, _MORE_ROOM)
    return said or result
