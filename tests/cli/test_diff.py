"""``uncork diff``: what goes where, and what is said beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from records import WORKLOAD, plan
from uncork.cli import diff as patching
from uncork.cli.main import main
from uncork.codemod.syntax.patch import Patch
from uncork.core.base import exit_codes
from uncork.core.base.errors import PatchRefused
from uncork.core.base.record import digest, replace
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.edits.step import FlatUpdates, JitCompile
from uncork.engine.commands import diff as patches
from uncork.engine.commands.diff import PatchCheck
from uncork.engine.process.worker_process import Script

TEXT = b"model.compile('adam')\nmodel.fit(data)\n"
OLD = "strategy.experimental_run_v2(step)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script, and a plan of which one step can be written into it."""
    work = replace(WORKLOAD, at="train.py:2", step_setup_at="train.py:1")
    kept = plan().accepted_steps[0]
    steps = (
        replace(kept, name="jit_compile", edits=(JitCompile(),)),
        replace(kept, name="flat_updates", edits=(FlatUpdates(),), source_edit=""),
    )
    made = plan(
        script_digest=digest(TEXT), before=replace(plan().before, workload=work), steps=steps
    )
    (tmp_path / "plan.json").write_bytes(serialize_plan(made))
    (tmp_path / "train.py").write_bytes(TEXT)
    (tmp_path / "old.py").write_text(OLD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_patch_is_printed_and_the_rest_said_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "plan.json"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert got.out == (
        "--- train.py\n+++ train.py\n@@ -1,2 +1,2 @@\n-model.compile('adam')\n"
        "+model.compile('adam', jit_compile=True)\n model.fit(data)\n"
    )
    assert "not in the patch: flat_updates: Keras and TensorFlow have no setting for it" in got.err
    assert "uncork run --plan plan.json train.py applies" in got.err
    assert "not run yet: uncork diff --check plan.json compares" in got.err
    assert "then: uncork tune train.py\n" in got.err
    assert "patch -p0" in got.err


def test_it_goes_into_a_file_and_over_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["diff", "--output", "tuned.diff", "--quiet", "plan.json"]) == exit_codes.DONE
    assert capsys.readouterr() == ("", "")
    assert (folder / "tuned.diff").read_bytes().startswith(b"--- train.py\n")
    assert main(["diff", "--output", "train.py", "plan.json"]) == exit_codes.WRONG_USE
    assert "is not a patch" in capsys.readouterr().err
    assert (folder / "train.py").read_bytes() == TEXT


def test_with_check_the_script_s_arguments_are_handed_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = []

    def check(patch: object, plan: object, script: Script, follow: object) -> PatchCheck:
        checked.append(script)
        return PatchCheck(unseen=("jit_compile",))

    monkeypatch.setattr(patches, "check_patch", check)
    assert main(["diff", "--check", "plan.json", "photos", "--epochs", "3"]) == exit_codes.DONE
    assert str(checked[0]) == "train.py photos --epochs 3"
    said = capsys.readouterr().err
    assert "checked: the patched script trains the same" in said
    assert "of jit_compile, Uncork checked only" in said
    assert "train.py photos --epochs 3 applies these, too" in said


def test_a_script_is_brought_to_keras_3(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "old.py"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert "+strategy.run(step)" in got.out
    assert "old.py:1: experimental_run_v2 is run" in got.err
    assert main(["diff", "train.py"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert got.out == ""
    assert "train.py has nothing" in got.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "nothing.json"], "cannot read nothing.json"),
        (["diff", "--check", "old.py"], "uncork diff old.py"),
        (["diff", "broken.py"], "as Python:"),
        (["diff", "other.json"], "is not a plan"),
    ],
)
def test_wrong_use_says_what_to_do(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text("model.fit(\n")
    (folder / "other.json").write_text("{'holiday'}")
    assert main(arguments) == exit_codes.WRONG_USE
    assert said in capsys.readouterr().err


def test_a_script_elsewhere_is_patched_by_its_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert main(["diff", str(folder / "old.py")]) == exit_codes.DONE
    assert f"patch {folder / 'old.py'}" in capsys.readouterr().err


def test_what_stands_behind_the_plan_is_for_check_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "plan.json", "--output", "tuned.diff"]) == exit_codes.WRONG_USE
    assert "options before the file" in capsys.readouterr().err
    assert not (folder / "tuned.diff").exists()


def test_a_patch_that_cannot_be_written_is_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(patching, "write_atomically", full)
    assert main(["diff", "--output", "tuned.diff", "plan.json"]) == exit_codes.WRONG_USE
    got = capsys.readouterr()
    assert got.out.startswith("--- train.py")
    assert "No space left on device" in got.err
    assert main(["diff", "--output", "plan.json/tuned.diff", "plan.json"]) == exit_codes.WRONG_USE


def test_a_script_above_the_working_directory_is_named_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``patch -p0`` refuses names with dots in them."""
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert main(["diff", "../old.py"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert ".." not in got.out
    assert "patch ../old.py" in got.err


def test_where_nothing_can_be_written_it_says_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = parse_plan((folder / "plan.json").read_bytes())
    by_hand = replace(made.steps[1], source_edit="first\n  .second()")
    (folder / "plan.json").write_bytes(serialize_plan(replace(made, steps=(by_hand,))))
    assert main(["diff", "plan.json"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert got.out == ""
    assert "no setting for it; by hand, for example:\n    first\n      .second()" in got.err
    assert "train with uncork run --plan plan.json train.py" in got.err


def test_a_patch_that_fails_its_check_gives_way_to_one_that_calls_uncork(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def patch_from_plan(plan: object, *, calls_uncork: bool = False) -> Patch:
        asked.append(calls_uncork)
        after = b"called" if calls_uncork else b"split"
        return Patch(path="train.py", before=TEXT, after=after, included=("cache",))

    def check(patch: Patch, plan: object, script: Script, follow: object) -> PatchCheck:
        if patch.after == b"split":
            raise PatchRefused("differs")
        return PatchCheck(batch_count=114)

    monkeypatch.setattr(patches, "patch_from_plan", patch_from_plan)
    monkeypatch.setattr(patches, "check_patch", check)
    assert main(["diff", "--check", "plan.json"]) == exit_codes.DONE
    got = capsys.readouterr()
    assert asked == [False, True]
    assert "+called" in got.out
    assert "the same batches (114 digests), model and settings" in got.err
