"""Starting children: which interpreter, which files between us, which exit code."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import psutil

from uncork.capture.sandbox.restore import RestoreResult
from uncork.core.base import exit_codes
from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Event, read_events
from uncork.core.base.owned_folder import note_alive
from uncork.core.base.record import from_json, replace, to_json, write_atomically
from uncork.core.base.script import script_words
from uncork.core.documents.job import (
    EXIT_CODE_FILE_NAME,
    IMPORTED_FILE_NAME,
    RELEASED_FILE_NAME,
    Job,
    JobResult,
)
from uncork.engine.process.abandoned import FOLDER_VARIABLE, end_processes, restore_once
from uncork.engine.process.cluster_guard import require_single_process
from uncork.engine.process.job_folder import convert_os_errors, temporary_folder
from uncork.engine.process.worker_failure import failure_without_result, last_line, tell_signal
from uncork.engine.process.worker_log import WorkerLog, print_last_lines
from uncork.pycode.frames.stack import printable_path

EventHandler = Callable[[Event], None]

# Not ``-m``: that would put the working directory before the standard library, and a user's
# ``queue.py`` would break Uncork. The first entry is the script's to replace; with ``-P`` there is
# no such entry, and what comes first is kept.
_CHILD: Final = (
    "import sys; sys.path[0] = sys.path[0] or sys.path[1]; "
    "from uncork.engine.worker.main import main; sys.exit(main(sys.argv[1:]))"
)
_POLL_S: Final = 0.05
# Exit codes of processes of which no log can say more than they have said themselves.
_ENDED_WELL: Final = (
    exit_codes.DONE,
    exit_codes.WRONG_USE,
    exit_codes.NOTHING_TO_MEASURE,
    exit_codes.INTERRUPTED,
    -signal.SIGINT,
)
# How long an interrupted child may take to write down what it has; and what threads and exit
# handlers of its script may take once it has.
_GRACE_S: Final = 20.0


@dataclass(frozen=True)
class Script:
    """What the user typed: a script or a module, and its arguments.

    Attributes:
        path: Of the script; of a module, that of its file.
        args: Its own.
        module: What followed ``-m``; ``""`` for a script.
        log: Where the log of TensorFlow is kept if a process fails; None to drop it.
    """

    path: str
    args: tuple[str, ...] = ()
    module: str = ""
    log: WorkerLog | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """As typed, for a shell."""
        return shlex.join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """What follows a verb of Uncork's, or ``python``."""
        return script_words(self.path, self.module, self.args)

    @property
    def recorded_fields(self) -> dict[str, Any]:
        """What a diagnosis or a plan keeps of it, by name; names that are not UTF-8 are escaped."""
        folder = ""
        with suppress(OSError):  # it is gone
            folder = printable_path(str(Path.cwd()))
        return {
            "script": printable_path(self.path),
            "module": self.module,
            "arguments": tuple(map(printable_path, self.args)),
            "working_folder": folder,
        }


def run_worker(
    job: Job,
    script: Script,
    on_event: EventHandler,
    *,
    quiet: bool = False,
    prepared: WorkerProcess | None = None,
) -> JobResult:
    """Run one job to its end.

    Args:
        job: What to do; its journal and result paths are set here.
        script: What to run.
        on_event: Called with each event as it happens.
        quiet: Hide the script's own output, which the user has seen before.
        prepared: The process that is to run it, started ahead; a new one unless given.

    Returns:
        The result; it says so if the child or this process was interrupted.

    Raises:
        ChildFailed: There is no result.
        NothingToMeasure: There is none, and the script has ended its process itself, with code 0.
        KeyboardInterrupt: Interrupted before there was any result.
        WrongUse: No process can be started, there is no room for what it is told, or the script
            is for several processes.
    """
    if prepared is not None:
        return prepared.run(job, on_event)
    with WorkerProcess(job, script, quiet=quiet) as worker:
        return worker.run(job, on_event)


