"""Scripts that end by themselves before the road was walked: what was found is not lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from records import MACHINE
from uncork.core.errors import ScriptFailed
from uncork.core.job import Job, Result
from uncork.core.record import to_json, write_atomically
from uncork.engine import child, processes
from uncork.engine.processes import Script, run_child


def test_a_script_that_exits_with_a_code_has_failed(monkeypatch, tmp_path: Path) -> None:
    failed: list[dict[str, object]] = []
    made = SimpleNamespace(result=None, fail=lambda **found: failed.append(found))

    def run_script(script, args, trial, source, *, outline):
        trial.made = made
        raise SystemExit(2)

    monkeypatch.setattr(child, "run_script", run_script)
    job = Job(mode="tune", result=str(tmp_path / "result"))
    with pytest.raises(ScriptFailed, match="ended itself with 2"):
        child._trial(job, Path("train.py"), ())
    assert failed == [{"held_back": (), "made": ()}]


@pytest.mark.parametrize(
    ("code", "ending"), [(0, "failed"), (7, "failed"), (130, "interrupted"), (-9, "interrupted")]
)
def test_one_that_ends_its_process_was_not_interrupted(monkeypatch, code, ending) -> None:
    """What was tried by then lies on the disk, as what an interruption leaves."""

    def wait(process, journal, follow):
        process.wait()
        found = Result(machine=MACHINE, interrupted=True)
        write_atomically(journal.with_name("result"), to_json(found))
        return code

    monkeypatch.setattr(processes, "_wait", wait)
    monkeypatch.setattr(processes, "_CHILD", "pass")
    found = run_child(Job(mode="tune"), Script("train.py"), lambda event: None)
    assert (found.failed, found.interrupted) == (ending == "failed", ending == "interrupted")
