"""What a report says about a plan: the road taken, what proves it, what was not worth it."""

from __future__ import annotations

import math
import shlex
from typing import Literal

from uncork.core.edit import Guarantee
from uncork.core.plan import NO_TIME, Plan, Step, TimeToFinish, ValidationTimes
from uncork.core.record import Record
from uncork.report.edit_words import GUARANTEE_WORDS, describe_edit
from uncork.report.figures import count, duration, known, percent, times, words
from uncork.report.info import (
    HEALTHY,
    WORTH_NAMING,
    StepTime,
    Verdict,
    WorkloadInfo,
    machine_rows,
    step_time,
    workload_info,
)

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
        skipped=tuple(row for row in rows if row.outcome == "skipped"),
        predictions=predictions(plan),
        measured_in="fresh processes" if plan.speedup.n_processes > 1 else "the tuning process",
        confirmation=confirmation(plan),
        after_samples_per_s=known(plan.tuned.samples_per_s),
        finish=plan.time_to_finish if _proven(plan) else None,
        time_to_finish=finish_sentence(plan.time_to_finish) if _proven(plan) else "",
        validation=validation_sentence(plan.validation),
        cost=cost_sentence(plan),
        policy=policy_sentence(plan),
        machine=machine_rows(plan.machine),
        notes=plan.notes,
        next_command=plan_command(plan, path),
    )


