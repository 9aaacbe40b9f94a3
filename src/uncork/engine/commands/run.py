"""``uncork run``: the script runs whole, in this process, as ``python SCRIPT`` would run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from uncork.capture.base.deferred_listener import DeferredListener
from uncork.capture.base.listener import PassThroughListener
from uncork.capture.script import print_traceback, run_script
from uncork.compat.versions import require_tensorflow
from uncork.core.base import exit_codes
from uncork.core.base.errors import PlanRefused, ScriptFailed
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import load_plan
from uncork.engine.commands.plan_checks import check_plan, refuse_unnamed_plan
from uncork.engine.process.worker_process import Script

if TYPE_CHECKING:
    from uncork.engine.apply.plan_listener import PlanListener


def run(
    script: Script, plan: Path | None, *, without_plan: bool = False, allow_partial: bool = False
) -> int:
    """Run the script to its end, with a plan in force if one is named.

    The process is the script's from here on: its signals, its terminal, its exit code.

    Args:
        script: What to run.
        plan: Where the plan lies.
        without_plan: It runs as written, although a plan for it may lie there.
        allow_partial: Of a plan that does not fit, what does is put in force; otherwise such a plan
            ends the script before it trains.

    Returns:
        The exit code of a script that did not choose one itself.

    Raises:
        WrongUse: No plan is named, and there is one.
        PlanRefused: The plan cannot be used, whatever the script; or it does not fit.
        ScriptFailed: The script raised; its traceback has been printed.
        SystemExit: The script called ``sys.exit``.
    """
    loaded = None
    if plan is not None:
        loaded = load_plan(plan)
        check_plan(loaded, plan, script, allow_partial=allow_partial)
    elif not without_plan:
        refuse_unnamed_plan(script)
    try:
        if loaded is None or not loaded.edits:
            _unhooked(script)
        else:
            _planned(script, loaded, strict=not allow_partial)
    except KeyboardInterrupt as interrupt:
        print_traceback(interrupt)
        return exit_codes.INTERRUPTED
    return exit_codes.DONE


def _unhooked(script: Script) -> None:
    """Without edits there is nothing to listen for."""
    idle = PassThroughListener()
    idle.wants_loops = idle.refuses_foreign = False
    run_script(Path(script.path), script.args, idle, module=script.module)


def _planned(script: Script, plan: Plan, *, strict: bool) -> None:
    require_tensorflow()
    _enter(plan)
    # Loops are watched whatever the plan is for: they are numbered with the fits, as in a tuning.
    running = DeferredListener(
        lambda: _running(plan, strict=strict),
        source_lines=False,
        loops=True,
        refuses_foreign=False,
        accepts_jax=plan.backend is not None,
    )
    try:
        run_script(
            Path(script.path),
            script.args,
            running,
            outline=plan.is_code_specific,
            module=script.module,
        )
    except PlanRefused as refusal:
        raise _with_way_on(refusal, plan) from refusal
    except SystemExit as ending:
        if ending.code not in (0, None):
            raise
    except ScriptFailed as failure:
        _rescue(running.created_listener)
        if running.created_listener is not None:
            _tell_of_files(plan, failure)
        raise
    if running.created_listener is None or not running.created_listener.is_settled:
        _not_met(plan, strict=strict)


def _with_way_on(refusal: PlanRefused, plan: Plan) -> PlanRefused:
    """On another backend there is none: the script would not train as written."""
    way_on = "" if plan.backend else ", or apply only what still fits: uncork run --allow-partial"
    return PlanRefused(refusal.received, refusal.expected, refusal.remedy + way_on)


def _enter(plan: Plan) -> None:
    """Set what the script's process is to be started with; nothing of it has begun.

    Raises:
        PlanRefused: The user has set it otherwise, or there is no JAX.
    """
    # Imported here: without a plan nobody waits for them.
    from uncork.measure.machine.allocator import allocator, keep_freed_memory  # noqa: PLC0415
    from uncork.measure.machine.probe import jax_version  # noqa: PLC0415

    for name, value in plan.environment.items():
        if os.environ.get(name, value) != value:
            raise PlanRefused(
                f"{name} is set to {os.environ[name]!r}, the plan needs {value!r}",
                "the value that the plan needs, or none",
                f"unset {name}, or tune again with this value",
            )
    if plan.backend and jax_version() != plan.backend.backend_version:
        raise PlanRefused(
            f"JAX is {jax_version() or 'not installed'} in this environment ({sys.prefix})",
            f"JAX {plan.backend.backend_version}, as when the plan was proven",
            f"pip install jax=={plan.backend.backend_version}, or tune again",
        )
    if plan.keeps_freed_memory and not keep_freed_memory():
        whose = allocator() or "unknown"
        raise PlanRefused(
            f"the allocator of this process is {whose}",
            "glibc's with its default settings, which the plan changes to keep freed memory",
            "unset MALLOC_... and LD_PRELOAD, or tune again with them",
        )
    os.environ.update(plan.environment)


def _running(plan: Plan, *, strict: bool) -> PlanListener:
    from uncork.engine.apply.plan_listener import PlanListener  # noqa: PLC0415

    made = PlanListener(plan, strict=strict, whole_process=True)
    made.check_machine()  # what was not known before the script has imported TensorFlow
    return made


def _rescue(running: PlanListener | None) -> None:
    """What fails after a training need not have failed where the script was written for."""
    saved = running.rescue(Path.cwd()) if running else None
    if saved is not None:
        sys.stderr.write(
            "uncork: the script failed after its training, which ran on Keras's other backend: "
            f"the trained weights are in {saved}: model.load_weights reads them on any\n"
        )


def _tell_of_files(plan: Plan, failure: ScriptFailed) -> None:
    from uncork.engine.apply.disk_cache_space import disk_cache_error_hint  # noqa: PLC0415

    told = disk_cache_error_hint(plan, failure.__cause__)
    if told:
        sys.stderr.write(f"uncork: {told}\n")


def _not_met(plan: Plan, *, strict: bool) -> None:
    refusal = PlanRefused(
        "the plan was not applied, or not completely: its training at "
        f"{plan.before.workload.at} was not reached",
        "a script that reaches the training that was tuned",
        "run 'uncork tune' again if the script changed",
    )
    if strict:
        raise refusal
    sys.stderr.write(f"uncork: {refusal}\n")
