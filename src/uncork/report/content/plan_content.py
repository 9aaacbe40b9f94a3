"""What a report says about a plan: the optimizations, their proofs, and what was not accepted."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.measurement import is_open_interval
from uncork.core.base.record import Record
from uncork.core.documents.plan import Plan, PlanStep, Ratio, TimeToFinish
from uncork.core.edits.edit import Guarantee
from uncork.report.content.diagnosis_content import (
    StepTime,
    VerdictText,
    WorkloadInfo,
    machine_rows,
    step_time,
    workload_info,
)
from uncork.report.content.edit_text import GUARANTEE_TEXTS, describe_edit
from uncork.report.content.figures import finite_or_none, format_ratio, format_words
from uncork.report.content.plan_sentences import (
    confirmation_sentence,
    cost_sentence,
    finish_sentence,
    format_interval,
    is_proven,
    plan_command,
    plan_verdict,
    policy_sentence,
    validation_sentence,
)
from uncork.report.content.remedies import steps_for_findings

PointKind = Literal["baseline", "accepted", "rejected", "failed", "confirmed"]


class ChartPoint(Record, frozen=True, kw_only=True):
    """One column of the speed chart.

    Attributes:
        samples_per_s: Speed with this step in force; for a rejected one the speed it would have
            given, None if that was never measured.
        gain: Speed-up against the state before, as text, with its interval in ``interval``.
        predicted: The same as expected before trying, as text.
        low: Lower end of the 95 % interval of the speed, None if there is none.
        high: Its upper end.
        proof: What was checked; ``""`` when nothing was.
        is_proved: The proof held.
    """

    kind: PointKind
    label: str
    samples_per_s: float | None
    gain: str = ""
    interval: str = ""
    predicted: str = ""
    low: float | None = None
    high: float | None = None
    guarantee: Guarantee | None = None
    proof: str = ""
    is_proved: bool = False
    reason: str = ""


class SpeedChart(Record, frozen=True, kw_only=True):
    """The chart of the report: speed after each step, and the ceiling before and after."""

    points: tuple[ChartPoint, ...]
    ceiling_before: float | None
    ceiling: float | None


class OptimizationRow(Record, frozen=True, kw_only=True):
    """One optimization in the table of all; figures are text, ``""`` where there is none."""

    name: str
    stage: str
    outcome: str
    reason: str
    guarantee: Guarantee | None
    proof: str
    is_proved: bool
    predicted: str
    measured: str
    interval: str
    at: str | None
    edits: tuple[str, ...]
    source_edit: str
    has_own_process: bool


class Prediction(Record, frozen=True, kw_only=True):
    """What a step was expected to bring, and what it brought."""

    name: str
    predicted: float
    measured: float
    low: float | None
    high: float | None

    @property
    def error(self) -> float:
        """Measured over predicted, minus one."""
        return self.measured / self.predicted - 1.0


class PlanInfo(Record, frozen=True, kw_only=True):
    """Everything a report says about a plan."""

    script: str
    verdict: VerdictText
    guarantee: Guarantee
    guarantee_text: str
    chart: SpeedChart
    step_times: tuple[StepTime, ...]
    before: WorkloadInfo
    after: WorkloadInfo | None
    accepted: tuple[OptimizationRow, ...]
    not_accepted: tuple[OptimizationRow, ...]
    skipped: tuple[OptimizationRow, ...]
    predictions: tuple[Prediction, ...]
    measured_in: str
    confirmation_text: str
    tuned_samples_per_s: float | None
    finish_times: TimeToFinish | None
    finish_text: str
    validation_text: str
    cost_text: str
    policy_text: str
    machine: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    next_command: str


def plan_info(plan: Plan, path: str = "plan.json") -> PlanInfo:
    """All figures of a plan; ``path`` is where it lies, for the next command."""
    rows = tuple(optimization_row(step) for step in plan.steps)
    after = plan.after
    times_before = step_time(plan.before, "before" if after else "one step")
    return PlanInfo(
        script=plan.script,
        verdict=plan_verdict(plan),
        guarantee=plan.guarantee,
        guarantee_text=GUARANTEE_TEXTS[plan.guarantee],
        chart=speed_chart(plan),
        step_times=(times_before, step_time(after, "after")) if after else (times_before,),
        before=workload_info(plan.before, plan.machine),
        after=workload_info(after, plan.machine) if after else None,
        accepted=tuple(row for row in rows if row.outcome == "kept"),
        not_accepted=tuple(row for row in rows if row.outcome in ("rejected", "failed")),
        skipped=tuple(row for row in _what_answers_first(plan) if row.outcome == "skipped"),
        predictions=prediction_rows(plan),
        measured_in="fresh processes" if plan.speedup.n_processes > 1 else "the tuning process",
        confirmation_text=confirmation_sentence(plan),
        tuned_samples_per_s=finite_or_none(plan.tuned.samples_per_s),
        finish_times=plan.time_to_finish if is_proven(plan) else None,
        finish_text=finish_sentence(plan.time_to_finish) if is_proven(plan) else "",
        validation_text=validation_sentence(plan.validation_times),
        cost_text=cost_sentence(plan),
        policy_text=policy_sentence(plan),
        machine=machine_rows(plan.machine),
        notes=plan.notes,
        next_command=plan_command(plan, path),
    )


def _what_answers_first(plan: Plan) -> list[OptimizationRow]:
    first = steps_for_findings(plan.before.findings, plan.steps)
    return [optimization_row(each) for each in (*first, *(s for s in plan.steps if s not in first))]


def speed_chart(plan: Plan) -> SpeedChart:
    """Baseline, every tried step in order, and what fresh processes confirmed."""
    now = finite_or_none(plan.baseline.samples_per_s)
    points = [ChartPoint(kind="baseline", label="baseline", samples_per_s=now)]
    for step in plan.steps:
        if step.outcome == "skipped":
            continue
        point = _point(step, now)
        points.append(point)
        if step.outcome == "kept":
            now = point.samples_per_s
    if plan.accepted_steps and plan.speedup.n_processes:
        points.append(_confirmed(plan))
    return SpeedChart(
        points=tuple(points),
        ceiling_before=finite_or_none(plan.before.ceilings.get("consumer")),
        ceiling=finite_or_none(plan.ceiling_samples_per_s) or None,
    )


def optimization_row(step: PlanStep) -> OptimizationRow:
    """One line of the table of steps."""
    return OptimizationRow(
        name=step.name,
        stage=step.stage,
        outcome=step.outcome,
        reason=step.reason,
        guarantee=step.guarantee,
        proof=step.proof.detail if step.proof else "",
        is_proved=step.proof is not None and step.proof.passed,
        predicted=_predicted(step),
        measured=format_ratio(step.measured.ratio) if step.measured else "",
        interval=_interval(step),
        at=step.at,
        edits=tuple(describe_edit(edit) for edit in step.edits),
        source_edit=step.source_edit,
        has_own_process=step.has_own_process,
    )


def prediction_rows(plan: Plan) -> tuple[Prediction, ...]:
    """Predicted beside measured, for every step that has both."""
    return tuple(
        Prediction(
            name=step.name,
            predicted=step.predicted,
            measured=step.measured.ratio,
            low=finite_or_none(step.measured.low),
            high=_end(step.measured),
        )
        for step in plan.steps
        if step.measured
        and step.predicted
        and finite_or_none(step.predicted)
        and finite_or_none(step.measured.ratio)
    )


def _end(measured: Ratio) -> float | None:
    """Of its interval; None where that would press all else flat."""
    return (
        None if is_open_interval(measured.ratio, measured.high) else finite_or_none(measured.high)
    )


def _point(step: PlanStep, now: float | None) -> ChartPoint:
    ratio = finite_or_none(step.measured.ratio) if step.measured else None
    would_be = None if step.is_secondary else _times(now, ratio)
    spread = None if step.is_secondary else step.measured
    is_accepted = step.outcome == "kept"
    return ChartPoint(
        kind="accepted" if is_accepted else "failed" if step.outcome == "failed" else "rejected",
        label=format_words(step.name),
        samples_per_s=(finite_or_none(step.samples_per_s) or would_be or now)
        if is_accepted
        else would_be,
        gain=format_ratio(ratio) if step.measured else "",
        interval=_interval(step),
        predicted=_predicted(step),
        low=_times(now, spread.low if spread else None),
        high=_times(now, spread.high if spread else None),
        guarantee=step.guarantee,
        proof=step.proof.detail if step.proof else "",
        is_proved=step.proof is not None and step.proof.passed,
        reason=step.reason,
    )


def _confirmed(plan: Plan) -> ChartPoint:
    return ChartPoint(
        kind="confirmed",
        label="fresh processes" if plan.speedup.n_processes > 1 else "one process",
        samples_per_s=finite_or_none(plan.tuned.samples_per_s),
        gain=format_ratio(plan.speedup.ratio),
        interval=format_interval(plan.speedup.low, plan.speedup.high),
        low=_times(plan.baseline.samples_per_s, plan.speedup.low),
        high=_times(plan.baseline.samples_per_s, plan.speedup.high),
        guarantee=plan.guarantee,
        is_proved=plan.speedup.verdict == "faster",
        reason=confirmation_sentence(plan),
    )


def _times(speed: float | None, ratio: float | None) -> float | None:
    return None if speed is None or ratio is None else finite_or_none(speed * ratio)


def _predicted(step: PlanStep) -> str:
    return "" if step.predicted is None else format_ratio(step.predicted)


def _interval(step: PlanStep) -> str:
    return (
        format_interval(step.measured.low, step.measured.high, step.measured.ratio)
        if step.measured
        else ""
    )
