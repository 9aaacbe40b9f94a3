"""Scripts that end by themselves before the road was walked: what was found is not lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from records import MACHINE, plan
from uncork.core.base.errors import ScriptFailed
from uncork.core.base.record import to_json, write_atomically
from uncork.core.documents.job import JobResult, TuneJob
from uncork.engine.commands import tune as verbs
from uncork.engine.commands.confirm import confirm
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_process import Script, run_worker
from uncork.engine.worker import main as child


def test_a_script_that_exits_with_a_code_has_failed(monkeypatch, tmp_path: Path) -> None:
    failed: list[dict[str, object]] = []
    made = SimpleNamespace(result=None, fail=lambda **found: failed.append(found))

    def run_script(script, args, trial, source, *, outline, module):
        trial.created_listener = made
        raise SystemExit(2)

    monkeypatch.setattr(child, "run_script", run_script)
    job = TuneJob(result_path=str(tmp_path / "result"))
    with pytest.raises(ScriptFailed, match="exited with 2"), ExitStack() as held:
        child._trial(job, Path("train.py"), (), held)
    assert failed == [{"redirected_saves": (), "suppressed_saves": (), "created_files": ()}]


@pytest.mark.parametrize(
    ("code", "ending"), [(0, "failed"), (7, "failed"), (130, "interrupted"), (-9, "interrupted")]
)
def test_one_that_ends_its_process_was_not_interrupted(monkeypatch, code, ending) -> None:
    """What was tried by then lies on the disk, as what an interruption leaves."""

    def wait(process, journal, follow):
        process.wait()
        found = JobResult(machine=MACHINE, is_interrupted=True)
        write_atomically(journal.with_name("result"), to_json(found))
        return code

    monkeypatch.setattr(processes, "_wait", wait)
    monkeypatch.setattr(processes, "_CHILD", "pass")
    found = run_worker(TuneJob(), Script("train.py"), lambda event: None)
    assert (found.has_script_failed, found.is_interrupted) == (
        ending == "failed",
        ending == "interrupted",
    )


def test_a_process_imports_nothing_that_a_script_may_set_up_first():
    """How many threads NumPy's library of kernels has, for one."""
    modules = ", ".join(
        f"uncork.{name}"
        for name in ("engine.worker.main", "engine.commands.run", "capture.base.deferred_listener")
    )
    said = "print([m for m in ('numpy', 'tensorflow', 'keras') if m in sys.modules])"
    run = [sys.executable, "-c", f"import sys, {modules}; {said}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def no_room(*_: object, **__: object) -> None:
    raise OSError(28, os.strerror(28))


@pytest.mark.parametrize("what", [(tempfile, "TemporaryDirectory"), (subprocess, "Popen")])
def test_what_was_found_is_kept_where_no_process_can_be_started(monkeypatch, what) -> None:
    monkeypatch.setattr(*what, no_room)
    found, interrupted = confirm(plan(), Script("train.py"), lambda _: None)
    assert not interrupted
    assert "not confirmed in fresh processes: cannot" in found.notes[-1]
    assert os.strerror(28) in found.notes[-1]
    assert found.steps == plan().steps


def test_a_script_that_was_edited_meanwhile_is_said_to_be() -> None:
    text = plan().script_digest
    assert verbs._of_text(plan(), text, text) == plan()
    assert "edited meanwhile" in verbs._of_text(plan(), text, "c0de").notes[-1]
    other = verbs._of_text(plan(), "0123456789abcdef", "0123456789abcdef")
    assert other.script_digest == "0123456789abcdef"
    assert "edited meanwhile" in other.notes[-1]
    assert other.speedup.verdict == "not_proven"
