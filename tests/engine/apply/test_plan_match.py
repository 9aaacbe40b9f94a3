"""A plan is used only where what it was proved on is found again; else it is said what differs."""

from __future__ import annotations

import platform
from typing import Any

import keras
import pytest

from records import STEPS, WORKLOAD, plan, workload_diagnosis
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, PlanStep
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import KerasBackend
from uncork.core.edits.pipeline import Prefetch
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    MicroBatches,
    RecomputeActivations,
    StepsPerExecution,
    TfFunction,
)
from uncork.engine.apply.plan_match import plan_differences


def with_edits(*edits: Any, **of_the_call: Any) -> Plan:
    kept = next(step for step in STEPS if step.outcome == "kept")
    steps: tuple[PlanStep, ...] = (replace(kept, edits=edits),)
    made_for = replace(WORKLOAD, **of_the_call)
    return plan(steps=steps, before=workload_diagnosis(workload=made_for))


def found(**changes: Any) -> Workload:
    return replace(WORKLOAD, **changes)


PIPELINE = Prefetch(expected_digest="51ab")
GROUPED = StepsPerExecution(steps=8)
BFLOAT16 = DtypePolicy(policy="mixed_bfloat16")


def test_the_same_training_fits() -> None:
    assert plan_differences(plan(), found()) == ()


@pytest.mark.parametrize(
    "changes",
    [{"at": "train.py:99"}, {"epochs": 100}, {"steps_per_epoch": 3}, {"batch_size": 7}],
    ids=str,
)
def test_what_no_edit_depends_on_may_change(changes: dict[str, Any]) -> None:
    assert plan_differences(with_edits(PIPELINE, GROUPED), found(**changes)) == ()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kind": "custom_loop"}, "kind of loop"),
        ({"data_kind": "numpy"}, "data"),
        ({"element_spec": "(float32[batch, 8], int64[batch])"}, "batch"),
        ({"pipeline_digest": "ffff"}, "input pipeline"),
    ],
    ids=str,
)
def test_another_input_is_named(changes: dict[str, Any], named: str) -> None:
    (line,) = plan_differences(with_edits(PIPELINE), found(**changes))
    assert line.startswith(named)
    assert str(next(iter(changes.values()))) in line


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("name", "Functional", "class of the model"),
        ("parameter_count", 7, "number of weights"),
        ("variables_digest", "ffff", "shapes of the weights"),
        ("optimizer", "SGD", "optimizer"),
        ("loss", "mse", "loss"),
        ("dtype_policies", ("mixed_float16",), "dtype policy"),
        ("train_step_digest", "abcd", "code of train_step"),
    ],
)
def test_another_model_is_named(field: str, value: object, named: str) -> None:
    assert WORKLOAD.model is not None
    other = replace(WORKLOAD.model, **{field: value})
    (line,) = plan_differences(with_edits(BFLOAT16), found(model=other))
    assert line.startswith(named)


def test_a_plan_for_the_input_alone_takes_any_model() -> None:
    assert WORKLOAD.model is not None
    other = replace(WORKLOAD.model, optimizer="SGD", parameter_count=3)
    assert plan_differences(with_edits(PIPELINE), found(model=other)) == ()


def test_a_plan_for_the_step_alone_takes_any_pipeline_of_the_same_batches() -> None:
    assert plan_differences(with_edits(GROUPED), found(pipeline_digest="ffff")) == ()


def test_weights_of_a_model_that_is_not_built_yet_are_no_difference() -> None:
    assert WORKLOAD.model is not None
    unbuilt = replace(WORKLOAD.model, parameter_count=0, variables_digest="")
    assert plan_differences(with_edits(GROUPED), found(model=unbuilt)) == ()


def test_callbacks_on_every_batch_matter_to_grouped_steps_only() -> None:
    watched = found(batch_callbacks=("Watcher",))
    (line,) = plan_differences(with_edits(GROUPED), watched)
    assert "callbacks on every batch" in line
    assert "Watcher" in line
    assert plan_differences(with_edits(BFLOAT16), watched) == ()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"validation_steps": 10}, "validation_steps: the plan was made for a multiple of 8"),
        ({"steps_per_epoch": 12, "has_explicit_steps": True}, "steps_per_epoch"),
        ({"steps_per_epoch": None}, "length of the data"),
        ({"is_distributed": True}, "tf.distribute strategy"),
    ],
    ids=str,
)
def test_what_would_make_a_group_of_steps_another_training(
    changes: dict[str, Any], named: str
) -> None:
    (line,) = plan_differences(with_edits(GROUPED), found(**changes))
    assert line.startswith(named)
    assert plan_differences(with_edits(PIPELINE), found(**changes)) == ()


def test_a_validation_of_whole_executions_fits() -> None:
    assert plan_differences(with_edits(GROUPED), found(validation_steps=16)) == ()


def test_a_callback_of_every_batch_stays_with_its_backend() -> None:
    made = with_edits(
        KerasBackend(backend="jax", backend_version="0.9.0"), batch_callbacks=("Warmup",)
    )
    (line,) = plan_differences(made, found(batch_callbacks=("Warmup",)))
    assert line.startswith("callbacks on every batch")
    assert "Warmup" in line
    assert plan_differences(made, found()) == ()


@pytest.mark.parametrize(
    ("edit", "refused"),
    [
        (JitCompile(), True),
        (BFLOAT16, True),
        (MicroBatches(parts=2), True),
        (RecomputeActivations(segments=2), True),
        (GROUPED, False),
    ],
)
def test_what_was_proved_of_some_code_is_not_used_on_other_code(edit: Any, refused: bool) -> None:
    """XLA would leave out a check that was put into the loss since, without a word."""
    assert WORKLOAD.model is not None
    made = with_edits(edit)
    made = replace(made, machine=replace(made.machine, python=platform.python_version()))
    other = found(model=replace(WORKLOAD.model, code_digest="c0de"))
    assert plan_differences(made, found()) == ()
    assert any("code of the model" in line for line in plan_differences(made, other)) is refused
    elsewhere = replace(made, machine=replace(made.machine, python="2.7.18"))
    assert plan_differences(elsewhere, other) == (), "another Python compiles it to something else"


@pytest.mark.parametrize(
    ("edit", "refused"), [(JitCompile(), True), (BFLOAT16, True), (GROUPED, False)]
)
def test_what_was_proved_of_some_layers_is_not_used_on_others(edit: Any, refused: bool) -> None:
    """An activation, say, whose values another precision cannot hold."""
    assert WORKLOAD.model is not None
    made = with_edits(edit)
    made = replace(made, machine=replace(made.machine, keras=keras.__version__))
    other = found(model=replace(WORKLOAD.model, architecture_digest="1a7e", parameter_count=0))
    unbuilt = replace(WORKLOAD.model, parameter_count=0)
    made = replace(made, before=workload_diagnosis(workload=found(model=unbuilt)))
    assert any("layers of the model" in line for line in plan_differences(made, other)) is refused
    elsewhere = replace(made, machine=replace(made.machine, keras="3.0.0"))
    assert plan_differences(elsewhere, other) == (), "another Keras writes it down otherwise"


@pytest.mark.parametrize(
    "edit", [JitCompileOff(), DtypePolicy(policy="mixed_float16"), TfFunction(code_digest="")]
)
def test_steps_that_would_count_otherwise_at_the_end_of_the_data(edit: Any) -> None:
    made = with_edits(edit)
    assert plan_differences(made, found(steps_per_epoch=10)) == ()
    (line,) = plan_differences(made, found(steps_per_epoch=None))
    assert line.startswith("length of the data")
