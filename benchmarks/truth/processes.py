"""Run a script as a user would, and see what it does: exit code, lines, seconds, weights."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import h5py

from uncork.core.base.record import Record

ROOT: Final = Path(__file__).parents[2]
WEIGHTS: Final = "trained.weights.h5"
_TRAINED: Final = re.compile(r"trained [\d,]+ \w+ in ([\d.]+) s")
_LOG: Final = re.compile(r"[IW]\d{4} |WARNING: All log messages before")
_SECONDS: Final = re.compile(r"[\d.]+ ?(ms|us|µs|s)\b(/step|/epoch)?")


class Run(Record, frozen=True, kw_only=True):
    """One process.

    Attributes:
        exit_code: Negative for a signal; None when it was stopped after the time allowed.
        lines: Of standard output, its times replaced by ``T``.
        trained_s: Seconds of training, as the script says; None when it did not.
        epochs_s: Seconds from each line that tells a loss to the next one: epochs but the first.
        weights: Digest of what it saved; ``""`` when it saved nothing.
        wall_s: Seconds of the whole process.
        errors: The last lines of standard error.
    """

    exit_code: int | None
    lines: tuple[str, ...]
    trained_s: float | None
    epochs_s: tuple[float, ...]
    weights: str
    wall_s: float
    errors: str


def run(command: Sequence[object], cwd: Path, limit_s: float = 240.0) -> Run:
    """Run a command in a directory of its own.

    Args:
        command: Program and arguments.
        cwd: Made if it is not there.
        limit_s: After so many seconds it is stopped.
    """
    cwd.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"}
    begin = time.perf_counter()
    stamped: list[tuple[float, str]] = []
    with (cwd / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,  # `uncork` has children of its own, who hold the pipe open
        )
        over = threading.Event()

        def stop() -> None:
            over.set()  # before it ends, which is seen at once
            _end(process.pid)

        timer = threading.Timer(limit_s, stop)
        timer.start()
        assert process.stdout is not None
        try:
            stamped.extend((time.perf_counter(), line.rstrip("\n")) for line in process.stdout)
            process.wait()
        finally:
            in_time = not over.is_set()
            timer.cancel()
            _end(process.pid)
            process.stdout.close()
    return Run(
        exit_code=process.returncode if in_time else None,
        lines=tuple(_SECONDS.sub("T", line) for _, line in stamped),
        trained_s=_trained_s([line for _, line in stamped]),
        epochs_s=_between_losses(stamped),
        weights=_digest(cwd / WEIGHTS),
        wall_s=time.perf_counter() - begin,
        errors=_errors((cwd / "stderr").read_text(errors="replace"), cwd),
    )


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _errors(text: str, cwd: Path) -> str:
    """The last lines, without TensorFlow's log and without the places of this machine."""
    for place, name in ((str(cwd), "WORK"), (f"{ROOT}/", ""), (tempfile.gettempdir(), "TEMP")):
        text = text.replace(place, name)
    return "\n".join([line for line in text.splitlines() if not _LOG.match(line)][-8:])


def _trained_s(lines: Sequence[str]) -> float | None:
    found = [match for line in lines if (match := _TRAINED.search(line))]
    return float(found[-1][1]) if found else None


def _between_losses(stamped: Sequence[tuple[float, str]]) -> tuple[float, ...]:
    """The last line with a loss is the script's own summary, printed when all is over."""
    at = [when for when, line in stamped if "loss" in line or line.startswith("epoch ")][:-1]
    return tuple(later - earlier for earlier, later in itertools.pairwise(at))


def _digest(path: Path) -> str:
    """Of names and values; the file itself also holds what does not matter."""
    if not path.exists():
        return ""
    state = hashlib.sha256()

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            state.update(name.encode() + str(item.dtype).encode() + bytes(item[()].tobytes()))

    with h5py.File(path) as file:
        file.visititems(add)
    return state.hexdigest()[:16]
