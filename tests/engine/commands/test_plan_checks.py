"""``uncork run`` and the wrong plan: refused with exit code 2 before the script starts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from records import STEPS, plan
from running import environment
from uncork.cli.main import main
from uncork.cli.parser import build_parser
from uncork.core.base import exit_codes
from uncork.core.base.record import replace
from uncork.core.base.script import script_digest
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import serialize_plan
from uncork.engine.commands import plan_checks
from uncork.engine.commands.plan_checks import check_plan
from uncork.engine.process.worker_process import Script
from uncork.report.content.plan_content import plan_info

TEXT = "open('started', 'w').write('started')\n"
ARGS = ("--data", "my photos")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two scripts that leave a file where they are started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TEXT)
    (tmp_path / "other.py").write_text(f"# another one\n{TEXT}")
    return tmp_path


def fitting(**changes: Any) -> Plan:
    """A plan that was made here a moment ago: ``uncork tune train.py --data 'my photos'``."""
    fields = {
        **Script("train.py", ARGS).recorded_fields,
        "script_digest": script_digest("train.py"),
        "machine": plan_checks._host(),
        **changes,
    }
    return plan(**fields)


def saved(made: Plan) -> str:
    Path("plan.json").write_bytes(serialize_plan(made))
    return "plan.json"


def on_machine(**changes: Any) -> Callable[[], object]:
    return lambda: saved(fitting(machine=replace(plan_checks._host(), **changes)))


def edit_script() -> None:
    saved(fitting())
    Path("train.py").write_text(f"{TEXT}# edited\n")


def spoil(change: Callable[[bytes], bytes]) -> None:
    Path(saved(fitting())).write_bytes(change(serialize_plan(fitting())))


def older(text: bytes) -> bytes:
    """As the schema before wrote it."""
    fields = msgspec.json.decode(text)
    del fields["module"], fields["arguments"], fields["working_folder"]
    return msgspec.json.encode({**fields, "schema": 9})


WRONG_PLANS = {
    "another script": (
        lambda: saved(fitting()),
        ["other.py", *ARGS],
        "script: the plan is for train.py, the command runs other.py",
    ),
    "an edited script": (
        edit_script,
        ["train.py", *ARGS],
        "script: train.py has been edited since the tuning",
    ),
    "other arguments": (
        lambda: saved(fitting()),
        ["train.py", "--data", "photos"],
        "arguments: the plan was tuned with --data 'my photos', the command has --data photos",
    ),
    "no arguments": (
        lambda: saved(fitting()),
        ["train.py"],
        "arguments: the plan was tuned with --data 'my photos', the command has none",
    ),
    "another machine": (
        on_machine(cpu_model="AMD 486"),
        ["train.py", *ARGS],
        "processor: AMD 486, here ",
    ),
    "another TensorFlow": (
        on_machine(tensorflow="2.1.0"),
        ["train.py", *ARGS],
        "TensorFlow: 2.1.0, here ",
    ),
    "another Keras": (on_machine(keras="3.0.1"), ["train.py", *ARGS], "Keras: 3.0.1, here "),
    "another Python": (on_machine(python="3.9.2"), ["train.py", *ARGS], "Python: 3.9, here 3."),
    "a corrupt file": (
        lambda: spoil(lambda text: text[: len(text) // 2]),
        ["train.py", *ARGS],
        "plan.json is not a plan",
    ),
    "edited by hand": (
        lambda: spoil(lambda text: text.replace(b"my photos", b"photos", 1)),
        ["train.py", *ARGS],
        "plan.json was changed after it was proved",
    ),
    "an older schema": (lambda: spoil(older), ["train.py", *ARGS], "plan.json has schema 9"),
    "a missing file": (lambda: None, ["train.py", *ARGS], "cannot read the plan plan.json"),
}


@pytest.mark.parametrize("case", WRONG_PLANS)
def test_the_wrong_plan_is_refused_before_the_script_starts(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, words, said = WRONG_PLANS[case]
    prepare()
    assert main(["run", "--plan", "plan.json", *words]) == exit_codes.WRONG_USE
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("uncork: ")
    assert err.count("uncork: ") == 1, "one message"
    assert "\n  try: " in err
    assert not (folder / "started").exists()


def test_the_message_holds_all_that_differs_and_both_ways_on(folder: Path) -> None:
    made = fitting(machine=replace(plan_checks._host(), cpu_model="AMD 486"))
    with pytest.raises(plan_checks.PlanRefused) as caught:
        check_plan(made, Path("plan.json"), Script("other.py", ("my x",)), allow_partial=False)
    assert caught.value.received.count("\n    ") == 3
    assert "uncork tune other.py 'my x' makes a plan" in caught.value.remedy
    assert "uncork run --allow-partial --plan plan.json other.py 'my x'" in caught.value.remedy


def test_a_correction_of_python_and_a_copy_of_the_script_are_no_difference(folder: Path) -> None:
    (folder / "copy.py").write_text(TEXT)
    here = plan_checks._host()
    python = here.python.rpartition(".")[0] + ".99"
    made = fitting(machine=replace(here, python=python, cpus=64.0, memory_bytes=1))
    check_plan(made, Path("plan.json"), Script("copy.py", ARGS), allow_partial=False)


def test_what_fits_in_part_goes_on_and_says_what_does_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fitting(machine=replace(plan_checks._host(), cpu_model="AMD 486"))
    check_plan(made, Path("plan.json"), Script("other.py", ()), allow_partial=True)
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:3] for line in told] == [
        ["uncork", "plan.json may not fit", "script"],
        ["uncork", "plan.json may not fit", "arguments"],
    ]


def test_a_plan_from_python_is_for_no_command(folder: Path) -> None:
    """The machine it was made on is another matter."""
    made = fitting(script="", script_digest="", arguments=(), working_folder="")
    check_plan(made, Path("plan.json"), Script("other.py", ("x",)), allow_partial=False)
    elsewhere = replace(made, machine=replace(made.machine, tensorflow="2.1.0"))
    with pytest.raises(plan_checks.PlanRefused, match=r"TensorFlow: 2\.1\.0"):
        check_plan(elsewhere, Path("plan.json"), Script("other.py"), allow_partial=False)


@pytest.mark.parametrize(
    ("script", "plan_folder"),
    [("train.py", "."), ("sub/train.py", "sub"), ("sub/train.py", "."), ("sub/renamed.py", ".")],
)
def test_a_plan_that_is_not_named_is_not_left_out_by_chance(
    script: str, plan_folder: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the script and in the working folder, by its name and by its text."""
    (folder / "sub").mkdir()
    (folder / script).write_text(TEXT)
    edited = {"script": script.replace("renamed", "train"), "working_folder": "/gone"}
    (folder / plan_folder / "plan.json").write_bytes(serialize_plan(fitting(**edited)))
    assert main(["run", script, "a b"]) == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    where = str(Path(plan_folder, "plan.json"))
    assert f"uncork: {where} is a plan for {Path(script).name}, and the command names no" in told
    assert f"uncork run --plan {where} {script} 'a b'" in told
    assert f"uncork run --no-plan {script} 'a b'" in told
    assert not (folder / "started").exists()


