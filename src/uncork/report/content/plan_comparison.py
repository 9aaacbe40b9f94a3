"""Two plans side by side: what each measured, and what one has and the other has not.

Each plan was measured for itself, maybe on another machine or at another time: the figures are
shown beside each other, and no ratio of them is called a speed-up.
"""

from __future__ import annotations

from uncork.core.base.record import Record
from uncork.core.documents.plan import Plan, PlanStep
from uncork.report.content.diagnosis_content import machine_rows
from uncork.report.content.figures import finite_or_none, format_duration, format_rate, format_ratio
from uncork.report.content.plan_sentences import confirmation_sentence, finish_sentence
from uncork.report.content.proof_text import proof_text


class ComparedRow(Record, frozen=True, kw_only=True):
    """One line of a comparison, as text."""

    label: str
    first: str
    second: str


class PlanComparison(Record, frozen=True, kw_only=True):
    """Everything a report says about two plans.

    Attributes:
        script: Of the first plan.
        paths: Of both plans.
        sentence: Which optimizations one has and the other has not.
        caveat: Why the speeds may not be compared.
        figures: Speeds, guarantees and times; of the machine, what differs.
        steps: Optimizations that one of them has tried, those that differ first.
        machine: Of the first plan; where that of the second differs, ``figures`` say so.
    """

    script: str
    paths: tuple[str, str]
    sentence: str
    caveat: str
    figures: tuple[ComparedRow, ...]
    steps: tuple[ComparedRow, ...]
    machine: tuple[tuple[str, str], ...]

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Names of the optimizations, for their pages."""
        return tuple(row.label for row in self.steps)


def compare_plans(first: Plan, second: Plan, paths: tuple[str, str]) -> PlanComparison:
    """What two plans have in common, and what not.

    Args:
        first: A plan.
        second: Another one.
        paths: Where they lie.
    """
    return PlanComparison(
        script=first.script,
        paths=paths,
        sentence=_sentence(first, second, paths),
        caveat=_caveat(first, second),
        figures=tuple(_figures(first, second)),
        steps=_steps(first, second),
        machine=machine_rows(first.machine),
    )


def _sentence(first: Plan, second: Plan, paths: tuple[str, str]) -> str:
    ours, theirs = (tuple(step.name for step in p.accepted_steps) for p in (first, second))
    alone = [
        (path, [name.replace("_", " ") for name in own if name not in other])
        for path, own, other in ((paths[0], ours, theirs), (paths[1], theirs, ours))
    ]
    told = [f"only {path} has {', '.join(names)}" for path, names in alone if names]
    if told:
        return f"{'; '.join(told)}.".replace("only", "Only", 1)
    if ours != theirs:
        return "Both plans have the same optimizations, in another order."
    return "Both plans have the same optimizations."


def _caveat(first: Plan, second: Plan) -> str:
    """What keeps their speeds from being compared."""
    if first.script_digest != second.script_digest:
        return "The plans are for different scripts, or versions of one."
    if machine_rows(first.machine) != machine_rows(second.machine):
        return "The plans were measured on different machines."
    return "The plans were measured at different times, each against its own baseline."


def _figures(first: Plan, second: Plan) -> list[ComparedRow]:
    rows = [
        ("script", *(plan.script for plan in (first, second))),
        ("training", *(plan.before.workload.at for plan in (first, second))),
        ("before", *(_rate(plan.baseline.samples_per_s) for plan in (first, second))),
        ("after", *(_rate(plan.tuned.samples_per_s) for plan in (first, second))),
        ("speed-up", *(confirmation_sentence(plan) for plan in (first, second))),
        ("guarantee", *(plan.guarantee for plan in (first, second))),
        ("proved by", *(proof_text(plan) for plan in (first, second))),
        ("whole training", *(finish_sentence(plan.time_to_finish) for plan in (first, second))),
        ("tuning took", *(format_duration(plan.tuning_cost_s) for plan in (first, second))),
    ]
    machines = [dict(machine_rows(plan.machine)) for plan in (first, second)]
    for label in dict.fromkeys((*machines[0], *machines[1])):
        ours, theirs = (each.get(label, "unknown") for each in machines)
        if ours != theirs:
            rows.append((f"machine: {label}", ours, theirs))
    shown = ((label, a or "not measured", b or "not measured") for label, a, b in rows)
    return [ComparedRow(label=label, first=a, second=b) for label, a, b in shown]


def _rate(value: float) -> str:
    return format_rate(finite_or_none(value))


def _steps(first: Plan, second: Plan) -> tuple[ComparedRow, ...]:
    """Optimizations that either has tried."""
    ours, theirs = ({step.name: step for step in plan.steps} for plan in (first, second))
    tried = [
        name
        for name in dict.fromkeys((*ours, *theirs))
        if any(_is_tried(steps.get(name)) for steps in (ours, theirs))
    ]
    rows = [
        ComparedRow(label=n, first=_outcome(ours.get(n)), second=_outcome(theirs.get(n)))
        for n in tried
    ]
    kept = [{n for n in tried if _is_kept(steps.get(n))} for steps in (ours, theirs)]
    return tuple(sorted(rows, key=lambda row: (row.label in kept[0]) == (row.label in kept[1])))


def _is_tried(step: PlanStep | None) -> bool:
    return step is not None and step.outcome != "skipped"


def _is_kept(step: PlanStep | None) -> bool:
    return step is not None and step.outcome == "kept"


def _outcome(step: PlanStep | None) -> str:
    """What came of it, with its gain and its guarantee, or why not."""
    if step is None:
        return "not known to this plan"
    gain = f" {format_ratio(step.measured.ratio)}" if step.measured else ""
    if step.outcome == "kept":
        return f"accepted{gain}, {step.guarantee or 'no guarantee'}"
    word = {"skipped": "not tried", "rejected": "not accepted", "failed": "failed"}[step.outcome]
    return f"{word}{gain}: {step.reason}"
