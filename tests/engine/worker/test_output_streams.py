"""What a process writes, in a process of its own: this one's streams are pytest's."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, sys
from pathlib import Path
from uncork.engine.worker.output_streams import separate_native_log, share_terminal
separate_native_log(Path("log"))
"""


def run(folder: Path, text: str) -> tuple[str, str]:
    """Standard error of a process, and its log."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + text],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    log = folder / "log"
    return done.stderr, log.read_text() if log.is_file() else ""


@pytest.mark.parametrize(
    "text",
    [
        "sys.stderr.write('said')",
        "print('said', file=sys.__stderr__)",
        "import warnings; warnings.warn('said')",
        "import logging; logging.error('said')",
        "raise ValueError('said')",
        "import faulthandler; faulthandler.dump_traceback(); sys.stderr.write('said')",
        "import subprocess; subprocess.run([sys.executable, '-c', 'raise SystemExit(\"said\")'])",
        "import subprocess; subprocess.run(['sh', '-c', 'echo said >&2'], stdout=-1)",
        "import multiprocessing as m; p = m.get_context('fork').Process("
        "target=lambda: sys.stderr.write('said')); p.start(); p.join()",
    ],
)
def test_what_python_writes_reaches_the_terminal(text: str, tmp_path: Path) -> None:
    said, log = run(tmp_path, text)
    assert "said" in said
    assert log == ""


@pytest.mark.parametrize(
    "text",
    [
        "os.write(2, b'logged')",
        "os.system('echo logged >&2')",
        "import ctypes; ctypes.CDLL(None).perror(b'logged')",
    ],
)
def test_what_is_written_below_python_goes_to_the_log(text: str, tmp_path: Path) -> None:
    said, log = run(tmp_path, text)
    assert said == ""
    assert "logged" in log


def test_a_script_s_own_choice_for_its_processes_is_kept(tmp_path: Path) -> None:
    text = (
        "import subprocess\n"
        "found = subprocess.run(['sh', '-c', 'echo said >&2'], stderr=subprocess.PIPE)\n"
        "sys.stderr.write(found.stderr.decode().upper())\n"
        "subprocess.run(['sh', '-c', 'echo gone >&2'], stderr=subprocess.DEVNULL)\n"
    )
    assert run(tmp_path, text) == ("SAID\n", "")


def test_the_stream_is_named_and_encoded_as_before(tmp_path: Path) -> None:
    text = "sys.stderr.write(f'{sys.stderr.name} {sys.stderr.errors} \\udcff\\n')"
    said, _ = run(tmp_path, text)
    assert said == "<stderr> backslashreplace \\udcff\n"


def test_without_a_place_for_the_log_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    said, _ = run(tmp_path, "os.write(2, b'said')")
    assert said == "said"


def on_terminal(text: str) -> bytes:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", text])
    seen = b""
    try:
        while data := os.read(terminal, 4096):
            seen += data
    except OSError:  # on Linux, how a pseudo-terminal ends
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return seen


def test_the_live_line_is_erased_before_a_line_of_the_script(tmp_path: Path) -> None:
    shared = "from uncork.engine.worker.output_streams import share_terminal; share_terminal()\n"
    seen = on_terminal(shared + "print('one', 1)\nimport sys\nsys.stderr.write('t')\nprint('wo')")
    assert seen == b"\r\x1b[2Kone 1\r\n\r\x1b[2Ktwo\r\n"


def test_a_pipe_gets_no_escape_sequence(tmp_path: Path) -> None:
    text = BEGIN + "share_terminal(); print('one'); sys.stderr.write('two')"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"one\n", b"two")