@pytest.mark.parametrize("content", ["", "{}", '{"script": 3}', "[1]"])
def test_what_is_no_plan_of_this_script_is_in_nobody_s_way(content: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "train.py").write_text("# of the same name, and another one\n")
    plan_checks.refuse_unnamed_plan(Script("train.py"))
    (folder / "plan.json").write_text(content)
    plan_checks.refuse_unnamed_plan(Script("train.py"))
    saved(fitting())
    plan_checks.refuse_unnamed_plan(Script("other.py"))
    plan_checks.refuse_unnamed_plan(Script("sub/train.py"))


def test_without_a_plan_it_runs_as_written(folder: Path) -> None:
    saved(fitting())
    command = [sys.executable, "-m", "uncork", "run", "--no-plan", "train.py"]
    subprocess.run(command, cwd=folder, env=environment(folder), check=True)
    assert (folder / "started").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strict", "train.py"], "a plan that does not fit ends the run by default"),
        (["--plan", "plan.json", "--no-plan", "train.py"], "not allowed with"),
        (["-m"], "the name of a module after -m"),
    ],
)
def test_options_that_make_no_sense(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        build_parser().parse_args(["run", *words])
    assert ending.value.code == exit_codes.WRONG_USE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("module", ["", "lab.train"])
def test_the_next_command_works_where_it_is_pasted(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan in one folder, the script in another, its reader in a third one."""
    for name in ("my work/lab", "plans of mine", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "my work")
    Path("lab/train.py").write_text(
        "import os, sys\nprint(os.getcwd(), sys.argv[1:], __name__, __package__)\n"
    )
    script = Script("lab/train.py", ("--data", "my photos", "$HOME", "it's"), module)
    made = fitting(**script.recorded_fields, script_digest=script_digest(script.path), steps=STEPS)
    path = tmp_path / "plans of mine" / "plan.json"
    path.write_bytes(serialize_plan(made))
    plain = [sys.executable, *script.words]
    expected = subprocess.run(plain, capture_output=True, text=True, check=True).stdout
    for folder, given in ((".", path), ("../elsewhere", path), ("../plans of mine", path.name)):
        monkeypatch.chdir(folder)
        command = plan_info(made, str(given)).next_command
        shell = f'uncork() {{ {shlex.quote(sys.executable)} -m uncork "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", shell], env=environment(tmp_path), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.stdout == expected, done.stderr
        assert "was not reached" in done.stderr, "the script trains nothing"
        assert done.returncode == exit_codes.WRONG_USE
