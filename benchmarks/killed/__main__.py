"""Does anything stay when Uncork is killed?

    python -m benchmarks.killed [VERB ...] [--moments 20] [--interrupt] [--record]

A verb is run on a quick training, and killed (SIGKILL, its own process alone) at random moments,
two seconds before: no process may be left, and no file of the user's may be changed, but by
``run``, whose script trains for good. After the next start no folder may be left. The training
forks a process, starts another one in a session of its own, overwrites a file, and saves models.
With ``run`` there is no process but the script's, and what that one has started is its own.

With ``--interrupt`` it is Ctrl-C instead (SIGINT, to all processes of the terminal). The verb then
has half a minute to save what it has found, and ends with exit code 130.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from benchmarks.machine import machine
from uncork.core.base import exit_codes
from uncork.core.base.machine import Machine
from uncork.core.base.record import Record, to_json, write_atomically

_RECORDS: Final = Path(__file__).parents[1] / "records"
_SCRIPT: Final = Path(__file__).with_name("train.py")
_VERBS: Final = {
    "diagnose": ("diagnose", "--quiet", "--budget", "10", "train.py"),
    "tune": ("tune", "--quiet", "--budget", "20", "--plan", "made/plan.json", "train.py"),
    "run": ("run", "--plan", "plan.json", "train.py"),
    "diff": ("diff", "--quiet", "--check", "plan.json"),
}
_PLAN: Final = ("tune", "--quiet", "--budget", "60", "--plan", "plan.json", "train.py")
_NEXT: Final = ("diff", "--quiet", "plan.json")
_AFTER_S: Final = 2.0
_SAVING_S: Final = 30.0
_OF_THE_USER: Final = {"log.txt": "three days", "best.keras": "last week", "first.weights.h5": "x"}
_TRAINS_FOR_GOOD: Final = "run"
# In the environment of all processes of one run.
_MARK: Final = "UNCORK_BENCHMARK_RUN"


class Killed(Record, frozen=True, kw_only=True):
    """What was found after one verb was killed.

    Attributes:
        verb: Which one.
        at_s: When, in seconds.
        processes: Command lines of those that were left two seconds later.
        changed: Files of the user's that were not as before by then.
        folders: That were left after the next start.
        exit_code: Of the verb; negative where a signal ended it.
    """

    verb: str
    at_s: float
    processes: tuple[str, ...]
    changed: tuple[str, ...]
    folders: tuple[str, ...]
    exit_code: int = -signal.SIGKILL

    def is_clean(self) -> bool:
        """Whether nothing was left, nothing was changed, and the verb ended as it should."""
        ended_well = -self.exit_code in (0, signal.SIGINT, signal.SIGKILL) or (
            self.exit_code == exit_codes.INTERRUPTED
        )
        return ended_well and not (self.processes or self.changed or self.folders)


class KilledRecord(Record, frozen=True, kw_only=True):
    """A dated record.

    Attributes:
        date: Of the run.
        machine: Which it ran on.
        signal_name: That ended the verbs.
        whole_s: Within how many seconds each verb is killed: as long as it takes by itself.
        found: One for each moment of each verb.
    """

    date: str
    machine: Machine
    signal_name: str
    whole_s: dict[str, float]
    found: tuple[Killed, ...]


def main() -> int:
    """Exit code 0 when nothing stayed."""
    options = _options()
    drawn = random.Random(options.seed)
    whole_s: dict[str, float] = {}
    found: list[Killed] = []
    with tempfile.TemporaryDirectory(prefix="killed-") as folder:
        work = Work(Path(folder))
        work.run(_PLAN)
        for verb in options.verbs or _VERBS:
            whole_s[verb] = options.within or work.run(_VERBS[verb])
            for _ in range(options.moments):
                at_s = drawn.uniform(0, whole_s[verb])
                found.append(work.kill(verb, at_s, is_interrupt=options.interrupt))
                print(_row(found[-1]), file=sys.stderr, flush=True)
    today = datetime.date.today().isoformat()
    name = "SIGINT" if options.interrupt else "SIGKILL"
    record = KilledRecord(
        date=today, machine=machine(), signal_name=name, whole_s=whole_s, found=tuple(found)
    )
    text = "\n".join([*_page(record), ""])
    print(text)
    if options.record:
        kept = "interrupted" if options.interrupt else "killed"
        write_atomically(_RECORDS / f"{kept}-{today}.json", to_json(record))
        write_atomically(_RECORDS / f"{kept}-{today}.md", text.encode())
    return 0 if all(each.is_clean() for each in found) else 1


class Work:
    """A folder of a user's, and one for temporary files.

    Args:
        folder: Empty.
    """

    def __init__(self, folder: Path) -> None:
        self._users, self._temp, self._output = (
            folder / name for name in ("users", "temp", "output")
        )
        for each in (self._users, self._temp):
            each.mkdir()
        self._before: dict[str, bytes] = {}

    def run(self, arguments: Sequence[str]) -> float:
        """Run a command to its end; returns how long it took, in seconds.

        Raises:
            RuntimeError: It failed.
        """
        self._reset()
        begin = time.monotonic()
        with self._start(arguments) as process:
            process.wait()
        self._end_all()
        if process.returncode != 0:
            told = self._output.read_text(errors="replace")
            raise RuntimeError(f"{' '.join(arguments)}: exit code {process.returncode}: {told}")
        return time.monotonic() - begin

    def kill(self, verb: str, at_s: float, *, is_interrupt: bool) -> Killed:
        """Kill or interrupt a verb at a moment, and look what stays."""
        self._reset()
        with self._start(_VERBS[verb]) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=at_s)
            if is_interrupt and process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_SAVING_S)
            process.kill()
            process.wait()
            time.sleep(_AFTER_S)
            left, changed = self._processes(verb), self._changed(verb)
            self._end_all()
        with self._start(_NEXT) as following:
            following.wait()
        folders = (*self._temp.glob("uncork-*"), *self._users.rglob(".uncork-*"))
        found = Killed(
            verb=verb,
            at_s=at_s,
            processes=tuple(" ".join(each)[:200] for each in left),
            changed=changed,
            folders=tuple(path.name for path in folders),
            exit_code=process.returncode,
        )
        for path in folders:
            shutil.rmtree(path, ignore_errors=True)
        return found

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._output.open("wb") as output:  # no pipe: the script's processes would hold it
            return subprocess.Popen(
                [sys.executable, "-m", "uncork", *arguments],
                cwd=self._users,
                env={**os.environ, "TMPDIR": str(self._temp), _MARK: str(self._temp)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # as a terminal's processes are one group
            )

    def _reset(self) -> None:
        plan = self._users / "plan.json"
        kept = plan.read_bytes() if plan.exists() else None
        shutil.rmtree(self._users)
        self._users.mkdir()
        shutil.copy(_SCRIPT, self._users)
        for name, text in _OF_THE_USER.items():
            (self._users / name).write_text(text)
        if kept is not None:
            plan.write_bytes(kept)
        self._before = {path.name: path.read_bytes() for path in self._users.iterdir()}

    def _changed(self, verb: str) -> tuple[str, ...]:
        if verb == _TRAINS_FOR_GOOD:
            return ()
        now = {path.name: path.read_bytes() for path in self._users.iterdir() if path.is_file()}
        names = self._before.keys() | now.keys()
        return tuple(sorted(n for n in names if self._before.get(n) != now.get(n)))

    def _processes(self, verb: str) -> list[list[str]]:
        """With ``run``, the script's own run on as they do when plain Python is killed."""
        if verb == _TRAINS_FOR_GOOD:
            return []
        return [process.cmdline() for process in self._marked()]

    def _end_all(self) -> None:
        for process in self._marked():
            with suppress(psutil.Error):
                process.kill()

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == str(self._temp):
                    yield process


