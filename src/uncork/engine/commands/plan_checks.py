"""Is a plan for this command, on this machine? Decided before the script starts."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from uncork.core.base.errors import PlanRefused, WrongUse
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.base.script import script_digest
from uncork.core.documents.plan import Plan
from uncork.engine.process.worker_process import Script
from uncork.pycode.frames.stack import printable_path

_PLAN_NAME: Final = "plan.json"
# Of the packages that hold TensorFlow one is installed, or another build, which says so later.
_TENSORFLOW: Final = ("tensorflow", "tensorflow-cpu", "tensorflow-macos")
# A release as TensorFlow and Keras write it themselves, too: no build, no candidate for a release.
_RELEASE: Final = re.compile(r"\d+(\.\d+)*")


def refuse_unnamed_plan(script: Script) -> None:
    """A plan that was made and is not named was forgotten, or is meant to be left out: who knows.

    Args:
        script: What is to run without a plan.

    Raises:
        WrongUse: A plan for this script lies beside it, or in the working folder.
    """
    for folder in dict.fromkeys((Path(), Path(script.path).parent)):
        path = folder / _PLAN_NAME
        if _is_for(path, script):
            raise WrongUse(
                f"{path} is a plan for {Path(script.path).name}, and the command names no plan",
                "--plan FILE to train with a plan, or --no-plan to train without",
                f"{run_command(script, '--plan', str(path))}, or "
                f"{run_command(script, '--no-plan')}",
            )


def check_plan(plan: Plan, path: Path, script: Script, *, allow_partial: bool) -> None:
    """Refuse a plan that was made for something else, before anything of the script runs.

    Args:
        plan: That was named.
        path: Where it lies.
        script: What is to run.
        allow_partial: Say what does not fit, and go on. Of the machine it is said at the training.

    Raises:
        PlanRefused: It was made for another script, another text of it, other arguments, another
            machine or another release of what it runs on.
    """
    if allow_partial:
        changed = _command_changes(plan, script)
        sys.stderr.write("".join(f"uncork: {path} may not fit: {each}\n" for each in changed))
        return
    changed = plan_changes(plan, script)
    if changed:
        again = shlex.join(["uncork", "tune", *script.words])
        raise PlanRefused(
            f"{path} does not fit, and nothing was run:" + "".join(f"\n    {c}" for c in changed),
            "the script, its arguments, the machine and the versions of the tuning",
            f"{again} makes a plan for this command; "
            f"{run_command(script, '--allow-partial', '--plan', str(path))} applies what "
            "still fits",
        )


def plan_changes(plan: Plan, script: Script) -> tuple[str, ...]:
    """What is another one now than when the plan was made, as far as is known before a start."""
    here = plan.machine.changes_to(_host(), with_devices=False)
    return (*_command_changes(plan, script), *here)


def run_command(script: Script, *options: str) -> str:
    """What to type to run a script so."""
    return shlex.join(["uncork", "run", *options, *script.words])


def _command_changes(plan: Plan, script: Script) -> tuple[str, ...]:
    """Of a plan from Python nothing is known of a command."""
    if not plan.script_digest:
        return ()
    changed, named = [], Path(plan.script).name
    if plan.script_digest != script_digest(script.path):
        changed.append(
            f"script: {script.path} has been edited since the tuning"
            if named == printable_path(Path(script.path).name)
            else f"script: the plan is for {plan.script}, the command runs {script.path}"
        )
    arguments = tuple(map(printable_path, script.args))
    if plan.arguments != arguments:
        was, now = (shlex.join(each) or "none" for each in (plan.arguments, arguments))
        changed.append(f"arguments: the plan was tuned with {was}, the command has {now}")
    return tuple(changed)


def _host() -> Machine:
    """As far as it is known without TensorFlow: what it says of itself is compared later."""
    # Imported here: without a plan nobody waits for it.
    from uncork.measure.machine.probe import probe_host  # noqa: PLC0415

    tensorflow = next(filter(None, map(_release, _TENSORFLOW)), "")
    return replace(probe_host(), tensorflow=tensorflow, keras=_release("keras"))


def _release(package: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version(package)
        return version if _RELEASE.fullmatch(version) else ""
    return ""


class _PlanMarks(msgspec.Struct):
    """What a plan of any schema says of its script."""

    script: str
    script_digest: str
    steps: list[msgspec.Raw]
    working_folder: str = ""


def _is_for(path: Path, script: Script) -> bool:
    try:
        marks = msgspec.json.decode(path.read_bytes(), type=_PlanMarks)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return False
    if marks.script_digest and marks.script_digest == script_digest(script.path):
        return True
    tuned = Path(marks.working_folder, marks.script)
    if marks.working_folder:
        with suppress(OSError):  # it was moved since, or comes from another machine
            return tuned.samefile(script.path)
    return tuned.name == printable_path(Path(script.path).name)