class WorkerProcess:
    """A worker process, in a folder of its own; it ends with the block.

    Args:
        job: What to do, as far as that is known when it starts.
        script: What to run.
        quiet: Hide the script's own output.
        imports_first: Import TensorFlow at once, and wait for :meth:`run`. Several such processes
            import at the same time, each on a core.
    """

    def __init__(
        self, job: Job, script: Script, *, quiet: bool = False, imports_first: bool = False
    ) -> None:
        self._job = replace(job, imports_first=imports_first)
        self._script = script
        self._quiet = quiet
        self._held = ExitStack()
        self._restored = RestoreResult((), ())

    def __enter__(self) -> WorkerProcess:
        """Start it.

        Raises:
            WrongUse: That is impossible, or the script is for several processes.
        """
        require_single_process()
        with ExitStack() as held:
            self._folder = Path(held.enter_context(temporary_folder()))
            self._give(self._job)
            held.callback(self._clear_up)
            with (
                convert_os_errors("start a process"),
                Path(self._folder, "stderr").open("wb") as hidden,
            ):
                self._child = self._start(hidden if self._quiet else None)
            held.callback(_end, self._child)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def wait_for_import(self) -> None:
        """Wait until a process that imports first has done so, or has ended."""
        imported = self._folder / IMPORTED_FILE_NAME
        while self._child.poll() is None and not imported.exists():
            time.sleep(_POLL_S)

    def run(self, job: Job, on_event: EventHandler) -> JobResult:
        """Have it do a job, and wait for its end; like :func:`run_worker`.

        Args:
            job: That it was started for, with what has become known since.
            on_event: Called with each event as it happens.
        """
        if self._job.imports_first:
            self._give(replace(job, imports_first=True))
            with convert_os_errors("start a process"):
                Path(self._folder, RELEASED_FILE_NAME).touch()
        try:
            code = _wait(self._child, Path(self._folder, "journal"), on_event)
        finally:
            self._clear_up()
        return self._result(code)

    def _give(self, job: Job) -> None:
        paths = {f"{name}_path": str(self._folder / name) for name in ("journal", "result", "log")}
        with convert_os_errors("start a process"):
            write_atomically(self._folder / "job", to_json(replace(job, **paths)))

    def _start(self, hidden: IO[bytes] | None) -> subprocess.Popen[bytes]:
        folder = {FOLDER_VARIABLE: str(self._folder)}
        environment = {**os.environ, **self._job.environment, **folder}
        return _start(self._folder / "job", self._script, hidden, environment)

    def _clear_up(self) -> None:
        """End what its script has started; restore what that has overwritten."""
        try:
            end_processes(self._folder)
        finally:
            restored = restore_once(self._folder)
            if restored.restored_files or restored.lost_files:
                self._restored = restored

    def _result(self, code: int) -> JobResult:
        folder, quiet = self._folder, self._quiet
        result, log = folder / "result", folder / "log"
        interrupted = code in (exit_codes.INTERRUPTED, -signal.SIGINT)
        if code < 0 and not interrupted:
            tell_signal(-code)
        _keep_log(self._script, log, code, quiet=quiet)
        if result.exists():
            found = from_json(result.read_bytes(), JobResult)
            # What was saved on the way says so itself; a crash after the work spoils nothing.
            found = replace(
                found,
                restored_files=self._restored.restored_files,
                lost_files=self._restored.lost_files,
            )
            if found.is_interrupted and not interrupted and code >= 0:
                found = replace(
                    found, is_interrupted=False, has_script_failed=True
                )  # os._exit in the middle
            return replace(found, is_interrupted=interrupted or found.is_interrupted)
        said = last_line(folder / "stderr") or (last_line(log) if quiet else "")
        # Where there is such a file, the child came to its own end, and said why.
        told = (folder / EXIT_CODE_FILE_NAME).exists()
        if interrupted:
            raise KeyboardInterrupt
        raise failure_without_result(code, said, is_told=told, quiet=quiet)


