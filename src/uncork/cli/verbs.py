"""One function for each verb: call the engine, show what it found, save it."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import msgspec

from uncork.core import exits
from uncork.core.diagnosis import Diagnosis
from uncork.core.errors import WrongUse
from uncork.core.plan import Plan, Policy, dump, load
from uncork.core.record import from_json, to_json, write_atomically
from uncork.engine import reached, verbs
from uncork.engine.processes import Script
from uncork.report.progress import Progress


def diagnose(options: argparse.Namespace) -> int:
    """Measure, print, save ``diagnosis.json`` and the report."""
    script, progress = _script(options), Progress(quiet=options.quiet)
    if options.list:
        for workload in verbs.list_trainings(script, progress):
            print(reached.line(workload))
        return exits.DONE
    found = verbs.diagnose(script, progress, training=options.training)
    _print(found)
    return _save_diagnosis(found, options)


def tune(options: argparse.Namespace) -> int:
    """Walk the road, print, save ``plan.json`` and the report."""
    _keep_foreign(options.plan)
    policy = Policy(loosest=options.strict, memory_share=options.memory, budget_s=options.budget)
    plan, interrupted = verbs.tune(
        _script(options),
        Progress(quiet=options.quiet),
        policy=policy,
        training=options.training,
    )
    _print(plan, options.plan)
    _save(options.plan, dump(plan))
    report = options.report or options.plan.with_name("report.html")
    _save(report, _html(plan, options.plan))
    print(f"plan:   {options.plan}\nreport: {report}")
    return exits.INTERRUPTED if interrupted else exits.DONE


def run(options: argparse.Namespace) -> int:
    """Become the script's process; only a refused plan comes back."""
    verbs.run(_script(options), options.plan, strict=options.strict)
    raise AssertionError("the process was replaced")


def report(options: argparse.Namespace) -> int:
    """Draw a saved file again, anywhere."""
    record = _read(options.file)
    _print(record, options.file)
    if options.html:
        _save(options.html, _html(record, options.file))
        print(f"report: {options.html}")
    return exits.DONE


def _script(options: argparse.Namespace) -> Script:
    """Check the script before anything is started.

    Raises:
        WrongUse: It is not there.
    """
    path = Path(options.script)
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "not there"
        raise WrongUse(f"the script '{path}' is {kind}", "a Python file", "check the path")
    return Script(options.script, tuple(options.args))


def _save_diagnosis(found: Diagnosis, options: argparse.Namespace) -> int:
    text = to_json(found)
    for path in filter(None, (options.report.with_suffix(".json"), options.json)):
        _save(path, text)
    _save(options.report, _html(found, options.report))
    print(f"report: {options.report}")
    return exits.DONE


def _save(path: Path, content: bytes) -> None:
    """Write a result; what is printed already is not lost when that fails."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise WrongUse(
            f"cannot write {path}: {error.strerror}",
            "a folder with space and permission to write",
            "name another place with --plan or --report; the figures above are not lost",
        ) from error


def _keep_foreign(path: Path) -> None:
    """Refuse to overwrite what is not a plan, before minutes are spent.

    Raises:
        WrongUse: The file holds something else.
    """
    if not path.exists():
        return
    try:
        from_json(path.read_bytes(), Plan)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        raise WrongUse(
            f"{path} exists and is not a plan of this version",
            "a new file, or an earlier plan to replace",
            "name another file with --plan",
        ) from None


def _read(path: Path) -> Diagnosis | Plan:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise WrongUse(
            f"cannot read {path}: {error.strerror}", "a saved diagnosis.json or plan.json"
        ) from None
    try:
        return from_json(text, Diagnosis)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return load(text, str(path))


def _print(record: Diagnosis | Plan, path: Path = Path("plan.json")) -> None:
    from uncork.report import terminal  # noqa: PLC0415 - rich is paid for here

    columns = shutil.get_terminal_size((100, 40)).columns
    style = terminal.look(sys.stdout, columns)
    if isinstance(record, Plan):
        print(terminal.plan_text(record, *style, path=str(path)))
    else:
        print(terminal.diagnosis_text(record, *style))


def _html(record: Diagnosis | Plan, path: Path) -> bytes:
    from uncork.report import html  # noqa: PLC0415 - so is jinja2

    if isinstance(record, Plan):
        return html.plan_html(record, str(path)).encode()
    return html.diagnosis_html(record).encode()
