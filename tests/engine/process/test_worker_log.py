from __future__ import annotations

import signal
from pathlib import Path

import pytest

from uncork.core.base import exit_codes
from uncork.engine.process import worker_process
from uncork.engine.process.worker_log import WorkerLog, print_last_lines
from uncork.engine.process.worker_process import Script


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What TensorFlow wrote in one process."""
    path = tmp_path / "log"
    path.write_text("".join(f"I0000 info\nline {n}\n" for n in range(30)) + "F0000 Check failed\n")
    return path


def test_logs_of_several_processes_are_one_file_beside_the_report(
    log: Path, tmp_path: Path
) -> None:
    kept = WorkerLog(tmp_path / "out")
    assert kept.keep(log, "train.py --epochs 3") == tmp_path / "out" / "uncork.log"
    kept.keep(log, "train.py --epochs 3")
    text = (tmp_path / "out" / "uncork.log").read_text()
    assert text.startswith("uncork: what TensorFlow wrote while 'train.py --epochs 3' ran\n")
    assert text.count("Check failed") == 2


def test_an_earlier_log_is_replaced_and_nothing_else_is(log: Path, tmp_path: Path) -> None:
    first = WorkerLog(tmp_path).keep(log, "train.py")
    assert WorkerLog(tmp_path).keep(log, "train.py") == first == tmp_path / "uncork.log"
    assert first.read_text().count("Check failed") == 1
    first.write_text("mine")
    assert WorkerLog(tmp_path).keep(log, "train.py") == tmp_path / "uncork-2.log"
    assert first.read_text() == "mine"


def test_an_empty_log_and_one_that_is_missing_leave_no_file(tmp_path: Path) -> None:
    kept = WorkerLog(tmp_path / "out")
    (tmp_path / "log").write_text("\n")
    assert kept.keep(tmp_path / "log", "train.py") is None
    assert kept.keep(tmp_path / "none", "train.py") is None
    assert not (tmp_path / "out").exists()


def test_the_end_of_a_log_is_short(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_last_lines(log)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "uncork: TensorFlow wrote last:"
    assert said[-1] == "  F0000 Check failed"
    assert len(said) == 9
    assert not any("info" in line for line in said)


FAILED = (exit_codes.SCRIPT_FAILED, 5, -signal.SIGABRT, -signal.SIGKILL)
ENDED = (exit_codes.DONE, exit_codes.WRONG_USE, exit_codes.INTERRUPTED, -signal.SIGINT)


@pytest.mark.parametrize("code", [*FAILED, *ENDED])
def test_a_log_is_kept_and_named_where_a_process_failed(
    code: int, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script("train.py", log=WorkerLog(tmp_path / "out"))
    worker_process._keep_log(script, log, code, quiet=False)
    said, path = capsys.readouterr().err, tmp_path / "out" / "uncork.log"
    assert path.exists() == (code in FAILED)
    assert (f"uncork: TensorFlow's log: {path}" in said) == (code in FAILED)
    assert ("Check failed" in said) == (code < 0 and code in FAILED)


def test_with_verbose_a_log_is_kept_where_all_went_well(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script("train.py", log=WorkerLog(tmp_path, is_always_kept=True))
    worker_process._keep_log(script, log, exit_codes.DONE, quiet=False)
    assert (tmp_path / "uncork.log").exists()
    assert capsys.readouterr().err == ""


def test_a_process_of_which_only_the_result_counts_says_nothing(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script("train.py", log=WorkerLog(tmp_path))
    worker_process._keep_log(script, log, -signal.SIGABRT, quiet=True)
    assert (tmp_path / "uncork.log").exists()
    assert capsys.readouterr().err == ""
