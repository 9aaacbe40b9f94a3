"""The child process: runs the user's script until one of its trainings has been worked on.

Started by the parent (``engine.process.worker_process``), which has it call :func:`main` with
JOB -- SCRIPT ARGS, or with JOB -m MODULE ARGS. Nothing here imports TensorFlow before the script
does: the script may set environment variables first.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from uncork.capture.base.deferred_listener import DeferredListener
from uncork.capture.base.modules import find_module_file
from uncork.capture.sandbox.file_backup import FileBackup
from uncork.capture.sandbox.file_hooks import back_up_files
from uncork.capture.sandbox.redirected_saves import RedirectedSaves, redirect_saves
from uncork.capture.sandbox.restore import termination_signals
from uncork.capture.script import run_script
from uncork.core.base import exit_codes
from uncork.core.base.errors import ScriptFailed, UncorkError
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace, to_json, write_atomically
from uncork.core.documents.job import (
    BACKUP_FOLDER_NAME,
    EXIT_CODE_FILE_NAME,
    RELEASED_FILE_NAME,
    SAVES_FOLDER_NAME,
    BackendJob,
    CheckJob,
    ConfirmJob,
    DiagnoseJob,
    Job,
    ListJob,
    PlanJob,
    ProcessJob,
    TuneJob,
    read_job,
)
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import load_plan
from uncork.engine.process.abandoned import FOLDER_VARIABLE
from uncork.engine.process.guardian import end_with_parent
from uncork.engine.process.reached_trainings import no_training_error
from uncork.engine.worker.early_import import ImportObserver, import_and_wait
from uncork.engine.worker.output_streams import separate_native_log, share_terminal
from uncork.measure.machine.allocator import keep_freed_memory
from uncork.measure.machine.probe import remember_initial_cpus

if TYPE_CHECKING:
    from uncork.engine.worker.job_listener import JobListener


# What acts on the training of each kind of job; imported late, as it imports TensorFlow.
LISTENERS: Final[dict[type[Job], str]] = {
    BackendJob: "uncork.engine.worker.backend_job:BackendListener",
    CheckJob: "uncork.engine.worker.confirm_job:CheckListener",
    ConfirmJob: "uncork.engine.worker.confirm_job:ConfirmListener",
    DiagnoseJob: "uncork.engine.worker.diagnose_job:DiagnoseListener",
    ListJob: "uncork.engine.worker.list_job:ListListener",
    ProcessJob: "uncork.engine.worker.process_job:ProcessListener",
    TuneJob: "uncork.engine.worker.tune_job:TuneListener",
}
# Of TensorFlow's errors, by name: it may not be imported yet.
_OF_DATA: Final = frozenset({
    "DataLossError", "InvalidArgumentError", "NotFoundError", "OutOfRangeError", "UnknownError",
})  # fmt: skip
_ENDED_SO: Final = (
    "this error ended the training at {at} during its measurement: if plain Python ends so, too, "
    "fix the script, and run the command again"
)


def main(argv: Sequence[str]) -> int:
    """Run one job; returns the exit code."""
    remember_initial_cpus()
    if FOLDER_VARIABLE in os.environ:
        end_with_parent(Path(argv[0]).parent)
    job = read_job(Path(argv[0]).read_bytes())
    if job.log_path is not None:
        separate_native_log(Path(job.log_path))
    if job.imports_first:
        import_and_wait(_listener_of(job)[0], Path(argv[0]).with_name(RELEASED_FILE_NAME))
        job = read_job(Path(argv[0]).read_bytes())
    share_terminal()
    code = _outcome(job, argv[2], argv[3:], is_module=argv[1] == "-m")
    # Threads and processes of the script may go on: they are not waited for.
    with suppress(OSError):  # no room: then they are
        Path(job.result_path or "result.json").with_name(EXIT_CODE_FILE_NAME).write_text(str(code))
    return code


def _outcome(job: Job, named: str, args: Sequence[str], *, is_module: bool) -> int:
    # To the very end: a script's exit handlers save, too, and what is registered first comes last.
    held = ExitStack()
    atexit.register(held.close)
    for number in termination_signals():
        signal.signal(number, _interrupt)
    try:
        script = Path(find_module_file(named) if is_module else named)
        return _trial(job, script, args, held, named if is_module else "")
    except UncorkError as error:
        sys.stdout.flush()
        if error.exit_code != exit_codes.SCRIPT_FAILED:  # the script's own traceback stands already
            sys.stderr.write(f"uncork: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED


def _trial(job: Job, script: Path, args: Sequence[str], held: ExitStack, module: str = "") -> int:
    """Work on one training call, hand back what was found, end the script.

    Args:
        job: What to do.
        script: What to run.
        args: Its arguments.
        held: Told what is to be undone when nothing of the script runs any more.
        module: Name of the module to run, ``""`` for a script.
    """
    plan = _plan(job)
    if plan is not None and plan.keeps_freed_memory:
        keep_freed_memory()
    result_path = Path(job.result_path or "result.json")
    # In the parent's folder: it cleans up even after a child that was killed.
    folder = tempfile.TemporaryDirectory(prefix="scratch-", dir=result_path.parent)
    files = held.enter_context(back_up_files(result_path.parent / BACKUP_FOLDER_NAME))
    saves = held.enter_context(redirect_saves(result_path.parent / SAVES_FOLDER_NAME))
    with folder as scratch, ImportObserver() as observer:
        trial = DeferredListener(
            lambda: _make(job, scratch, files, plan),
            source_lines=isinstance(job, DiagnoseJob | TuneJob),
            loops=True,
            accepts_jax="KERAS_BACKEND" in job.environment,
        )
        interrupted = False
        try:
            patched = job.source_path if isinstance(job, CheckJob) else None
            source = Path(patched) if patched else None
            try:
                run_script(script, args, trial, source, outline=_outlines(job, plan), module=module)
            except SystemExit as ending:
                _judge(ending, trial.created_listener)
        except ScriptFailed as failure:
            if saves.suppressed or saves.overlay.dropped:
                sys.stderr.write(f"uncork: {_not_saved(saves)}\n")
            if trial.created_listener is not None:
                _say_where(trial.created_listener, plan, failure.__cause__)
                trial.created_listener.fail(**_of_run(saves, files))
            raise
        except KeyboardInterrupt:
            if (
                trial.created_listener is None
                or trial.created_listener.partial_result(interrupted=True) is None
            ):
                raise
            interrupted = True
        made = trial.created_listener
        if made is not None:
            made.finish(interrupted=interrupted)
        if made is None or made.result is None:
            raise no_training_error(made.reached_workloads if made else (), job.training_index)
        result = replace(made.result, may_import_first=observer.is_usual, **_of_run(saves, files))
        write_atomically(result_path, to_json(result))
        files.finish()  # once more at the end of the process, if that comes
        return exit_codes.INTERRUPTED if result.is_interrupted else exit_codes.DONE


def _say_where(trial: JobListener, plan: Plan | None, error: BaseException | None) -> None:
    """Behind the traceback of an error of the data, as it seems, of a training looked at."""
    if plan is None and type(error).__name__ in _OF_DATA and trial.current_location:
        sys.stderr.write(f"uncork: {_ENDED_SO.format(at=trial.current_location)}\n")


def _outlines(job: Job, plan: Plan | None) -> bool:
    """Only a script as its user would run it is left alone altogether."""
    if isinstance(job, ConfirmJob | ListJob):
        return plan is not None and plan.is_code_specific
    return True


def _of_run(saves: RedirectedSaves, files: FileBackup) -> dict[str, tuple[str, ...]]:
    """Fields of a result that tell of the script's saves and files."""
    return {
        "redirected_saves": _counted(saves.counts),
        "suppressed_saves": _counted(saves.suppressed),
        "created_files": files.new_files(),
    }


