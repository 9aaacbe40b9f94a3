from __future__ import annotations

import json
from typing import Any

import pytest

from records import STEPS, empty_plan, plan
from uncork.core.base.errors import PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import PLAN_SCHEMA, Policy
from uncork.core.documents.plan_file import _digest as seal_of
from uncork.core.documents.plan_file import parse_plan, seal_plan, serialize_plan
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import StepEdit


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(serialize_plan(plan())), **fields}).encode()


def refusal(text: bytes) -> str:
    with pytest.raises(PlanRefused) as caught:
        parse_plan(text, "plan.json")
    assert caught.value.expected
    assert caught.value.remedy
    return caught.value.received


def test_what_is_dumped_is_loaded():
    assert parse_plan(serialize_plan(plan())) == seal_plan(plan())
    assert parse_plan(serialize_plan(empty_plan())).edits == ()


def test_sealing_twice_is_sealing_once():
    assert seal_plan(seal_plan(plan())) == seal_plan(plan())
    assert seal_plan(replace(plan(), digest="anything")) == seal_plan(plan())
    assert seal_plan(plan()).digest != seal_plan(empty_plan()).digest


def test_what_a_later_release_knows_besides_does_not_break_the_seal():
    fields = json.loads(serialize_plan(plan()))
    stages = fields["before"]["stages"]
    assert any(
        stage.pop("unused_output_maps") == [] for stage in stages
    )  # as if it had no such field yet
    older = {**fields, "digest": ""}
    sealed = seal_of(json.dumps(older).encode())
    assert parse_plan(json.dumps({**older, "digest": sealed}).encode()).before == plan().before


def test_whole_numbers_given_for_floats_do_not_break_the_seal():
    made = replace(plan(), tuning_cost_s=214, policy=Policy(budget_s=300))
    assert parse_plan(serialize_plan(made)).tuning_cost_s == 214.0


def test_layout_of_the_file_does_not_matter():
    minified = json.dumps(json.loads(serialize_plan(plan())), separators=(",", ":")).encode()
    assert parse_plan(minified) == seal_plan(plan())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"not json",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"schema": "1"}',
        b'{"schema": true}',
        b'{"schema": 1.5}',
        b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe",
        b'{"schema": %d, "script": "\xff\xfe"}' % PLAN_SCHEMA,
        serialize_plan(plan())[:-40],
        serialize_plan(plan())[40:],
        b"[" * 100_000,
        b'{"schema": %d, "notes": ' % PLAN_SCHEMA + b"[" * 100_000,
    ],
    ids=range(16),
)
def test_what_is_no_plan_is_refused_by_name(text):
    assert refusal(text).startswith("plan.json is ")


@pytest.mark.parametrize("schema", [PLAN_SCHEMA + 1, 999])
def test_a_newer_schema_asks_for_an_upgrade(schema):
    with pytest.raises(PlanRefused, match=f"schema {schema}") as caught:
        parse_plan(changed(schema=schema))
    assert "pip install -U uncork" in caught.value.remedy


@pytest.mark.parametrize("schema", [PLAN_SCHEMA - 1, 0, -1])
def test_an_older_schema_asks_for_another_tuning(schema):
    with pytest.raises(PlanRefused, match=f"schema {schema}") as caught:
        parse_plan(changed(schema=schema))
    assert "uncork tune" in caught.value.remedy


def test_a_newer_plan_is_called_newer_even_with_fields_we_do_not_know():
    assert f"schema {PLAN_SCHEMA + 1}" in refusal(changed(schema=PLAN_SCHEMA + 1, promises="none"))


@pytest.mark.parametrize("field", ["machine", "before", "steps", "speedup", "script_digest"])
def test_a_missing_field_is_named(field):
    fields = json.loads(serialize_plan(plan()))
    del fields[field]
    assert f"`{field}`" in refusal(json.dumps(fields).encode())


def test_an_unknown_field_is_named():
    assert "`stepps`" in refusal(changed(stepps=[]))


def test_a_wrong_type_is_named_with_its_path():
    fields = json.loads(serialize_plan(plan()))
    fields["steps"][1]["edits"][0]["stage"] = "two"
    assert "$.steps[1].edits[0].stage" in refusal(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: p["steps"][1]["edits"][0].update(stage=3),
        lambda p: p["steps"][4]["edits"][0].update(steps=64),
        lambda p: p["steps"][5].update(outcome="kept"),
        lambda p: p["steps"][1]["proof"].update(passed=False),
        lambda p: p["steps"].pop(),
        lambda p: p["steps"].reverse(),
        lambda p: p["policy"].update(loosest_guarantee="training"),
        lambda p: p["speedup"].update(ratio=37.9),
        lambda p: p.update(script="other.py"),
        lambda p: p.update(digest=""),
        lambda p: p.update(digest="0" * 16),
        lambda p: p.pop("digest"),
    ],
    ids=range(12),
)
def test_a_hand_edited_plan_is_noticed(edit):
    fields = json.loads(serialize_plan(plan()))
    edit(fields)
    assert "was changed after it was proved" in refusal(json.dumps(fields).encode())


def test_only_kept_steps_are_in_force():
    made = plan()
    assert [s.name for s in made.accepted_steps] == [
        "split_map",
        "cache",
        "prefetch",
        "steps_per_execution",
    ]
    assert made.edits == tuple(edit for step in made.accepted_steps for edit in step.edits)
    assert all(isinstance(e, PipelineEdit) for e in made.pipeline_edits)
    assert all(isinstance(e, StepEdit) for e in made.step_edits)
    assert len(made.pipeline_edits) + len(made.step_edits) == len(made.edits)


def test_rejected_steps_weaken_no_promise():
    assert plan().guarantee == "exact"
    weaker = replace(STEPS[6], outcome="kept")
    assert plan(steps=(*STEPS[:5], weaker)).guarantee == "precision"
    assert empty_plan().guarantee == "exact"


def test_the_target_is_the_ceiling_after_tuning():
    made = plan()
    after = replace(made.after, ceilings={"consumer": 3000.0})
    assert replace(made, after=after).ceiling_samples_per_s == 3000.0
    assert replace(made, after=None).ceiling_samples_per_s == made.before.ceilings["consumer"]
    assert replace(made, after=replace(after, ceilings={})).ceiling_samples_per_s == 0.0
