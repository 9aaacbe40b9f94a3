"""What a report says of a plan in sentences: verdict, proof, cost, and what to type next."""

from __future__ import annotations

import math
from typing import Final

from uncork.core.documents.plan import (
    LOOP_ENDED_NOTE,
    NO_TIME_REASON,
    Plan,
    PlanStep,
    TimeToFinish,
    ValidationTimes,
)
from uncork.report.content.command_line import command_line, path_in_command, training_option
from uncork.report.content.diagnosis_content import (
    HEALTHY_TEXT,
    MIN_HEADROOM_SHOWN,
    VerdictText,
)
from uncork.report.content.figures import (
    finite_or_none,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
    format_words,
)
from uncork.report.content.headline import Headline, format_interval, headline
from uncork.report.content.proof_text import proof_sentence
from uncork.report.content.remedies import steps_for_findings

# Seconds; the least that a longer budget is worth.
_USUAL_BUDGET_S: Final = 300.0


def plan_verdict(plan: Plan) -> VerdictText:
    """From where to where, how sure, and how much is left; nothing unproven is called faster."""
    at = plan.before.workload.at
    if not plan.accepted_steps or plan.accepted_steps == plan.steps_needed_for_memory:
        return _nothing_accepted(plan)
    found = headline(plan)
    speeds = speeds_text(found)
    if plan.speedup.verdict == "faster":
        sentence = f"{at} trains {found.ratio_text} as fast: {speeds}{_of_ceiling(found)}."
        return VerdictText(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    if plan.speedup.verdict == "slower":
        sentence = f"{at} is slower with this plan: {speeds}."
        return VerdictText(
            sentence=sentence, cause="Do not use the plan. Tune again.", tone="bottleneck"
        )
    if _validates_faster(plan) and plan.validation_times:
        times = plan.validation_times
        took = f"{format_duration(times.baseline_s)} to {format_duration(times.tuned_s)}"
        sentence = f"{at} validates {format_ratio(times.speedup.ratio)} as fast: {took}."
        return VerdictText(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    saving = _saves_faster(plan)
    if saving and saving.measured:
        ratio = format_ratio(saving.measured.ratio)
        sentence = (
            f"{at} trains and saves {ratio} as fast: it writes its checkpoints asynchronously."
        )
        return VerdictText(sentence=sentence, cause=_guaranteed(plan), tone="healthy")
    sentence = f"{at}: Uncork proved no speed-up ({speeds})."
    gave = f"Fresh processes gave {found.interval_text}."
    cause = gave if plan.speedup.n_processes > 1 else "Fresh processes did not confirm it."
    return VerdictText(sentence=sentence, cause=cause, tone="unknown")


def confirmation_sentence(plan: Plan) -> str:
    """What fresh processes, baseline and plan in turn, had to say."""
    speedup, found = plan.speedup, headline(plan)
    if not plan.accepted_steps:
        return "no optimization was accepted, so there is nothing to confirm"
    if not speedup.n_processes:
        return "not confirmed in fresh processes"
    if plan.steps_needed_for_memory == plan.accepted_steps:
        return "the plan trains in a fresh process, where the original runs out of memory"
    verdict = {"faster": "faster", "slower": "slower", "not_proven": "not proven"}[speedup.verdict]
    figures = f"{found.ratio_text} ({found.interval_text})"
    return f"{figures} in {found.processes_text}: {verdict}"


def speeds_text(found: Headline) -> str:
    """From which speed to which."""
    before, after = (
        format_count(each) for each in (found.before_samples_per_s, found.after_samples_per_s)
    )
    return f"{before} to {after} samples/s"


def finish_sentence(time: TimeToFinish | None) -> str:
    """The whole training, start-up and caches counted."""
    if time is None:
        return ""
    how = "extrapolated from the steady state" if time.is_extrapolated else "measured"
    return (
        f"{format_duration(time.baseline_s)} before, {format_duration(time.tuned_s)} after ({how})"
    )


def validation_sentence(validation_times: ValidationTimes | None) -> str:
    """One validation, where the plan edits its input."""
    if validation_times is None:
        return ""
    gave = (
        f"{format_ratio(validation_times.speedup.ratio)}, "
        f"{format_interval(validation_times.speedup.low, validation_times.speedup.high)}"
    )
    return (
        f"{format_duration(validation_times.baseline_s)} before, "
        f"{format_duration(validation_times.tuned_s)} after ({gave})"
    )


def cost_sentence(plan: Plan) -> str:
    """What tuning cost and when it has paid for itself."""
    cost, time = f"Tuning took {format_duration(plan.tuning_cost_s)}", plan.time_to_finish
    saved = finite_or_none(time.baseline_s - time.tuned_s) if time else None
    if saved is None or finite_or_none(plan.tuning_cost_s) is None or not is_proven(plan):
        return f"{cost}."
    if saved <= 0:
        return f"{cost}; a training this short does not repay it."
    runs = max(math.ceil(plan.tuning_cost_s / saved), 1)
    return f"{cost}; it pays off after {runs:,} training{'s' if runs > 1 else ''}."


def policy_sentence(plan: Plan) -> str:
    """What tuning was allowed to do."""
    policy = plan.policy
    files = f", files in {policy.disk_cache_folder}" if policy.disk_cache_folder else ""
    return (
        f"Allowed: changes up to '{policy.loosest_guarantee}', "
        f"{format_percent(policy.memory_share)} of the memory"
        f" for caches{files}, {format_duration(policy.budget_s)} of tuning."
    )


def plan_command(plan: Plan, path: str) -> str:
    """What to type next: train with the plan, tune again, or just train."""
    proven = is_proven(plan)
    if not plan.script:  # it was asked for from Python
        if not plan.accepted_steps:
            return "model.fit(data)"
        return "uncork.fit(model, data, plan=plan)" if proven else "plan = uncork.tune(model, data)"
    if not plan.accepted_steps and _lacked_time(plan):
        budget_s = max(_USUAL_BUDGET_S, 2 * plan.policy.budget_s)
        option = training_option(plan.before.workload)
        words = ["uncork", "tune", "--budget", f"{budget_s:.0f}", *option]
    elif not plan.accepted_steps:
        words = ["python"]
    elif not proven:
        words = ["uncork", "tune", *training_option(plan.before.workload)]
    else:
        words = ["uncork", "run", "--plan", path_in_command(path, plan.working_folder)]
    return command_line([*words, *plan.script_words], plan.working_folder)


def _lacked_time(plan: Plan) -> bool:
    return any(step.reason == NO_TIME_REASON for step in plan.steps)


def is_proven(plan: Plan) -> bool:
    """Something is faster with it, or runs at all."""
    faster = plan.speedup.verdict == "faster" or _validates_faster(plan) or _saves_faster(plan)
    return bool(plan.accepted_steps) and bool(plan.steps_needed_for_memory or faster)


def _validates_faster(plan: Plan) -> bool:
    """It is proven that the validation is faster, whatever the training's steps are."""
    return plan.validation_times is not None and plan.validation_times.speedup.verdict == "faster"


def _saves_faster(plan: Plan) -> PlanStep | None:
    """What was measured while tuning, in turn: no fresh process saves anything."""
    return next((step for step in plan.accepted_steps if step.is_for_checkpoints), None)


def _nothing_accepted(plan: Plan) -> VerdictText:
    at, speed = plan.before.workload.at, format_count(plan.baseline.samples_per_s)
    if plan.steps_needed_for_memory:
        sentence = f"{at} trains {plan.baseline_description}, at {speed} samples/s."
        return VerdictText(
            sentence=sentence, cause="The original runs out of memory.", tone="healthy"
        )
    sentence = f"{at} trains {speed} samples/s. Uncork leaves it unmodified."
    headroom = finite_or_none(plan.before.headroom)
    causes = [f.cause for f in plan.before.findings if f.cause != "healthy"]
    if not causes and headroom is not None and headroom < MIN_HEADROOM_SHOWN:
        return VerdictText(sentence=sentence, cause=f"{HEALTHY_TEXT.capitalize()}.", tone="healthy")
    finding = f"Uncork found {format_words(causes[0])}" if causes else ""
    tried = "no optimization was faster and kept its guarantee"
    tried = tried if plan.steps else "Uncork tried no optimization"
    if LOOP_ENDED_NOTE in plan.notes:
        tried = LOOP_ENDED_NOTE
    cause = f"{finding}, but {tried}." if finding else f"{tried[0].upper()}{tried[1:]}."
    answer = _refused_answer(plan)
    if answer and LOOP_ENDED_NOTE not in plan.notes:
        cause = f"{finding}; {format_words(answer.name)}: {answer.reason}."
    untried = sum(step.reason == NO_TIME_REASON for step in plan.steps)
    if untried:
        cause += (
            f" For {untried} of {len(plan.steps)} optimizations there was no time. Try a longer "
            "--budget."
        )
    return VerdictText(sentence=sentence, cause=cause, tone="unknown")


def _refused_answer(plan: Plan) -> PlanStep | None:
    """What answers the first finding, and says why it cannot here; None where any was tried."""
    answers = steps_for_findings(plan.before.findings[:1], plan.steps)
    told = all(each.outcome == "skipped" and each.reason != NO_TIME_REASON for each in answers)
    return answers[0] if answers and told else None


def _of_ceiling(found: Headline) -> str:
    if found.ceiling_share is None:
        return ""
    return f", {found.ceiling_share_text} of what its training step allows"


def _guaranteed(plan: Plan) -> str:
    found = headline(plan)
    if found.unproved:
        return f"Not proved: {', '.join(format_words(name) for name in found.unproved)}."
    return proof_sentence(plan)
