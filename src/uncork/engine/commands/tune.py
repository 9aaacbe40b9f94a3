"""The verbs that experiment, as a parent process that never loads TensorFlow calls them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from uncork.compat.versions import require_tensorflow
from uncork.core.base import exit_codes
from uncork.core.base.errors import quote
from uncork.core.base.journal import Event
from uncork.core.base.record import replace
from uncork.core.base.script import script_digest
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.job import JobResult, TuneJob
from uncork.core.documents.plan import Plan, Policy, Speedup
from uncork.engine.commands.confirm import confirm
from uncork.engine.commands.fresh_process import BACKEND_TRIAL, MEMORY_TRIAL, THREADS_TRIAL
from uncork.engine.commands.oom_retry import run_tuning
from uncork.engine.process.job_folder import temporary_folder
from uncork.engine.process.worker_process import EventHandler, Script
from uncork.pycode.frames.stack import printable_path
from uncork.rules.nondeterminism import nondeterminism_notes

# Files of a note; the others are counted.
_NAMED: Final = 5


def tune(
    script: Script,
    on_event: EventHandler,
    *,
    policy: Policy,
    training: int | None = None,
    is_budget_chosen: bool = True,
) -> tuple[Plan, int]:
    """Walk the road, then confirm the result in fresh processes.

    Args:
        script: What to run.
        on_event: Called with each event as it happens.
        policy: What may be done.
        training: Index of the training call; the first that does real work unless given.
        is_budget_chosen: By the user; otherwise the budget follows the training's length.

    Returns:
        The plan, and the exit code: where the tuning was interrupted, or the script failed, it
        holds what was found until then.
    """
    require_tensorflow()
    begin, text = time.monotonic(), script_digest(script.path)
    with temporary_folder() as folder:
        hand_over = str(Path(folder, "handed_over"))
        job = TuneJob(
            training_index=training,
            policy=policy,
            is_budget_chosen=is_budget_chosen,
            handover_path=hand_over,
        )
        result = run_tuning(job, script, on_event)
        policy = replace(policy, budget_s=result.budget_s or policy.budget_s)
        plan, interrupted = create_plan(result, script.path, policy), result.is_interrupted
        plan = replace(plan, **script.recorded_fields)
        if not (interrupted or result.has_script_failed):
            plan, interrupted = _elsewhere(plan, result, hand_over, script, on_event)
    if plan.accepted_steps and not (interrupted or result.has_script_failed):
        phase = f"confirming in fresh processes, {plan.baseline_description} and tuned interleaved"
        on_event(Event(kind="phase", text=phase, is_milestone=True))
        plan, interrupted = confirm(plan, script, on_event, imports_first=result.may_import_first)
    plan = _of_text(plan, text, script_digest(script.path))
    code = exit_codes.SCRIPT_FAILED if result.has_script_failed else exit_codes.DONE
    code = exit_codes.INTERRUPTED if interrupted else code
    return replace(plan, tuning_cost_s=time.monotonic() - begin), code


def _of_text(plan: Plan, text: str, now: str) -> Plan:
    """For the script as it was when it was tuned.

    Args:
        plan: Of which nobody knows which processes ran which text, if there were several.
        text: Digest of the script before the first of them.
        now: After the last.
    """
    if {plan.script_digest, now} != {text}:
        note = "the script was edited meanwhile: the plan is for its earlier text"
        unknown = replace(plan.speedup, verdict="not_proven", n_processes=0)
        plan = replace(plan, notes=(*plan.notes, note), speedup=unknown)
    return replace(plan, script_digest=text)


def _elsewhere(
    plan: Plan, result: JobResult, hand_over: str, script: Script, follow: EventHandler
) -> tuple[Plan, bool]:
    """What takes a process of its own; and whether it was interrupted, which loses nothing."""
    handed = hand_over if result.has_handover else None
    try:
        # Each is tried against all that is faster by then.
        for each in (MEMORY_TRIAL, THREADS_TRIAL, BACKEND_TRIAL):
            plan = each.extend_plan(plan, handed, script, follow)
        return plan, False
    except KeyboardInterrupt:
        note = "interrupted: the speed-up is not confirmed in fresh processes"
        return replace(plan, notes=(*plan.notes, note)), True


def create_plan(result: JobResult, script: str, policy: Policy) -> Plan:
    """A plan that is not confirmed yet, from what a tuning child found."""
    before = result.before
    assert before is not None
    tuned = result.after.measurement if result.after else before.measurement
    told_of = nondeterminism_notes(before)
    notes = (*_too_large(before), *told_of, *_notes(result))
    if result.has_script_failed:
        notes = (
            *notes,
            "the script failed: the plan contains only what was tried until then, unconfirmed",
        )
    if result.is_interrupted:
        notes = (
            *notes,
            "interrupted: the plan contains only what was tried until then, unconfirmed",
        )
    return Plan(
        script=printable_path(script),
        script_digest=script_digest(script),
        machine=result.machine,
        policy=policy,
        before=before,
        after=result.after,
        baseline=before.measurement,
        tuned=tuned,
        speedup=Speedup(ratio=1.0, low=0.0, high=None, verdict="not_proven", n_processes=0),
        tuning_cost_s=0.0,
        steps=result.steps,
        notes=notes,
    )


def _too_large(before: WorkloadDiagnosis) -> tuple[str, ...]:
    """What all figures of a plan are to be read with."""
    found = before.memory_overflow
    if found is None:
        return ()
    note = (
        f"the original training runs out of memory: all figures compare with it {found.description}"
    )
    return (note,)


def _notes(result: JobResult) -> tuple[str, ...]:
    # What is gone is told first, and whole: only here stands where copies are.
    gone = "the script overwrote these files, and Uncork could not restore them"
    lost = (f"{gone}: {', '.join(map(quote, result.lost_files))}",) if result.lost_files else ()
    told_of = {
        "the script saved to a temporary folder, which is gone": result.redirected_saves,
        "Uncork suppressed saves of the script": result.suppressed_saves,
        "the script created these files while its weights were those of "
        "trials": result.created_files,
        "the script overwrote these files, and Uncork restored them": result.restored_files,
    }
    notes = (f"{what}: {_several(names)}" for what, names in told_of.items() if names)
    return (*lost, *result.notes, *notes)


def _several(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(map(quote, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