def plan_verdict(plan: Plan) -> Verdict:
    """From where to where, how sure, and how much is left; nothing unproven is called faster."""
    at = plan.before.workload.at
    if not plan.kept or plan.kept == plan.needed:
        return _nothing_kept(plan)
    speeds = f"{count(plan.baseline.samples_per_s)} to {count(plan.tuned.samples_per_s)} samples/s"
    if plan.speedup.verdict == "faster":
        sentence = f"{at} trains {times(plan.speedup.ratio)} as fast: {speeds}{_of_ceiling(plan)}."
        return Verdict(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    if plan.speedup.verdict == "slower":
        sentence = f"{at} is slower with this plan: {speeds}."
        return Verdict(sentence=sentence, cause="Do not use it; tune again.", tone="brake")
    if _validates_faster(plan) and plan.validation:
        found = plan.validation
        took = f"{duration(found.baseline_s)} to {duration(found.tuned_s)}"
        sentence = f"{at} validates {times(found.speedup.ratio)} as fast: {took}."
        return Verdict(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    saving = _saves_faster(plan)
    if saving and saving.measured:
        ratio = times(saving.measured.ratio)
        sentence = f"{at} trains and saves {ratio} as fast: its checkpoints are written beside it."
        return Verdict(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    sentence = f"{at}: no speed-up is proven ({speeds})."
    gave = f"Fresh processes gave {_span(plan.speedup.low, plan.speedup.high)}."
    cause = gave if plan.speedup.n_processes > 1 else "Fresh processes have not confirmed it."
    return Verdict(sentence=sentence, cause=cause, tone="unknown")


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
    )


def predictions(plan: Plan) -> tuple[Prediction, ...]:
    """Predicted beside measured, for every step that has both."""
    return tuple(
        Prediction(
            name=step.name,
            predicted=step.predicted,
            measured=step.measured.ratio,
            low=known(step.measured.low),
            high=known(step.measured.high),
        )
        for step in plan.steps
        if step.measured and step.predicted and known(step.predicted) and known(step.measured.ratio)
    )


def confirmation(plan: Plan) -> str:
    """What fresh processes, baseline and plan in turn, had to say."""
    speedup = plan.speedup
    if not plan.kept:
        return "nothing was kept, so there is nothing to confirm"
    if not speedup.n_processes:
        return "not confirmed in fresh processes"
    if plan.needed == plan.kept:
        return "it trains in a fresh process, where as written it runs out of memory"
    figures = f"{times(speedup.ratio)} ({_span(speedup.low, speedup.high)})"
    said = {"faster": "faster", "slower": "slower", "not_proven": "not proven"}[speedup.verdict]
    where = f"{speedup.n_processes} fresh processes" if speedup.n_processes > 1 else "one process"
    return f"{figures} in {where}: {said}"


def finish_sentence(time: TimeToFinish | None) -> str:
    """The whole training, start-up and caches counted."""
    if time is None:
        return ""
    how = "extrapolated from the steady speed" if time.extrapolated else "as run"
    return f"{duration(time.baseline_s)} before, {duration(time.tuned_s)} after ({how})"


def validation_sentence(found: ValidationTimes | None) -> str:
    """One validation, where the plan edits its input."""
    if found is None:
        return ""
    gave = f"{times(found.speedup.ratio)}, {_span(found.speedup.low, found.speedup.high)}"
    return f"{duration(found.baseline_s)} before, {duration(found.tuned_s)} after ({gave})"


def cost_sentence(plan: Plan) -> str:
    """What tuning cost and when it has paid for itself."""
    cost, time = f"Tuning took {duration(plan.tuning_cost_s)}", plan.time_to_finish
    saved = known(time.baseline_s - time.tuned_s) if time else None
    if saved is None or known(plan.tuning_cost_s) is None or not _proven(plan):
        return f"{cost}."
    if saved <= 0:
        return f"{cost}; a training this short gains nothing from it."
    runs = max(math.ceil(plan.tuning_cost_s / saved), 1)
    return f"{cost}; it has paid for itself after {runs:,} training{'s' if runs > 1 else ''}."


def policy_sentence(plan: Plan) -> str:
    """What tuning was allowed to do."""
    policy = plan.policy
    files = f", files in {policy.disk_cache}" if policy.disk_cache else ""
    return (
        f"Allowed: changes up to '{policy.loosest}', {percent(policy.memory_share)} of the memory"
        f" for caches{files}, {duration(policy.budget_s)} of tuning."
    )


def plan_command(plan: Plan, path: str) -> str:
    """What to type next: train with the plan, tune again, or just train."""
    script = shlex.quote(plan.script)
    if not plan.kept:
        return f"python {script}" if plan.script else "model.fit(data)"
    proven = _proven(plan)
    if not plan.script:  # it was asked for from Python
        return "uncork.fit(model, data, plan=plan)" if proven else "plan = uncork.tune(model, data)"
    if not proven:
        index = plan.before.workload.index
        return f"uncork tune {f'--training {index} ' if index else ''}{script}"
    return f"uncork run --plan {shlex.quote(path)} {script}"


def _proven(plan: Plan) -> bool:
    """Something is faster with it, or runs at all."""
    faster = plan.speedup.verdict == "faster" or _validates_faster(plan) or _saves_faster(plan)
    return bool(plan.kept) and bool(plan.needed or faster)


def _validates_faster(plan: Plan) -> bool:
    """It is proven that the validation is faster, whatever the training's steps are."""
    return plan.validation is not None and plan.validation.speedup.verdict == "faster"


def _saves_faster(plan: Plan) -> Step | None:
    """What was measured while tuning, in turn: no fresh process saves anything."""
    return next((step for step in plan.kept if step.saves), None)


def _nothing_kept(plan: Plan) -> Verdict:
    at, speed = plan.before.workload.at, count(plan.baseline.samples_per_s)
    if plan.needed:
        sentence = f"{at} trains {plan.base}, at {speed} samples/s."
        return Verdict(sentence=sentence, cause="As written it runs out of memory.", tone="healthy")
    sentence = f"{at} trains {speed} samples/s and is left as it is."
    headroom = known(plan.before.headroom)
    brakes = [f.cause for f in plan.before.findings if f.cause != "healthy"]
    if not brakes and headroom is not None and headroom < WORTH_NAMING:
        return Verdict(sentence=sentence, cause=f"{HEALTHY.capitalize()}.", tone="healthy")
    brake = f"{words(brakes[0]).capitalize()} was found" if brakes else ""
    tried = "no step on the road was faster and kept its promise"
    tried = tried if plan.steps else "nothing on the road was tried"
    cause = f"{brake}, but {tried}." if brake else f"{tried.capitalize()}."
    untried = sum(step.reason == NO_TIME for step in plan.steps)
    if untried:
        cause += f" For {untried} of {len(plan.steps)} there was no time: raise it with --budget."
    return Verdict(sentence=sentence, cause=cause, tone="unknown")


def _of_ceiling(plan: Plan) -> str:
    if not plan.target or known(plan.tuned.samples_per_s / plan.target) is None:
        return ""
    return f", {percent(plan.tuned.samples_per_s / plan.target)} of what its training step allows"


def _guaranteed(plan: Plan) -> str:
    unproved = [step.name for step in plan.kept if not (step.proof and step.proof.passed)]
    if unproved:
        return f"Not proved: {', '.join(words(name) for name in unproved)}."
    return f"Proved: {GUARANTEE_WORDS[plan.guarantee]}."


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
        interval=_span(plan.speedup.low, plan.speedup.high),
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
    return _span(step.measured.low, step.measured.high) if step.measured else ""


def _span(low: float, high: float | None) -> str:
    if known(low) is None or known(high) is None:
        return "no interval"
    return f"{times(low)} to {times(high)}"
