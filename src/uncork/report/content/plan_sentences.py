"""What a report says of a plan in sentences: verdict, proof, cost, and what to type next."""

from __future__ import annotations

import math
import shlex

from uncork.core.base.measurement import is_open
from uncork.core.documents.plan import ENDED, NO_TIME, Plan, Step, TimeToFinish, ValidationTimes
from uncork.report.content.diagnosis_content import HEALTHY, WORTH_NAMING, Verdict, which
from uncork.report.content.edit_text import GUARANTEE_WORDS
from uncork.report.content.figures import count, duration, known, percent, times, words
from uncork.report.content.remedies import answering


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
    gave = f"Fresh processes gave {span(plan.speedup.low, plan.speedup.high)}."
    cause = gave if plan.speedup.n_processes > 1 else "Fresh processes have not confirmed it."
    return Verdict(sentence=sentence, cause=cause, tone="unknown")


def confirmation(plan: Plan) -> str:
    """What fresh processes, baseline and plan in turn, had to say."""
    speedup = plan.speedup
    if not plan.kept:
        return "nothing was kept, so there is nothing to confirm"
    if not speedup.n_processes:
        return "not confirmed in fresh processes"
    if plan.needed == plan.kept:
        return "it trains in a fresh process, where as written it runs out of memory"
    figures = f"{times(speedup.ratio)} ({span(speedup.low, speedup.high)})"
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
    gave = f"{times(found.speedup.ratio)}, {span(found.speedup.low, found.speedup.high)}"
    return f"{duration(found.baseline_s)} before, {duration(found.tuned_s)} after ({gave})"


def cost_sentence(plan: Plan) -> str:
    """What tuning cost and when it has paid for itself."""
    cost, time = f"Tuning took {duration(plan.tuning_cost_s)}", plan.time_to_finish
    saved = known(time.baseline_s - time.tuned_s) if time else None
    if saved is None or known(plan.tuning_cost_s) is None or not is_proven(plan):
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
    proven = is_proven(plan)
    if not plan.script:  # it was asked for from Python
        return "uncork.fit(model, data, plan=plan)" if proven else "plan = uncork.tune(model, data)"
    if not proven:
        return f"uncork tune {which(plan.before.workload)}{script}"
    return f"uncork run --plan {shlex.quote(path)} {script}"


def is_proven(plan: Plan) -> bool:
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
    if ENDED in plan.notes:
        tried = ENDED
    cause = f"{brake}, but {tried}." if brake else f"{tried[0].upper()}{tried[1:]}."
    answer = _refused_answer(plan)
    if answer and ENDED not in plan.notes:
        cause = f"{brake}; {words(answer.name)}: {answer.reason}."
    untried = sum(step.reason == NO_TIME for step in plan.steps)
    if untried:
        cause += f" For {untried} of {len(plan.steps)} there was no time: raise it with --budget."
    return Verdict(sentence=sentence, cause=cause, tone="unknown")


def _refused_answer(plan: Plan) -> Step | None:
    """What answers the first finding, and says why it cannot here; None where any was tried."""
    answers = answering(plan.before.findings[:1], plan.steps)
    told = all(each.outcome == "skipped" and each.reason != NO_TIME for each in answers)
    return answers[0] if answers and told else None


def _of_ceiling(plan: Plan) -> str:
    if not plan.target or known(plan.tuned.samples_per_s / plan.target) is None:
        return ""
    share = min(1.0, plan.tuned.samples_per_s / plan.target)  # the two were measured apart
    return f", {percent(share)} of what its training step allows"


def _guaranteed(plan: Plan) -> str:
    unproved = [step.name for step in plan.kept if not (step.proof and step.proof.passed)]
    if unproved:
        return f"Not proved: {', '.join(words(name) for name in unproved)}."
    return f"Proved: {GUARANTEE_WORDS[plan.guarantee]}."


def span(low: float, high: float | None, ratio: float = 1.0) -> str:
    """The interval of a ratio, as text."""
    if known(low) is None or known(high) is None:
        return "no interval"
    return f"{times(low)} or more" if is_open(ratio, high) else f"{times(low)} to {times(high)}"
