"""What a report says about a plan: the road taken, what proves it, what was not worth it."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.measurement import is_open
from uncork.core.base.record import Record
from uncork.core.documents.plan import Plan, Ratio, Step, TimeToFinish
from uncork.core.edits.edit import Guarantee
from uncork.report.content.diagnosis_content import (
    StepTime,
    Verdict,
    WorkloadInfo,
    machine_rows,
    step_time,
    workload_info,
)
from uncork.report.content.edit_text import GUARANTEE_WORDS, describe_edit
from uncork.report.content.figures import known, times, words
from uncork.report.content.plan_sentences import (
    confirmation,
    cost_sentence,
    finish_sentence,
    is_proven,
    plan_command,
    plan_verdict,
    policy_sentence,
    span,
    validation_sentence,
)
from uncork.report.content.remedies import answering

PointKind = Literal["baseline", "kept", "rejected", "failed", "confirmed"]


class RoadPoint(Record, frozen=True, kw_only=True):
    """One stop on the road.

    Attributes:
        samples_per_s: Speed with this step in force; for a rejected one the speed it would have
            given, None if that was never measured.
        gain: Speed-up against the state before, as text, with its interval in ``interval``.
        predicted: The same as expected before trying, as text.
        low: Lower end of the 95 % interval of the speed, None if there is none.
        high: Its upper end.
        proof: What was checked; ``""`` when nothing was.
        proved: The proof held.
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
    proved: bool = False
    reason: str = ""


class Road(Record, frozen=True, kw_only=True):
    """The chart of the report: speed after each step, and the ceiling before and after."""

    points: tuple[RoadPoint, ...]
    ceiling_before: float | None
    ceiling: float | None


class StepRow(Record, frozen=True, kw_only=True):
    """One optimization in the table of all; figures are text, ``""`` where there is none."""

    name: str
    stage: str
    outcome: str
    reason: str
    guarantee: Guarantee | None
    proof: str
    proved: bool
    predicted: str
    measured: str
    interval: str
    at: str | None
    edits: tuple[str, ...]
    source_edit: str
    alone: bool


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
    verdict: Verdict
    guarantee: Guarantee
    guarantee_words: str
    road: Road
    step_times: tuple[StepTime, ...]
    before: WorkloadInfo
    after: WorkloadInfo | None
    kept: tuple[StepRow, ...]
    tried: tuple[StepRow, ...]
    skipped: tuple[StepRow, ...]
    predictions: tuple[Prediction, ...]
    measured_in: str
    confirmation: str
    after_samples_per_s: float | None
    finish: TimeToFinish | None
    time_to_finish: str
    validation: str
    cost: str
    policy: str
    machine: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    next_command: str


def plan_info(plan: Plan, path: str = "plan.json") -> PlanInfo:
    """All figures of a plan; ``path`` is where it lies, for the next command."""
    rows = tuple(step_row(step) for step in plan.steps)
    after = plan.after
    times_before = step_time(plan.before, "before" if after else "one step")
    return PlanInfo(
        script=plan.script,
        verdict=plan_verdict(plan),
        guarantee=plan.guarantee,
        guarantee_words=GUARANTEE_WORDS[plan.guarantee],
        road=road(plan),
        step_times=(times_before, step_time(after, "after")) if after else (times_before,),
        before=workload_info(plan.before, plan.machine),
        after=workload_info(after, plan.machine) if after else None,
        kept=tuple(row for row in rows if row.outcome == "kept"),
        tried=tuple(row for row in rows if row.outcome in ("rejected", "failed")),
        skipped=tuple(row for row in _what_answers_first(plan) if row.outcome == "skipped"),
        predictions=predictions(plan),
        measured_in="fresh processes" if plan.speedup.n_processes > 1 else "the tuning process",
        confirmation=confirmation(plan),
        after_samples_per_s=known(plan.tuned.samples_per_s),
        finish=plan.time_to_finish if is_proven(plan) else None,
        time_to_finish=finish_sentence(plan.time_to_finish) if is_proven(plan) else "",
        validation=validation_sentence(plan.validation),
        cost=cost_sentence(plan),
        policy=policy_sentence(plan),
        machine=machine_rows(plan.machine),
        notes=plan.notes,
        next_command=plan_command(plan, path),
    )