def run_quiet_worker(job: Job, script: Script, prepared: WorkerProcess | None = None) -> JobResult:
    """Run a job of which only the result is of interest, to its end.

    Args:
        job: What to do.
        script: What to run.
        prepared: The quiet process that is to run it, started ahead; a new one unless given.

    Raises:
        KeyboardInterrupt: Interrupted, whatever there is of a result by then.
        OutOfMemory: Its training runs out of memory there.
        UncorkError: There is no result (:func:`run_worker`).
    """
    found = run_worker(job, script, lambda _: None, quiet=True, prepared=prepared)
    if found.is_interrupted:
        raise KeyboardInterrupt
    if found.out_of_memory_error:
        raise OutOfMemory(
            found.out_of_memory_error,
            "a training that fits into memory in a separate process",
            "end other processes that use memory, or use a machine with more memory",
        )
    return found


def _command(job: Path, script: Script) -> list[str]:
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    named = ("-m", script.module) if script.module else ("--", script.path)
    return [sys.executable, *flags, "-c", _CHILD, str(job), *named, *script.args]


def _start(
    job: Path, script: Script, hidden: IO[bytes] | None, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """A child, quiet where there is a file for what it writes to its standard error."""
    return subprocess.Popen(
        _command(job, script),
        stdin=_stdin(),
        stdout=subprocess.DEVNULL if hidden else None,
        stderr=hidden,
        env=environment,
        bufsize=0,
    )


def _stdin() -> IO[bytes] | int | None:
    """The user's input. From a file each child reads it whole; a pipe can be read only once."""
    try:
        path = Path(f"/proc/self/fd/{sys.stdin.fileno()}").resolve()
        return path.open("rb") if path.is_file() else None
    except (OSError, ValueError, AttributeError):
        return None


def _wait(child: subprocess.Popen[bytes], journal: Path, follow: EventHandler) -> int:
    """Follow the journal until the child ends; hand an interruption on to it.

    Whatever happens here, no child is left behind.
    """
    offset, interrupted, ended = 0, False, journal.with_name(EXIT_CODE_FILE_NAME)
    try:
        while child.poll() is None and not _lingers(ended):
            offset = _follow(journal, offset, follow)
            note_alive(journal.parent)
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        interrupted = True
        _interrupt(child)
    finally:
        lingered = _end(child)
    _follow(journal, offset, follow)
    if interrupted:
        return exit_codes.INTERRUPTED
    return int(ended.read_text()) if lingered else child.returncode


def _lingers(ended: Path) -> bool:
    """A child has said all that it has to say, and does not end: its script left threads behind."""
    try:
        return time.time() - ended.stat().st_mtime > _GRACE_S
    except OSError:
        return False


def _follow(journal: Path, offset: int, follow: EventHandler) -> int:
    with suppress(msgspec.MsgspecError):  # a line of another version's child is no reason to stop
        for event, after in read_events(journal, offset):
            follow(event)
            offset = after
    return offset


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    """After Ctrl-C in a terminal it knows already, and takes no notice of a second time."""
    with suppress(ValueError):  # Windows, whose terminals tell it, too
        child.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        child.wait(_GRACE_S)


def _end(child: subprocess.Popen[bytes]) -> bool:
    """With the processes that it has started; whether it was still there."""
    if child.poll() is not None:
        return False
    started: list[psutil.Process] = []
    with suppress(psutil.Error):
        started = psutil.Process(child.pid).children(recursive=True)
    for each in started:
        with suppress(psutil.Error):
            each.kill()
    child.kill()
    child.wait()
    return True


def _keep_log(script: Script, log: Path, code: int, *, quiet: bool) -> None:
    """Keep the log of a process that failed, and name it; of a killed one also show its end.

    What a quiet process fails with is part of a result, and no failure of the command.
    """
    has_failed = code not in _ENDED_WELL
    if has_failed and code < 0 and not quiet:
        print_last_lines(log)
    if script.log is None or not (has_failed or script.log.is_always_kept):
        return
    kept = script.log.keep(log, str(script))
    if kept and has_failed and not quiet:
        sys.stderr.write(f"uncork: TensorFlow's log: {kept}\n")