def _counted(saves: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{name} x{count}" for name, count in sorted(saves.items()))


def _not_saved(saves: RedirectedSaves) -> str:
    """A script that reads what it has saved itself finds nothing, or what it saved last week."""
    gone = sorted(saves.suppressed) or [f"the oldest {saves.overlay.dropped}"]
    return (
        f"Uncork did not keep all saves of the script ({', '.join(gone)}): if the script reads "
        f"them again, free disk space in {tempfile.gettempdir()}, or choose an earlier training: "
        "--training N, see uncork diagnose --list"
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once: the terminal and the parent may both tell us, and what was found is to be saved."""
    for each in termination_signals():
        signal.signal(each, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def _make(job: Job, scratch: str, files: FileBackup, plan: Plan | None) -> JobListener:
    """The listener of a job. TensorFlow is loaded by now."""
    module, name = _listener_of(job)
    journal = Journal(Path(job.journal_path) if job.journal_path else None)
    made: JobListener = getattr(importlib.import_module(module), name)(job, journal, scratch, plan)
    made.own_files = files
    return made


def _listener_of(job: Job) -> list[str]:
    """Module and class of what acts on the training of a job."""
    # On another backend no other listener can look at a training, whatever is to be done.
    kind = BackendJob if "KERAS_BACKEND" in job.environment else type(job)
    return LISTENERS[kind].split(":")


def _plan(job: Job) -> Plan | None:
    if not isinstance(job, PlanJob) or job.plan_path is None:
        return None
    return load_plan(Path(job.plan_path))


def _judge(ending: SystemExit, made: JobListener | None) -> None:
    """A script may end itself after the work, and before it with code 0: neither is a failure."""
    if ending.code not in (0, None) and (made is None or made.result is None):
        when = "before training" if made is None else "before its training was measured"
        sys.stderr.write(f"uncork: the script exited with {ending.code!r} {when}\n")
        raise ScriptFailed(f"the script exited with {ending.code!r}") from ending


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
