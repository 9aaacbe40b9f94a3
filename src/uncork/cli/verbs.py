"""One function for each verb: call the engine, show what it found, save it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from uncork.capture.base.modules import find_module_file
from uncork.cli.output_files import (
    PRINTED,
    check_writable,
    partial_path,
    reserve_file,
    reserve_stdout,
    unwritable_error,
)
from uncork.core.base import exit_codes
from uncork.core.base.errors import WrongUse
from uncork.core.base.record import replace, to_json, write_atomically
from uncork.core.documents import diagnosis
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.evidence.storage import folder_name_refusal
from uncork.engine.commands import diagnose as diagnose_command
from uncork.engine.commands import run as run_command
from uncork.engine.commands import tune as tune_command
from uncork.engine.commands.known_plan import find_known_plan, still_holds
from uncork.engine.process import reached_trainings as reached
from uncork.engine.process.worker_log import WorkerLog
from uncork.engine.process.worker_process import EventHandler, Script
from uncork.report.redaction import R, redact
from uncork.report.terminal.progress import Progress

# What every report has had since the first version, and no other page has.
_MASTHEAD: Final = b'<span class="brand">Uncork</span>'
_PLACES: Final = "--plan, --report or --json"
# What a file of results has had since the first version, and nothing else has.
_MARKS: Final = {
    Diagnosis: frozenset({"schema", "script", "workloads", "overhead"}),
    Plan: frozenset({"schema", "script_digest", "policy", "steps"}),
}


def diagnose(options: argparse.Namespace) -> int:
    """Measure, print, save ``diagnosis.json`` and the report."""
    script = _logged(_script(options), options.report, options)
    if options.list:
        with _progress(options) as progress:
            trainings = diagnose_command.list_trainings(script, progress)
        print("".join(f"{reached.format_training(workload)}\n" for workload in trainings), end="")
        return exit_codes.DONE
    _check_target(options.report)
    for path in _json_paths(options):
        _check_target(path, Diagnosis)
        _check_apart(options.report, path)
    with (
        reserve_stdout(options.json),
        _progress(options) as progress,
        reserve_file(options.report, "diagnose", "--report", progress) as on_event,
    ):
        found = diagnose_command.diagnose(
            script,
            on_event,
            training=options.training,
            budget_s=options.budget,
            timeline=options.timeline,
        )
    try:
        _save_diagnosis(found, options)
    finally:
        _present(found, options)
    timeline = options.timeline and any(options.timeline.rglob("*.xplane.pb"))
    files = {
        "report": options.report,
        "log": script.log and script.log.path,
        "timeline": f"tensorboard --logdir {options.timeline}" if timeline else None,
    }
    _print_files(files, options)
    return exit_codes.DONE


def tune(options: argparse.Namespace) -> int:
    """Try optimizations, print, save ``plan.json`` and the report."""
    _check_target(options.plan, Plan)
    report = options.report or options.plan.with_name("report.html")
    _check_target(report)
    _check_apart(report, options.plan)
    if options.json and options.json != PRINTED:
        _check_target(options.json, Plan)
        _check_apart(report, options.json)
    policy = Policy(
        loosest_guarantee=options.allow or options.strict,
        memory_share=options.memory,
        disk_cache_folder=_folder(options.disk_cache),
    )
    if options.budget is not None:
        policy = replace(policy, budget_s=options.budget)
    script = _logged(_script(options), report, options)
    with (
        reserve_stdout(options.json),
        _progress(options) as progress,
        reserve_file(options.plan, "tune", "--plan", progress) as on_event,
    ):
        plan, code = _known(options, script, policy, on_event) or tune_command.tune(
            script,
            on_event,
            policy=policy,
            training=options.training,
            is_budget_chosen=options.budget is not None,
        )
    target = options.plan
    if code != exit_codes.DONE:  # what was found before is worth more than a part
        target, report = partial_path(target), partial_path(report)
    # Saved first: whoever reads our output may stop reading. Printed in any case: disks are full.
    try:
        _save(target, serialize_plan(plan))
        path = Path(target.name) if options.confidential else target
        _save(report, _html(_shown(plan, options), path))
        if options.json and options.json != PRINTED:
            _save(options.json, _json(_shown(plan, options)))
    finally:
        _present(plan, options, target)
    files = {"plan": target, "report": report, "log": script.log and script.log.path}
    _print_files(files, options)
    if target != options.plan and options.json != PRINTED:
        print(
            f"Uncork left {options.plan} unchanged: it contains an earlier plan, and the new plan "
            "is incomplete"
        )
    return code


def _known(
    options: argparse.Namespace, script: Script, policy: Policy, on_event: EventHandler
) -> tuple[Plan, int] | None:
    """The plan of an earlier tuning, where it still holds and nothing else was asked for."""
    if options.again or options.budget is not None:
        return None
    plan = find_known_plan(options.plan, script, policy, options.training)
    return (plan, exit_codes.DONE) if plan and still_holds(plan, script, on_event) else None


def run(options: argparse.Namespace) -> int:
    """Train, in this process; the exit code is the script's own."""
    return run_command.run(
        _script(options),
        options.plan,
        without_plan=options.no_plan,
        allow_partial=options.allow_partial,
    )


