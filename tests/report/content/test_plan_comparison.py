"""Two plans side by side."""

from records import STEPS, plan
from uncork.core.base.record import replace
from uncork.report.content.plan_comparison import compare_plans

PATHS = ("a.json", "b.json")
KEPT = [step for step in STEPS if step.outcome == "kept"]


def test_what_one_has_and_the_other_has_not_comes_first():
    less = plan(steps=tuple(step for step in STEPS if step is not KEPT[0]))
    found = compare_plans(plan(), less, PATHS)
    name = KEPT[0].name
    assert found.sentence == f"Only a.json has {name.replace('_', ' ')}."
    assert found.steps[0].label == name
    assert found.steps[0].first.startswith("accepted")
    assert found.steps[0].second == "not known to this plan"
    assert {row.label for row in found.steps} == {s.name for s in STEPS if s.outcome != "skipped"}


def test_equal_plans_differ_in_nothing():
    found = compare_plans(plan(), plan(), PATHS)
    assert found.sentence == "Both plans have the same optimizations."
    assert all(row.first == row.second for row in (*found.figures, *found.steps))
    assert not any(row.label.startswith("machine") for row in found.figures)
    assert "different times" in found.caveat


def test_machines_are_named_where_they_differ():
    other = replace(plan(), machine=replace(plan().machine, cpus=64.0))
    found = compare_plans(plan(), other, PATHS)
    (row,) = [row for row in found.figures if row.label.startswith("machine")]
    assert (row.label, row.second) == ("machine: Cores", "64")
    assert "different machines" in found.caveat


def test_plans_for_other_scripts_say_so():
    found = compare_plans(plan(), replace(plan(), script_digest="0" * 16), PATHS)
    assert "different scripts" in found.caveat
