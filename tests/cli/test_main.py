"""The command line itself: what it imports, what it prints, which code it ends with."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from records import diagnosis, empty_plan, plan
from uncork import __version__
from uncork.cli import verbs
from uncork.cli.main import main
from uncork.cli.parser import build_parser
from uncork.core.base import exit_codes
from uncork.core.base.exclusive_use import exclusive_use
from uncork.core.base.journal import Event
from uncork.core.base.record import to_json
from uncork.core.documents.plan import PLAN_SCHEMA
from uncork.core.documents.plan_file import parse_plan, serialize_plan


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a plan and a diagnosis."""
    (tmp_path / "plan.json").write_bytes(serialize_plan(plan()))
    (tmp_path / "diagnosis.json").write_bytes(to_json(diagnosis()))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["tune", "--help"],
        ["diff", "--help"],
        ["report", "plan.json"],
        ["report", "nothing"],
    ],
    ids=" ".join,
)
def test_what_trains_nothing_loads_no_tensorflow(arguments: list[str], saved: Path) -> None:
    check = (
        "import sys, atexit\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'libcst'}\n"
        "atexit.register(lambda: print('loaded', sorted(heavy & set(sys.modules))))\n"
        "from uncork.cli.main import main\n"
        f"main({arguments!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=saved, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "loaded []", done.stderr


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"uncork {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["guess"],
        ["tune"],
        ["tune", "--budget", "5", "train.py"],
        ["tune", "--budget", "soon", "train.py"],
        ["diagnose", "--budget", "0", "train.py"],
        ["tune", "--memory", "1.5", "train.py"],
        ["tune", "--strict", "roughly", "train.py"],
        ["diagnose", "--training", "first", "train.py"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_told_and_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == exit_codes.WRONG_USE
    assert "usage: uncork" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("none", "No such file or directory"),
        ("train.py", "Not a directory"),
        ("a[1]", "reads as a pattern"),
        (os.fsdecode(b"caf\xe9"), "not UTF-8"),
    ],
)
def test_a_folder_that_takes_no_files_is_refused_before_anything_runs(
    folder: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('started')")
    plan = ["--plan", str(tmp_path / "plan.json")]
    arguments = ["tune", *plan, "--disk-cache", str(tmp_path / folder), str(script)]
    assert main(arguments) == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    assert said in told
    assert "try:" in told
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize("name", ["plan.json", "diagnosis.json"])
def test_a_saved_file_is_drawn_again(
    name: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["report", str(saved / name), "--html", str(saved / "again.html")]) == exit_codes.DONE
    )
    assert "train.py" in capsys.readouterr().out
    assert (saved / "again.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["plan.json", "diagnosis.json"])
def test_a_report_to_hand_on_names_nothing_of_the_user_s(
    name: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = saved / "shared.html"
    options = ["--html", str(page), "--confidential"]
    assert main(["report", str(saved / name), *options]) == exit_codes.DONE
    for text in (page.read_text(), capsys.readouterr().out):
        assert "train.py" not in text
        assert str(saved) not in text.replace(f"report: {page}", "")
        assert "load_and_augment" not in text
        assert "file1:41" in text


@pytest.mark.parametrize("name", ["plan.json", "diagnosis.json"])
def test_a_saved_file_is_shown_short_or_whole(
    name: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(saved / name)]) == exit_codes.DONE
    short = capsys.readouterr().out
    assert main(["report", "-v", str(saved / name)]) == exit_codes.DONE
    whole = capsys.readouterr().out
    assert short.startswith("Slow  ")
    assert len(short.splitlines()) <= 25
    assert "One step\n" in whole
    assert short.splitlines()[-1] == whole.splitlines()[-1]


@pytest.mark.parametrize("name", ["plan.json", "diagnosis.json"])
def test_json_is_written_or_printed_in_place_of_the_text(
    name: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, given = saved / "copy.json", str(saved / name)
    assert main(["report", given, "--json", str(copy)]) == exit_codes.DONE
    assert json.loads(copy.read_bytes()) == json.loads((saved / name).read_bytes())
    assert capsys.readouterr().out.startswith("Slow  ")
    assert main(["report", given, "--json", "-", "--confidential"]) == exit_codes.DONE
    printed = capsys.readouterr().out
    assert json.loads(printed)["script"] != "train.py"
    copy.write_text("mine")
    assert main(["report", given, "--json", str(copy)]) == exit_codes.WRONG_USE
    assert copy.read_text() == "mine"


def test_what_tune_and_diagnose_print_as_json_is_all_they_print(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The script's own output would spoil it for the next program in a pipe."""

    def talks(found: object) -> Callable[..., object]:
        def run(*_: object, **__: object) -> object:
            subprocess.run(["echo", "said by the script"], check=True)
            return found

        return run

    (saved / "train.py").write_text("pass")
    monkeypatch.chdir(saved)
    monkeypatch.setattr(verbs.tune_command, "tune", talks((plan(), exit_codes.DONE)))
    monkeypatch.setattr(verbs.diagnose_command, "diagnose", talks(diagnosis()))
    for verb in ("tune", "diagnose"):
        assert main([verb, "--json", "-", "train.py"]) == exit_codes.DONE
        told = capfd.readouterr()
        assert json.loads(told.out)["script"] == "train.py"
        assert told.err == "said by the script\n"
    assert main(["tune", "--json", "again.json", "train.py"]) == exit_codes.DONE
    assert (saved / "again.json").read_bytes() == (saved / "plan.json").read_bytes()


def test_a_result_and_its_files_take_at_most_25_lines(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved / "train.py").write_text("pass")
    monkeypatch.chdir(saved)
    monkeypatch.setenv("COLUMNS", "60")
    crowded = plan(notes=("a long note " * 50,) * 4)
    monkeypatch.setattr(verbs.tune_command, "tune", lambda *_, **__: (crowded, exit_codes.DONE))
    assert main(["tune", "train.py"]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert lines[-2:] == ["plan: plan.json", "report: report.html"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b"\xff\xfe", b"Traceback (most"])
def test_a_file_that_is_no_result_is_refused(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_bytes(content)
    assert main(["report", str(tmp_path / "other")]) == exit_codes.WRONG_USE
    assert "uncork tune" in capsys.readouterr().err


def test_a_plan_of_an_older_format_is_not_called_edited(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (saved / "plan.json").read_text()
    (saved / "old.json").write_text(text.replace(f'"schema": {PLAN_SCHEMA}', '"schema": 1', 1))
    (saved / "train.py").write_text("raise SystemExit('must not be started')")
    code = main(["run", "--plan", str(saved / "old.json"), str(saved / "train.py")])
    assert code == exit_codes.WRONG_USE
    said = capsys.readouterr().err
    assert "schema 1" in said
    assert "changed after it was proved" not in said


@pytest.mark.parametrize(
    ("schema", "said"), [(1, "run 'uncork diagnose SCRIPT'"), (99, "upgrade Uncork")]
)
def test_a_diagnosis_of_another_format_is_not_drawn(
    schema: int, said: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = json.loads((saved / "diagnosis.json").read_text()) | {"schema": schema, "new": 1}
    (saved / "other.json").write_text(json.dumps(written))
    assert main(["report", str(saved / "other.json")]) == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    assert f"has schema {schema}" in told
    assert said in told


def test_a_page_that_cannot_be_written_names_its_own_option(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, plan = str(saved / "plan.json" / "page.html"), str(saved / "plan.json")
    assert main(["report", plan, "--html", page]) == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    assert "--html" in told
    assert "--json" not in told


@pytest.mark.parametrize("verb", ["diagnose", "tune"])
def test_without_tensorflow_it_is_said_how_to_get_one(
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").write_text("pass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([verb, "train.py"]) != exit_codes.DONE
    said = capsys.readouterr().err
    assert "uncork[cpu]" in said
    assert "uncork[cuda]" in said


def test_a_reader_that_stops_reading_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``uncork tune train.py | head``: the plan of minutes is saved all the same."""

    def gone(*_: object) -> None:
        raise BrokenPipeError

    (tmp_path / "train.py").write_text("pass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verbs.tune_command, "tune", lambda *_, **__: (empty_plan(), False))
    monkeypatch.setattr(verbs, "_print", gone)
    nowhere = (tmp_path / "out").open("w")  # main leads it away
    monkeypatch.setattr(sys, "stdout", nowhere)
    assert main(["tune", "train.py"]) == exit_codes.DONE
    assert parse_plan((tmp_path / "plan.json").read_bytes()).accepted_steps == ()
    assert (tmp_path / "report.html").exists()


def test_a_pipe_that_is_closed_early(saved: Path) -> None:
    command = f"{sys.executable} -m uncork report plan.json | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=saved,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == exit_codes.DONE
    assert "train.py" in done.stdout


def test_another_file_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('must not be started')")
    (tmp_path / "plan.json").write_text('{"holiday": "Crete"}')
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "train.py"]) == exit_codes.WRONG_USE
    assert "is not a plan" in capsys.readouterr().err
    assert (tmp_path / "plan.json").read_text() == '{"holiday": "Crete"}'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tune", "--report", "mine.html"], "is not a report written by Uncork"),
        (["diagnose", "--report", "mine.html"], "is not a report written by Uncork"),
        (["tune", "--plan", "new.json", "--report", "new.json"], "is both the report and"),
        (["diagnose", "--report", "new.json"], "is both the report and"),
        (["diagnose", "--report", "a.html", "--json", "a.html"], "is both the report and"),
    ],
)
def test_no_page_of_the_user_s_and_no_result_is_overwritten(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('must not be started')")
    (tmp_path / "mine.html").write_text("<h1>Holiday in Crete</h1>")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "train.py"]) == exit_codes.WRONG_USE
    assert said in capsys.readouterr().err
    assert (tmp_path / "mine.html").read_text() == "<h1>Holiday in Crete</h1>"


def test_an_earlier_report_is_replaced_and_arguments_are_typed_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved / "train.py").write_text("pass")
    monkeypatch.chdir(saved)
    typed = empty_plan(arguments=("--data", "my photos"))
    monkeypatch.setattr(verbs.tune_command, "tune", lambda *_, **__: (typed, False))
    for _ in range(2):
        assert main(["tune", "train.py", "--data", "my photos"]) == exit_codes.DONE
    assert "train.py --data 'my photos'" in capsys.readouterr().out


def test_what_another_version_wrote_is_replaced(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fields need not be today's: an upgrade must not end in a refusal."""
    (saved / "train.py").write_text("pass")
    written = json.loads((saved / "plan.json").read_text()) | {"schema": 1, "gone_since": True}
    del written["baseline"]
    (saved / "plan.json").write_text(json.dumps(written))
    monkeypatch.chdir(saved)
    monkeypatch.setattr(verbs.tune_command, "tune", lambda *_, **__: (empty_plan(), False))
    assert main(["tune", "train.py"]) == exit_codes.DONE
    assert parse_plan((saved / "plan.json").read_bytes()).schema == PLAN_SCHEMA


def test_what_stands_behind_a_script_is_the_script_s() -> None:
    for verb in ("run", "tune", "diagnose"):
        options = build_parser().parse_args([verb, "train.py", "--", "-x", "--plan", "p"])
        assert (options.script, options.args) == ("train.py", ["--", "-x", "--plan", "p"])
        options = build_parser().parse_args([verb, "--", "-odd.py", "-x"])
        assert (options.script, options.args) == ("-odd.py", ["-x"])
        options = build_parser().parse_args([verb, "train.py", "-m", "x"])
        assert (options.script, options.module, options.args) == ("train.py", "", ["-m", "x"])
        before = ["--list"] if verb == "diagnose" else ["--plan", "p"]
        options = build_parser().parse_args([verb, *before, "-m", "lab.train", "--", "-m"])
        assert (options.script, options.module, options.args) == ("", "lab.train", ["--", "-m"])
    with pytest.raises(SystemExit):
        build_parser().parse_args(["run", "--"])
    with pytest.raises(SystemExit):
        build_parser().parse_args(["run"])


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_ends_it_from_outside_is_an_interruption(name: str) -> None:
    """But for a terminal that is closed where nobody listens, as under nohup."""
    check = (
        "import os, signal, sys\n"
        "from uncork.cli.main import _save_when_ended\n"
        f"number = signal.{name}\n"
        "signal.signal(number, signal.SIG_IGN if sys.argv[1:] else signal.SIG_DFL)\n"
        "_save_when_ended()\n"
        "try: os.kill(os.getpid(), number)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "print('goes on')"
    )
    run = [sys.executable, "-c", check]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[0] == "interrupted"
    if name == "SIGHUP":
        ignored = subprocess.run([*run, "x"], capture_output=True, text=True, check=True)
        assert ignored.stdout == "goes on\n"


def test_a_tuning_that_is_not_complete_stands_beside_an_earlier_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved)
    (saved / "train.py").write_text("")
    earlier = (saved / "plan.json").read_bytes()
    part = empty_plan(notes=("interrupted",))
    monkeypatch.setattr(verbs.tune_command, "tune", lambda *_, **__: (part, exit_codes.INTERRUPTED))
    assert main(["tune", "--quiet", "train.py"]) == exit_codes.INTERRUPTED
    assert (saved / "plan.json").read_bytes() == earlier
    assert parse_plan((saved / "plan.partial.json").read_bytes()).notes == ("interrupted",)
    assert "left plan.json unchanged" in capsys.readouterr().out
    (saved / "plan.json").unlink()
    assert main(["tune", "--quiet", "train.py"]) == exit_codes.INTERRUPTED
    assert parse_plan((saved / "plan.json").read_bytes()).notes == ("interrupted",)


def test_explain_prints_the_page_of_a_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "cache_missing"]) == 0
    assert capsys.readouterr().out.startswith("# cache_missing\n")


def test_explain_without_a_name_lists_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert {"serial_map", "parallel_map"} <= set(capsys.readouterr().out.split())


def test_explain_of_an_unknown_name_says_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "serial_maps"]) == 2
    assert "uncork explain serial_map" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "option", "result"),
    [("tune", "--plan", "plan.json"), ("diagnose", "--report", "report.html")],
)
def test_two_commands_at_once_do_not_write_one_result(
    verb: str,
    option: str,
    result: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def started(script: object, on_event: Callable[[Event], None], **_: object) -> None:
        on_event(Event(kind="phase", text="measuring train.py:3"))
        raise AssertionError("it went on")

    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    monkeypatch.setattr(f"uncork.engine.commands.{verb}.{verb}", started)
    with exclusive_use(tmp_path / result) as is_claimed:
        assert is_claimed
        assert main([verb, option, result, "train.py"]) == exit_codes.WRONG_USE
    said = capsys.readouterr().err
    assert f"another 'uncork {verb}' is running, and will write {result}" in said
    assert f"choose another place with {option}" in said
    assert not (tmp_path / result).exists()
    with pytest.raises(AssertionError, match="it went on"):
        main([verb, option, result, "train.py"])
