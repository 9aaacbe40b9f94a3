"""``uncork diff``: print a patch, and say what is not in it."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from uncork.cli.output_files import check_writable, unwritable_error
from uncork.core.base import exit_codes
from uncork.core.base.errors import PatchRefused, WrongUse
from uncork.core.base.record import write_atomically
from uncork.core.base.script import script_words
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import parse_plan
from uncork.engine.commands import diff as patches
from uncork.engine.process.worker_process import Script
from uncork.report.terminal.progress import Progress

if TYPE_CHECKING:
    from uncork.codemod.syntax.patch import Patch


_BEGIN: Final = b"--- "


def diff(options: argparse.Namespace) -> int:
    """The patch goes to standard output or into a file; what is to be said of it, beside it."""
    options.file = Path(options.file)
    _check_target(options.output)
    if options.args and not options.check:
        raise WrongUse(
            f"{shlex.join(options.args)} after {options.file}",
            "options before the file; with --check, the script's arguments after it",
            f"uncork diff --output FILE {shlex.quote(str(options.file))}, or "
            f"uncork diff --check {shlex.quote(str(options.file))} ARGS",
        )
    plan = _plan_in(options.file)
    check: patches.PatchCheck | None = None
    if plan is None:
        if options.check:
            raise WrongUse(
                f"--check with {options.file}, which is not a plan",
                "a plan written by 'uncork tune', to compare the patched script with",
                f"uncork diff {shlex.quote(str(options.file))}",
            )
        patch = patches.patch_from_script(options.file)
    else:
        patch = patches.patch_from_plan(plan)
        if options.check and patch.included:
            patch, check = _checked(patch, plan, options)
    _hand_out(patch, options.output)
    told = _of_plan(plan, patch, options, check) if plan else _of_script(patch, options.output)
    if not options.quiet:
        sys.stderr.write("".join(f"uncork: {line}\n" for line in told))
    return exit_codes.DONE


def _checked(
    patch: Patch, plan: Plan, options: argparse.Namespace
) -> tuple[Patch, patches.PatchCheck]:
    """The patch, or one that leaves the script's functions whole where cutting them goes wrong."""
    script = Script(plan.script, _arguments(plan, options), plan.module)
    progress = Progress(quiet=options.quiet)
    try:
        return patch, patches.check_patch(patch, plan, script, progress)
    except PatchRefused:
        other = patches.patch_from_plan(plan, calls_uncork=True)
        if other.after == patch.after:
            raise
        return other, patches.check_patch(other, plan, script, progress)


def _plan_in(path: Path) -> Plan | None:
    """The plan that a file holds; None where it holds a script.

    Raises:
        WrongUse: It cannot be read.
        PlanRefused: It is a plan that cannot be used.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise WrongUse(
            f"cannot read {path}: {error.strerror}", "a saved plan.json, or a script"
        ) from None
    is_json = path.suffix == ".json" or text.lstrip()[:1] == b"{"
    return parse_plan(text, str(path)) if is_json else None


def _hand_out(patch: Patch, output: Path | None) -> None:
    """Into its file; where that cannot be written, what took minutes to check is printed."""
    text = patch.diff(_shown(patch.path))
    if output is not None:
        try:
            write_atomically(output, text)
        except OSError as error:
            _print(text)
            raise unwritable_error(output, error, "--output") from error
    else:
        _print(text)


def _print(text: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.flush()


def _shown(path: str) -> str:
    """A path as ``patch -p0`` takes it: relative to the working directory, where it is below."""
    found = Path(path).parent.resolve() / Path(path).name
    try:
        return str(found.relative_to(Path.cwd()))
    except ValueError:
        return str(found)


def _arguments(plan: Plan, options: argparse.Namespace) -> tuple[str, ...]:
    """Those of the tuning, unless others follow the name of the plan."""
    return tuple(options.args) or plan.arguments


def _of_plan(
    plan: Plan, patch: Patch, options: argparse.Namespace, check: patches.PatchCheck | None
) -> list[str]:
    file = str(options.file)
    words = script_words(patch.path, plan.module, _arguments(plan, options))
    told = [f"not in the patch: {each.name}: {each.reason}" for each in patch.omitted]
    run = shlex.join(["uncork", "run", "--plan", file, *words])
    if not patch.included:
        if not patch.omitted:
            return ["the plan changes nothing, so there is nothing to patch"]
        return [*told, f"no step of the plan can be written into the script: train with {run}"]
    if patch.omitted:
        told.append(f"{run} applies these, too, to the script without the patch")
    told += patch.notes
    told.append(f"in the patch: {', '.join(patch.included)}")
    if patch.omitted:
        told.append(
            "Uncork proved and measured the plan with all of its optimizations. To measure only "
            f"those in the patch, apply it, then: {shlex.join(['uncork', 'tune', *words])}"
        )
    if check is not None:
        data = f"batches ({check.batch_count} digests)" if check.batch_count else "pipeline"
        told.append(f"checked: the patched script trains the same {data}, model and settings")
        told += (f"of {name}, Uncork checked only that it trains" for name in check.unseen)
    else:
        command = shlex.join(["uncork", "diff", "--check", file])
        told.append(f"not run yet: {command} compares it with the plan")
    return [*told, _apply(patch, options.output)]


def _of_script(patch: Patch, output: Path | None) -> list[str]:
    told = [f"not in the patch: {each.name}: {each.reason}" for each in patch.omitted]
    told += patch.included
    if not patch.included:
        return [*told, f"{patch.path} has nothing that a patch would bring to Keras 3"]
    return [*told, _apply(patch, output)]


def _apply(patch: Patch, output: Path | None) -> str:
    below = not Path(_shown(patch.path)).is_absolute()
    command = "patch -p0" if below else f"patch {shlex.quote(patch.path)}"
    given = f" < {shlex.quote(str(output))}" if output else ", with this patch on standard input,"
    return f"{command}{given} applies it"


def _check_target(output: Path | None) -> None:
    """Refuse to write over anything but an earlier patch.

    Raises:
        WrongUse: Something else is there, or it cannot be written.
    """
    if output is None:
        return
    check_writable(output, "--output")
    if output.exists() and not _is_patch(output):
        raise WrongUse(
            f"{output} exists and is not a patch",
            "a new file, or an earlier patch to replace",
            "name another file",
        )


def _is_patch(path: Path) -> bool:
    return path.is_file() and path.read_bytes()[: len(_BEGIN)] in (_BEGIN, b"")