def report(options: argparse.Namespace) -> int:
    """Draw a saved file again, anywhere; two plans side by side."""
    if options.other is not None:
        return compare_plan_files(options)
    record = _shown(_read(options.file), options)
    path = Path(options.file.name) if options.confidential else options.file
    _present(record, options, path)
    if options.html:
        _save_html(options, _html(record, path), options.file)
    if options.json and options.json != PRINTED:
        _check_target(options.json, type(record), named="--json")
        _save(options.json, _json(record), named="--json")
    _print_files({"report": options.html}, options)
    return exit_codes.DONE


def compare_plan_files(options: argparse.Namespace) -> int:
    """Two plans side by side."""
    from uncork.report.content.plan_comparison import compare_plans  # noqa: PLC0415
    from uncork.report.html import page as html  # noqa: PLC0415
    from uncork.report.terminal.comparison import comparison_text  # noqa: PLC0415
    from uncork.report.terminal.text import detect_style  # noqa: PLC0415

    files = (options.file, options.other)
    plans = [_shown(_read(path), options) for path in files]
    for path, plan in zip(files, plans, strict=True):
        if not isinstance(plan, Plan):
            raise WrongUse(f"{path} is not a plan", "two plans", f"uncork report {path}")
    first, second = (plan for plan in plans if isinstance(plan, Plan))
    names = [path.name if options.confidential else str(path) for path in files]
    found = compare_plans(first, second, (names[0], names[1]))
    style = detect_style(sys.stdout, shutil.get_terminal_size((100, 40)).columns)
    print(comparison_text(found, *style))
    if options.html:
        _save_html(options, html.comparison_html(found).encode(), *files)
        print(f"report: {options.html}")
    return exit_codes.DONE


def _save_html(options: argparse.Namespace, text: bytes, *files: Path) -> None:
    _check_target(options.html, named="--html")
    for file in files:
        _check_apart(options.html, file, named="--html")
    _save(options.html, text, named="--html")


def _progress(options: argparse.Namespace) -> Progress:
    title = f"starting {Path(options.script).name}"
    return Progress(quiet=options.quiet, verbose=options.verbose, title=title)


def _logged(script: Script, report: Path, options: argparse.Namespace) -> Script:
    """With a log of TensorFlow beside the report, which is kept where something fails."""
    return dataclasses.replace(script, log=WorkerLog(report.parent, options.verbose))


def _script(options: argparse.Namespace) -> Script:
    """Check the script, or find the module's file, before anything is started.

    Raises:
        WrongUse: It is not there.
    """
    if options.module:
        return Script(find_module_file(options.module), tuple(options.args), options.module)
    path = Path(options.script)
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "missing"
        raise WrongUse(f"the script '{path}' is {kind}", "a Python file", "check the path")
    return Script(options.script, tuple(options.args))


def _save_diagnosis(found: Diagnosis, options: argparse.Namespace) -> None:
    found = _shown(found, options)
    text = _json(found)
    for path in _json_paths(options):
        _save(path, text)
    _save(options.report, _html(found, options.report))


def _json_paths(options: argparse.Namespace) -> list[Path]:
    given = (options.report.with_suffix(".json"), options.json)
    return [path for path in given if path and path != PRINTED]


def _shown(record: R, options: argparse.Namespace) -> R:
    """What goes into files that are handed on; a plan file itself stays as it was proved."""
    return redact(record) if options.confidential else record


