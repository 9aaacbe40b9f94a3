"""A second tuning of the same command starts from the plan that the first one made."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from uncork.core.base.errors import UncorkError
from uncork.core.base.journal import Event
from uncork.core.base.record import replace
from uncork.core.documents.job import ConfirmJob
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import load_plan
from uncork.engine.commands.plan_checks import plan_changes
from uncork.engine.process.job_folder import temporary_folder, write_plan
from uncork.engine.process.worker_process import EventHandler, Script, run_quiet_worker

# Files of Python beside the script that are looked at; of more nobody can tell.
_MOST_FILES: Final = 10_000
# Of the first epoch: enough to warm up.
_FIRST_EPOCH_S: Final = 4.0


def find_known_plan(
    path: Path, script: Script, policy: Policy, training: int | None = None
) -> Plan | None:
    """An earlier plan of the same tuning; None where there is none.

    It was made for the same text of the script, the same arguments, training, policy (its budget
    aside), machine and versions, and fresh processes confirmed it. No file of Python below the
    script's folder was written since: the script may import it.

    Args:
        path: Where it would lie.
        script: What is to be tuned.
        policy: What may be done.
        training: Index of the training call; the first that does real work unless given.
    """
    try:
        plan = load_plan(path)
    except UncorkError:
        return None
    is_same = (
        plan.script_digest
        and not plan_changes(plan, script)
        and replace(plan.policy, budget_s=policy.budget_s) == policy
        and training in (None, plan.before.workload.index)
        and not _has_newer_code(path, Path(script.path).parent)
    )
    is_confirmed = plan.speedup.verdict == "faster" and plan.speedup.n_processes > 0
    return plan if is_same and is_confirmed else None


def _has_newer_code(plan: Path, folder: Path) -> bool:
    """A module of the script may have changed since the plan was written."""
    with suppress(OSError):
        written = plan.stat().st_mtime
        files = list(islice(_python_files(folder), _MOST_FILES))
        return len(files) == _MOST_FILES or any(f.stat().st_mtime > written for f in files)
    return True


def _python_files(folder: Path) -> Iterator[Path]:
    """Below a folder, without hidden folders and virtual environments."""
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not (here / name / "pyvenv.cfg").exists()
        ]
        yield from (here / name for name in names if name.endswith(".py"))


def still_holds(plan: Plan, script: Script, on_event: EventHandler) -> bool:
    """Run the script with the plan in one fresh process: it applies, and is as fast as it was.

    As fast means nearer, by ratio, to the speed with the plan than to the speed without it.
    """
    text = f"{plan.script} was tuned before: running it with its plan"
    on_event(Event(kind="phase", text=text, is_milestone=True))
    try:
        with temporary_folder() as folder:
            job = ConfirmJob(
                training_index=plan.before.workload.index,
                is_fit_in_loop=plan.before.workload.is_fit_in_loop,
                plan_path=write_plan(plan, Path(folder, "plan.json")),
                environment=plan.environment,
                max_first_epoch_s=_FIRST_EPOCH_S,
                has_ceiling=False,
            )
            found = run_quiet_worker(job, script).confirmation
    except UncorkError as error:
        on_event(Event(kind="phase", text=f"tuning again: {error.received}", is_milestone=True))
        return False
    assert found is not None
    speed, was = found.measurement.samples_per_s, plan.tuned.samples_per_s
    holds = speed > math.sqrt(plan.baseline.samples_per_s * was)
    then = "the plan still holds; --again tunes from the beginning" if holds else "tuning again"
    text = f"with the plan: {speed:,.0f} samples/s, {was:,.0f} when it was tuned; {then}"
    on_event(Event(kind="phase", text=text, is_milestone=True))
    return holds