def _what_answers_first(plan: Plan) -> list[StepRow]:
    first = answering(plan.before.findings, plan.steps)
    return [step_row(each) for each in (*first, *(s for s in plan.steps if s not in first))]


def road(plan: Plan) -> Road:
    """Baseline, every tried step in order, and what fresh processes confirmed."""
    now = known(plan.baseline.samples_per_s)
    points = [RoadPoint(kind="baseline", label="baseline", samples_per_s=now)]
    for step in plan.steps:
        if step.outcome == "skipped":
            continue
        point = _point(step, now)
        points.append(point)
        if step.outcome == "kept":
            now = point.samples_per_s
    if plan.kept and plan.speedup.n_processes:
        points.append(_confirmed(plan))
    return Road(
        points=tuple(points),
        ceiling_before=known(plan.before.ceilings.get("consumer")),
        ceiling=known(plan.target) or None,
    )


def step_row(step: Step) -> StepRow:
    """One line of the table of steps."""
    return StepRow(
        name=step.name,
        stage=step.stage,
        outcome=step.outcome,
        reason=step.reason,
        guarantee=step.guarantee,
        proof=step.proof.detail if step.proof else "",
        proved=step.proof is not None and step.proof.passed,
        predicted=_predicted(step),
        measured=times(step.measured.ratio) if step.measured else "",
        interval=_interval(step),
        at=step.at,
        edits=tuple(describe_edit(edit) for edit in step.edits),
        source_edit=step.source_edit,
        alone=step.alone,
    )


def predictions(plan: Plan) -> tuple[Prediction, ...]:
    """Predicted beside measured, for every step that has both."""
    return tuple(
        Prediction(
            name=step.name,
            predicted=step.predicted,
            measured=step.measured.ratio,
            low=known(step.measured.low),
            high=_end(step.measured),
        )
        for step in plan.steps
        if step.measured and step.predicted and known(step.predicted) and known(step.measured.ratio)
    )


def _end(measured: Ratio) -> float | None:
    """Of its interval; None where that would press all else flat."""
    return None if is_open(measured.ratio, measured.high) else known(measured.high)


def _point(step: Step, now: float | None) -> RoadPoint:
    ratio = known(step.measured.ratio) if step.measured else None
    would_be = None if step.apart else _times(now, ratio)
    spread = None if step.apart else step.measured
    kept = step.outcome == "kept"
    return RoadPoint(
        kind="kept" if kept else "failed" if step.outcome == "failed" else "rejected",
        label=words(step.name),
        samples_per_s=(known(step.samples_per_s) or would_be or now) if kept else would_be,
        gain=times(ratio) if step.measured else "",
        interval=_interval(step),
        predicted=_predicted(step),
        low=_times(now, spread.low if spread else None),
        high=_times(now, spread.high if spread else None),
        guarantee=step.guarantee,
        proof=step.proof.detail if step.proof else "",
        proved=step.proof is not None and step.proof.passed,
        reason=step.reason,
    )


def _confirmed(plan: Plan) -> RoadPoint:
    return RoadPoint(
        kind="confirmed",
        label="fresh processes" if plan.speedup.n_processes > 1 else "one process",
        samples_per_s=known(plan.tuned.samples_per_s),
        gain=times(plan.speedup.ratio),
        interval=span(plan.speedup.low, plan.speedup.high),
        low=_times(plan.baseline.samples_per_s, plan.speedup.low),
        high=_times(plan.baseline.samples_per_s, plan.speedup.high),
        guarantee=plan.guarantee,
        proved=plan.speedup.verdict == "faster",
        reason=confirmation(plan),
    )


def _times(speed: float | None, ratio: float | None) -> float | None:
    return None if speed is None or ratio is None else known(speed * ratio)


def _predicted(step: Step) -> str:
    return "" if step.predicted is None else times(step.predicted)


def _interval(step: Step) -> str:
    return span(step.measured.low, step.measured.high, step.measured.ratio) if step.measured else ""