def _save(path: Path, content: bytes, named: str = _PLACES) -> None:
    """Write a result, or say why not."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise unwritable_error(path, error, named) from error


def _check_target(
    path: Path, kind: type[Diagnosis | Plan] | None = None, named: str = _PLACES
) -> None:
    """Refuse a place for results that cannot take them, before minutes are spent.

    Args:
        path: Where a result will go; an earlier one is replaced.
        kind: What an earlier one must be, so that nothing else is overwritten; a report if None.
        named: Options that name another place.

    Raises:
        WrongUse: It is no file, cannot be written, or holds something else.
    """
    if path.exists() and not path.is_file():
        raise WrongUse(f"{path} is not a file", "a file name", "name another place")
    check_writable(path, named)
    if path.exists() and not (_holds(path, kind) if kind else _is_report(path)):
        what = kind.__name__.lower() if kind else "report written by Uncork"
        raise WrongUse(
            f"{path} exists and is not a {what}",
            f"a new file, or an earlier {what} to replace",
            "name another file",
        )


def _folder(named: str) -> str:
    """The absolute path of a folder for files; nothing where none is named.

    Raises:
        WrongUse: No files can be kept there.
    """
    if not named:
        return ""
    path = os.path.abspath(named)  # noqa: PTH100 - symbolic links stay as they are
    refused = folder_name_refusal(path)
    if refused:
        raise WrongUse(f"--disk-cache {path!r}: {refused}", "another folder", "name another one")
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise WrongUse(
            f"cannot write files in {path}: {error.strerror}",
            "a folder that exists, with permission to write",
            f"mkdir -p {shlex.quote(path)}, or name another one",
        ) from error
    return path


def _check_apart(report: Path, other: Path, named: str = "--report") -> None:
    """Refuse one place for two results."""
    if report.resolve() == other.resolve():
        raise WrongUse(
            f"{report} is both the report and the file of its figures",
            "two files",
            f"choose another place with {named}, report.html say",
        )


def _is_report(path: Path) -> bool:
    try:
        return path.stat().st_size == 0 or _MASTHEAD in path.read_bytes()
    except OSError:
        return False


def _holds(path: Path, kind: type[Diagnosis | Plan]) -> bool:
    """It was written as one, by whichever version."""
    try:
        return _is(path.read_bytes(), kind)
    except OSError:
        return False


def _is(text: bytes, kind: type[Diagnosis | Plan]) -> bool:
    try:
        found = msgspec.json.decode(text)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= _MARKS[kind]


def _read(path: Path) -> Diagnosis | Plan:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise WrongUse(
            f"cannot read {path}: {error.strerror}", "a saved diagnosis.json or plan.json"
        ) from None
    return (
        diagnosis.parse_diagnosis(text, str(path))
        if _is(text, Diagnosis)
        else parse_plan(text, str(path))
    )


def _present(
    record: Diagnosis | Plan,
    options: argparse.Namespace,
    path: Path = Path("plan.json"),
) -> None:
    """Print a result: as text, or as JSON where that was asked for."""
    if options.json == PRINTED:
        sys.stdout.write(f"{_json(_shown(record, options)).decode()}\n")
    else:
        _print(record, path, options.verbose)


def _print(record: Diagnosis | Plan, path: Path, verbose: bool = False) -> None:
    """The verdict, or the whole page."""
    from uncork.report.terminal import page, text, verdict  # noqa: PLC0415

    columns = shutil.get_terminal_size((100, 40)).columns
    style = text.detect_style(sys.stdout, columns)
    if isinstance(record, Plan):
        of_plan = page.plan_text if verbose else verdict.plan_verdict_text
        print(of_plan(record, *style, path=str(path)), end="")
    else:
        of_diagnosis = page.diagnosis_text if verbose else verdict.diagnosis_verdict_text
        print(of_diagnosis(record, *style), end="")


def _print_files(files: Mapping[str, object], options: argparse.Namespace) -> None:
    if options.json != PRINTED:
        print("".join(f"{name}: {path}\n" for name, path in files.items() if path), end="")


def _json(record: Diagnosis | Plan) -> bytes:
    return serialize_plan(record) if isinstance(record, Plan) else to_json(record)


def _html(record: Diagnosis | Plan, path: Path) -> bytes:
    from uncork.report.html import page as html  # noqa: PLC0415

    if isinstance(record, Plan):
        return html.plan_html(record, str(path)).encode()
    return html.diagnosis_html(record).encode()
