"""What a report says about a plan: the optimizations, their proofs, and what was not accepted."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.measurement import is_open_interval
from uncork.core.base.record import Record, replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import NO_TIME_REASON, Plan, PlanStep, Ratio, TimeToFinish
from uncork.core.edits.edit import Guarantee, ProcessEdit
from uncork.core.edits.step import StepEdit
from uncork.report.content.diagnosis_content import (
    StepTime,
    VerdictText,
    WorkloadInfo,
    machine_rows,
    step_time,
    workload_info,
)
from uncork.report.content.edit_text import describe_edit
from uncork.report.content.figures import finite_or_none, format_ratio, format_words
from uncork.report.content.headline import Headline, format_interval, headline
from uncork.report.content.plan_sentences import (
    confirmation_sentence,
    cost_sentence,
    finish_sentence,
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
        samples_per_s: Speed before this step times its gain: for a kept one the speed with it, for
            a rejected one the speed it would have given; None if its gain was never measured.
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
    """The chart of the report: speed after each step, and the ceiling."""

    points: tuple[ChartPoint, ...]
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
    """Everything a report says about a plan.

    Attributes:
        skipped: All optimizations that were not tried, those of ``missed`` first.
        missed: Of these the ones that could have mattered, the largest predicted gain first.
    """

    script: str
    headline: Headline
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
    missed: tuple[OptimizationRow, ...]
    predictions: tuple[Prediction, ...]
    measured_in: str
    confirmation_text: str
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
    rows, found = tuple(optimization_row(step) for step in plan.steps), headline(plan)
    return PlanInfo(
        script=plan.script,
        headline=found,
        verdict=plan_verdict(plan),
        guarantee=found.guarantee,
        guarantee_text=found.guarantee_text,
        chart=speed_chart(plan),
        step_times=_step_times(plan),
        before=_before(plan, found),
        after=_after(plan, found),
        accepted=tuple(row for row in rows if row.outcome == "kept"),
        not_accepted=tuple(row for row in rows if row.outcome in ("rejected", "failed")),
        skipped=tuple(map(optimization_row, _skipped(plan))),
        missed=tuple(map(optimization_row, missed_steps(plan))),
        predictions=prediction_rows(plan),
        measured_in="fresh processes" if plan.speedup.n_processes > 1 else "the tuning process",
        confirmation_text=confirmation_sentence(plan),
        finish_times=plan.time_to_finish if is_proven(plan) else None,
        finish_text=finish_sentence(plan.time_to_finish) if is_proven(plan) else "",
        validation_text=validation_sentence(plan.validation_times),
        cost_text=cost_sentence(plan),
        policy_text=policy_sentence(plan),
        machine=machine_rows(plan.machine),
        notes=plan.notes,
        next_command=plan_command(plan, path),
    )


def _step_times(plan: Plan) -> tuple[StepTime, ...]:
    """As long as the processes say that gave the speeds, with the parts of the tuning process."""
    runs = "processes" if plan.speedup.n_processes > 1 and plan.accepted_steps else "blocks"
    before = replace(plan.before, measurement=plan.baseline)
    if plan.after is None:
        return (step_time(before, "one step", runs),)
    after = replace(plan.after, measurement=plan.tuned)
    return step_time(before, "before", runs), step_time(after, "after", runs)


def _before(plan: Plan, found: Headline) -> WorkloadInfo:
    """The training as it was, with the headline's speed.

    Its step has one speed in a report: where no edit changes the step, that is the ceiling.
    """
    speed, headroom = found.before_samples_per_s, finite_or_none(plan.before.headroom)
    own = speed * headroom if speed and headroom else None
    is_changed = any(isinstance(edit, StepEdit | ProcessEdit) for edit in plan.edits)
    return _with_speeds(plan, plan.before, speed, own if is_changed else None, found)


def _after(plan: Plan, found: Headline) -> WorkloadInfo | None:
    if plan.after is None:
        return None
    return _with_speeds(plan, plan.after, found.after_samples_per_s, None, found)


def _with_speeds(
    plan: Plan,
    diagnosis: WorkloadDiagnosis,
    speed: float | None,
    step_speed: float | None,
    found: Headline,
) -> WorkloadInfo:
    """All figures of one version, with its speed and that of its step; the ceiling unless given."""
    step_speed = step_speed or found.ceiling_samples_per_s
    if step_speed and "consumer" in diagnosis.ceilings:
        ceilings = {**diagnosis.ceilings, "consumer": step_speed}
        diagnosis = replace(diagnosis, ceilings=ceilings)
    return replace(workload_info(diagnosis, plan.machine), samples_per_s=speed)


def missed_steps(plan: Plan) -> list[PlanStep]:
    """Steps that were not tried although there was something to try, the most promising first.

    Their predicted gain is the most optimistic one (``optimizations.base.proposal``). Of a plan of
    an earlier version, in which such steps have none, those count for which there was no time.
    """
    missed = [step for step in plan.steps if step.outcome == "skipped" and _is_missed(step)]
    return sorted(missed, key=lambda step: step.predicted or 1.0, reverse=True)


def _is_missed(step: PlanStep) -> bool:
    return step.predicted is not None or step.reason == NO_TIME_REASON


def _skipped(plan: Plan) -> list[PlanStep]:
    """What could have mattered, then what answers a finding, then the others in their order."""
    first = [*missed_steps(plan), *steps_for_findings(plan.before.findings, plan.steps)]
    ordered = (step for step in (*first, *plan.steps) if step.outcome == "skipped")
    return list({step.name: step for step in ordered}.values())


def speed_chart(plan: Plan) -> SpeedChart:
    """Baseline, every tried step in order, and what fresh processes confirmed."""
    found = headline(plan)
    now = found.before_samples_per_s
    points = [ChartPoint(kind="baseline", label="baseline", samples_per_s=now)]
    for step in plan.steps:
        if step.outcome == "skipped":
            continue
        point = _point(step, now)
        points.append(point)
        if step.outcome == "kept":
            now = point.samples_per_s
    if plan.accepted_steps and plan.speedup.n_processes:
        points.append(_confirmed(plan, found))
    return SpeedChart(points=tuple(points), ceiling=found.ceiling_samples_per_s)


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
        samples_per_s=would_be or (now if is_accepted else None),
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


def _confirmed(plan: Plan, found: Headline) -> ChartPoint:
    return ChartPoint(
        kind="confirmed",
        label="fresh processes" if found.n_processes > 1 else "one process",
        samples_per_s=found.after_samples_per_s,
        gain=found.ratio_text,
        interval=found.interval_text,
        low=_times(found.before_samples_per_s, found.low),
        high=_times(found.before_samples_per_s, found.high),
        guarantee=found.guarantee,
        is_proved=found.verdict == "faster",
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
