"""One loop: diagnosed, tuned, and trained with and without its plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.loops.losses import apart, printed
from benchmarks.loops.scripts import Loop
from benchmarks.truth.processes import run
from uncork.core.base.record import Record, replace
from uncork.core.documents.plan import Plan, Speedup
from uncork.core.documents.plan_file import parse_plan, serialize_plan

_UNCORK: Final = (sys.executable, "-m", "uncork")
_EPOCHS: Final = 3
# Of its budget, after which a tuning is given up.
_LONGEST: Final = 4


class Examined(Record, frozen=True, kw_only=True):
    """What became of one script.

    Attributes:
        name: Its style.
        cause: What slows it down.
        line: The line to blame.
        named: Findings in the order given, as ``cause:line``.
        kept: Steps in force, as ``name (guarantee)``.
        speedup: In fresh processes; None where no step was kept.
        losses: Those that plain Python prints.
        repeats: Largest relative difference of another plain run to them.
        planned: Largest relative difference of a run under the plan to them; infinite where that
            printed more or fewer.
        errors: What went wrong.
    """

    name: str
    cause: str
    line: int
    named: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    speedup: Speedup | None = None
    losses: tuple[float, ...] = ()
    repeats: float | None = None
    planned: float | None = None
    errors: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """The cause and its line were named first."""
        return self.named[:1] == (f"{self.cause}:{self.line}",)


def examine(loop: Loop, data: Path, work: Path, *, budget_s: float) -> Examined:
    """Tune the script, then train for a few epochs.

    Args:
        loop: Which one.
        data: What ``tests/workloads/data.py`` wrote.
        work: Where the processes may leave their files.
        budget_s: For the tuning.
    """
    errors: list[str] = []
    plan = _tuned(loop, data, work / "tune", budget_s, errors)
    script = (loop.script, data, "--epochs", _EPOCHS)
    losses, again = (_losses([sys.executable, *script], work / n, errors) for n in ("a", "b"))
    under: tuple[float, ...] = ()
    if plan:
        # It is tuned for as many epochs as that takes, and run for fewer.
        file = work / "tune" / "run.json"
        file.write_bytes(serialize_plan(replace(plan, arguments=tuple(map(str, script[1:])))))
        command = [*_UNCORK, "run", "--plan", file, *script]
        under = _losses(command, work / "planned", errors)
    return Examined(
        name=loop.name,
        cause=loop.cause,
        line=loop.line,
        named=tuple(_named(plan)) if plan else (),
        kept=tuple(f"{step.name} ({step.guarantee})" for step in plan.accepted_steps)
        if plan
        else (),
        speedup=plan.speedup if plan and plan.accepted_steps else None,
        losses=losses,
        repeats=apart(losses, again),
        planned=apart(losses, under) if plan else None,
        errors=tuple(errors),
    )


def _tuned(loop: Loop, data: Path, work: Path, budget_s: float, errors: list[str]) -> Plan | None:
    options = ("--budget", budget_s, "--plan", "plan.json", "--report", "plan.html", "--quiet")
    command = [*_UNCORK, "tune", *options, loop.script, data]
    done = run(command, work, limit_s=_LONGEST * budget_s)
    file = work / "plan.json"
    if done.exit_code != 0 or not file.exists():
        errors.append(f"tune: exit code {done.exit_code}: {done.errors}")
        return None
    return parse_plan(file.read_bytes())


def _losses(command: list[object], work: Path, errors: list[str]) -> tuple[float, ...]:
    done = run(command, work)
    if done.exit_code != 0:
        errors.append(f"{work.name}: exit code {done.exit_code}: {done.errors}")
    return printed(done.lines)


def _named(plan: Plan) -> Iterator[str]:
    for finding in plan.before.findings:
        _, _, line = (finding.at or "").rpartition(":")
        yield f"{finding.cause}:{line}" if line else finding.cause