def _page(record: KilledRecord) -> Iterator[str]:
    yield f"# What stays when Uncork is killed, {record.date}"
    yield ""
    yield (
        f"{record.machine.cpu_model}, {record.machine.cpus:g} cores; TensorFlow "
        f"{record.machine.tensorflow}, Keras {record.machine.keras}, Python "
        f"{record.machine.python}. {record.signal_name} at random moments; looked at after "
        f"{_AFTER_S:g} s, and "
        "at folders after the next start."
    )
    yield ""
    yield "| verb | within | moments | processes left | files changed | folders left |"
    yield "|---|---:|---:|---:|---:|---:|"
    for verb, seconds in record.whole_s.items():
        of_verb = [each for each in record.found if each.verb == verb]
        counts = (
            sum(bool(getattr(each, name)) for each in of_verb)
            for name in ("processes", "changed", "folders")
        )
        yield f"| {verb} | {seconds:.0f} s | {len(of_verb)} | {' | '.join(map(str, counts))} |"


def _row(found: Killed) -> str:
    left = f"{found.processes} {found.changed} {found.folders}"
    told = "clean" if found.is_clean() else left
    return f"{found.verb} at {found.at_s:.1f} s, exit code {found.exit_code}: {told}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killed", description=__doc__)
    parser.add_argument("verbs", nargs="*", help=f"{', '.join(_VERBS)} if none")
    parser.add_argument("--moments", type=int, default=20, help="of each verb")
    parser.add_argument("--within", type=float, help="seconds; if not given, all that a verb takes")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--interrupt", action="store_true", help="Ctrl-C, not SIGKILL")
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
