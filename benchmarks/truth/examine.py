"""One workload, examined: what Uncork says of it, and what it does about it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.truth.catalog import Workload
from benchmarks.truth.plain import SHOWN_EPOCHS, Effect, Plain, effect, ratio
from benchmarks.truth.processes import run
from uncork.core.base.record import Record, from_json, replace
from uncork.core.documents.diagnosis import Diagnosis, WorkloadDiagnosis
from uncork.core.documents.job import JobResult
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import parse_plan
from uncork.engine.commands.tune import create_plan

_DIAGNOSE_S: Final = 6
# As users tune who say nothing of the time: that, and the confirmation that goes beyond it.
_TUNE_S: Final = Policy().budget_s
_LONGEST_TUNING_S: Final = 900
_UNCORK: Final = (sys.executable, "-m", "uncork")
# Plain runs before a change is put down to us: some scripts print another loss in one run of five.
_AGAIN: Final = 8
PENDING: Final = "not run yet"


class Named(Record, frozen=True, kw_only=True):
    """A finding, as far as it is judged.

    Attributes:
        cause: As named.
        line: The number of the line to blame; None when none is.
        gain: The most that it promises.
    """

    cause: str
    line: int | None
    gain: float


class Tried(Record, frozen=True, kw_only=True):
    """A step of the road that was tried.

    Attributes:
        name: Of the optimization.
        outcome: ``kept``, ``rejected`` or ``failed``.
        reason: Why.
        predicted: Before it was tried; None where nothing told.
        measured: None where it was given up before.
        proved: Whether its proof passed; None where it was not asked.
    """

    name: str
    outcome: str
    reason: str
    predicted: float | None
    measured: float | None
    proved: bool | None


class Tuned(Record, frozen=True, kw_only=True):
    """What ``uncork tune`` made of it.

    Attributes:
        gain: In fresh processes.
        low: Of its interval.
        steps: Those that were tried.
        wall_s: What the tuning took.
    """

    gain: float
    low: float
    steps: tuple[Tried, ...]
    wall_s: float


class Examined(Record, frozen=True, kw_only=True):
    """All that is known of one workload.

    Attributes:
        name: ``layer/cause/style``.
        layer: Of the bottleneck.
        cause: Of the bottleneck.
        bottleneck_lines: Lines to blame.
        epochs: What the script trains when it is not told.
        slow_s: Seconds of a short training.
        fixed_s: The same of the expert's version.
        slow_epoch_s: Seconds of later epochs.
        fixed_epoch_s: The same of the expert's version.
        slow_whole_s: Seconds of the training as long as the script makes it, where epochs differ.
        fixed_whole_s: The same of the expert's version.
        plain: What the script does in plain Python.
        captured: What ``uncork run`` with an empty plan changed of that; ``""`` when nothing, None
            when plain Python does not repeat itself, ``PENDING`` until :func:`capture`.
        findings: In the order given.
        unexplained: Share of a step that the diagnosis has no name for; None where there is none.
        tuned: None when it was not tuned.
        errors: What went wrong with the examination itself.
        wall_s: What all of it took.
    """

    name: str
    layer: str
    cause: str
    bottleneck_lines: tuple[int, ...]
    epochs: int = SHOWN_EPOCHS
    slow_s: tuple[float, ...] = ()
    fixed_s: tuple[float, ...] = ()
    slow_epoch_s: tuple[float, ...] = ()
    fixed_epoch_s: tuple[float, ...] = ()
    slow_whole_s: tuple[float, ...] = ()
    fixed_whole_s: tuple[float, ...] = ()
    plain: Effect | None = None
    captured: str | None = PENDING
    findings: tuple[Named, ...] = ()
    unexplained: float | None = None
    tuned: Tuned | None = None
    errors: tuple[str, ...] = ()
    wall_s: float = 0.0

    @property
    def fix(self) -> float | None:
        """How many times faster the expert's version trains: all epochs that the script would.

        Start and compilation count once, and later epochs as often as there are. A short training
        alone would judge a script of 50 epochs by its first. Where epochs differ, all are run.
        """
        return ratio(self.slow_whole_s, self.fixed_whole_s) or ratio(
            self._whole_s(self.slow_s, self.slow_epoch_s),
            self._whole_s(self.fixed_s, self.fixed_epoch_s),
        )

    @property
    def fix_steady(self) -> float | None:
        """The same from epoch to epoch, the first one left out; None where not known.

        Where epochs differ, all of them count.
        """
        if self.slow_whole_s and self.fixed_whole_s:
            return self.fix
        return ratio(self.slow_epoch_s, self.fixed_epoch_s)

    def _whole_s(self, runs: tuple[float, ...], later: tuple[float, ...]) -> tuple[float, ...]:
        if not (self.slow_epoch_s and self.fixed_epoch_s):
            return runs
        further = (self.epochs - SHOWN_EPOCHS) * min(later)
        return tuple(run + further for run in runs)


def examine(
    workload: Workload, plain: Plain, data: Path, work: Path, *, tune: bool
) -> tuple[Examined, Plan | None]:
    """Diagnose or tune the script.

    Args:
        workload: Which one.
        plain: What it and its fix do without Uncork.
        data: The directory that ``tests/workloads/data.py`` wrote.
        work: Where the processes may leave their files.
        tune: Whether to tune; a tuning begins with a diagnosis.

    Returns:
        What was found, and an empty plan for :func:`capture`; None where Uncork failed.
    """
    begin = time.perf_counter()
    errors = list(plain.errors)
    if tune:
        plan = _tuned(workload, data, work, errors)
        result = JobResult(machine=plan.machine, before=plan.before) if plan else None
    else:
        plan = None
        result = _diagnosed(workload, data, work, errors)
    found = Examined(
        name=workload.name,
        layer=workload.layer,
        cause=workload.cause,
        bottleneck_lines=workload.bottleneck_lines,
        epochs=workload.epochs,
        slow_s=plain.slow_s,
        fixed_s=plain.fixed_s,
        slow_epoch_s=plain.slow_epoch_s,
        fixed_epoch_s=plain.fixed_epoch_s,
        slow_whole_s=plain.slow_whole_s,
        fixed_whole_s=plain.fixed_whole_s,
        plain=plain.effect,
        findings=tuple(_named(result.before)) if result and result.before else (),
        unexplained=result.before.breakdown.get("unknown") if result and result.before else None,
        tuned=_what_tuning_made(plan) if plan else None,
        errors=tuple(errors),
        wall_s=plain.wall_s + time.perf_counter() - begin,
    )
    return found, create_plan(result, str(workload.script), Policy()) if result else None


def capture(workload: Workload, found: Examined, plan: Path, data: Path, work: Path) -> Examined:
    """Under an empty plan the script must do what it does in plain Python; nothing is timed."""
    begin = time.perf_counter()
    script = (workload.script, data, "--epochs", SHOWN_EPOCHS)
    ours = effect(run([*_UNCORK, "run", "--allow-partial", "--plan", plan, *script], work / "run"))
    changed: str | None = ", ".join(_differences(found.plain, ours))
    if changed:
        again = (effect(run([sys.executable, *script], work / f"again-{n}")) for n in range(_AGAIN))
        changed = None if any(other != found.plain for other in again) else changed
    return replace(found, captured=changed, wall_s=found.wall_s + time.perf_counter() - begin)


def _diagnosed(workload: Workload, data: Path, work: Path, errors: list[str]) -> JobResult | None:
    options = ("--json", "found.json", "--report", "found.html", "--budget", _DIAGNOSE_S, "--quiet")
    done = run([*_UNCORK, "diagnose", *options, workload.script, data], work / "diagnose")
    file = work / "diagnose" / "found.json"
    if done.exit_code != 0 or not file.exists():
        errors.append(f"diagnose: exit code {done.exit_code}: {done.errors}")
        return None
    diagnosis = from_json(file.read_bytes(), Diagnosis)
    return JobResult(machine=diagnosis.machine, before=diagnosis.workloads[0])


def _differences(one: Effect | None, other: Effect) -> Iterator[str]:
    for part in Effect.__struct_fields__:
        if getattr(one, part, None) != getattr(other, part):
            yield part.replace("_", " ")


def _tuned(workload: Workload, data: Path, work: Path, errors: list[str]) -> Plan | None:
    options = ("--budget", _TUNE_S, "--plan", "plan.json", "--report", "plan.html", "--quiet")
    done = run(
        [*_UNCORK, "tune", *options, workload.script, data],
        work / "tune",
        limit_s=_LONGEST_TUNING_S,
    )
    file = work / "tune" / "plan.json"
    if done.exit_code != 0 or not file.exists():
        errors.append(f"tune: exit code {done.exit_code}: {done.errors}")
        return None
    return parse_plan(file.read_bytes())


def _what_tuning_made(plan: Plan) -> Tuned:
    return Tuned(
        gain=plan.speedup.ratio if plan.accepted_steps else 1.0,
        low=plan.speedup.low if plan.accepted_steps else 1.0,
        steps=tuple(_tried(plan)),
        wall_s=plan.tuning_cost_s,
    )


def _tried(plan: Plan) -> Iterator[Tried]:
    for step in plan.steps:
        if step.outcome != "skipped":
            yield Tried(
                name=step.name,
                outcome=step.outcome,
                reason=step.reason,
                predicted=step.predicted,
                measured=step.measured.ratio if step.measured else None,
                proved=step.proof.passed if step.proof else None,
            )


def _named(diagnosis: WorkloadDiagnosis) -> Iterator[Named]:
    for finding in diagnosis.findings:
        _, _, line = (finding.at or "").rpartition(":")
        number = int(line) if line.isdigit() else None
        yield Named(cause=finding.cause, line=number, gain=finding.upper_bound)
