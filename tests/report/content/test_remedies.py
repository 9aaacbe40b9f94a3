"""What answers a cause is a step of the road, and is told first of what was not tried."""

from __future__ import annotations

from typing import get_args

from records import FINDINGS, STEPS, empty_plan, healthy_diagnosis
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Cause
from uncork.core.documents.plan import LOOP_ENDED_NOTE, NO_TIME_REASON
from uncork.optimizations.order import OPTIMIZATIONS
from uncork.report.content.plan_content import plan_info
from uncork.report.content.plan_sentences import plan_verdict
from uncork.report.content.remedies import OPTIMIZATIONS_BY_CAUSE, steps_for_findings

SKIPPED = replace(STEPS[0], outcome="skipped", measured=None, proof=None)
EAGER = replace(FINDINGS[0], cause="eager_step")
WHY = "the step cannot become a graph: it changes 'seen' in each step"


def left(*steps: tuple[str, str], notes: tuple[str, ...] = ()):
    """A plan that keeps nothing."""
    before = healthy_diagnosis(headroom=3.0, findings=(EAGER,))
    made = tuple(replace(SKIPPED, name=name, reason=reason) for name, reason in steps)
    return replace(empty_plan(before=before, steps=made), notes=notes)


def test_causes_and_steps_are_there():
    names = {optimization.name for optimization in OPTIMIZATIONS}
    assert set(OPTIMIZATIONS_BY_CAUSE) <= set(get_args(Cause))
    assert {name for answers in OPTIMIZATIONS_BY_CAUSE.values() for name in answers} <= names


def test_in_the_order_of_the_findings():
    steps = [replace(SKIPPED, name=name) for name in ("cache", "vectorize", "tf_function")]
    found = [replace(EAGER, cause=cause) for cause in ("eager_step", "healthy", "cache_missing")]
    assert [step.name for step in steps_for_findings(found, steps)] == ["tf_function", "cache"]


def test_what_answers_the_finding_comes_first():
    plan = left(("filter_first", "no filter follows"), ("cache", "no map"), ("tf_function", WHY))
    shown = [row.name for row in plan_info(plan).skipped]
    assert shown == ["tf_function", "filter_first", "cache"]
    assert plan_verdict(plan).cause == f"Uncork found eager step; tf function: {WHY}."


def test_a_step_that_there_was_no_time_for_is_not_cited():
    cause = plan_verdict(left(("tf_function", NO_TIME_REASON))).cause
    assert cause.startswith("Uncork found eager step, but no optimization was faster")


def test_a_loop_that_ended_is_no_road_that_was_gone_to_its_end():
    cause = plan_verdict(left(("filter_first", "no filter"), notes=(LOOP_ENDED_NOTE,))).cause
    assert cause == f"Uncork found eager step, but {LOOP_ENDED_NOTE}."
