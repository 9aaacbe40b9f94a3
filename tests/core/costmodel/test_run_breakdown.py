from __future__ import annotations

import pytest

from records import WORKLOAD, observed, stage, workload_diagnosis
from uncork.core.base.measurement import Spread
from uncork.core.base.record import replace
from uncork.core.costmodel.run_breakdown import break_down_run, is_near_ceiling, unexplained_wait_s
from uncork.core.evidence.batches import RecordedBatches, VaryingShapes
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.loop import RecreatedFunction, StartupLine, StateGrowth

RUN = {"steps_per_epoch": 100, "epochs": 2}


def seconds(**found):
    """By group and name, of two epochs of a hundred steps of 0.1 s."""
    run = break_down_run(observed(step_s=0.1, **{"workload": RUN, **found}))
    return {(part.group, part.name): part.seconds for part in run.parts}


def test_shares_of_a_step_become_seconds_of_the_run():
    found = seconds(shares={"input": 0.2, "host": 0.1, "step": 0.6, "unknown": 0.1})
    assert found == pytest.approx(
        {
            ("input", ""): 4.0,
            ("host", ""): 2.0,
            ("step", ""): 12.0,
            ("unexplained", "within noise"): 2.0,
        }
    )


def test_what_comes_before_the_steps_is_counted_once():
    lines = (
        StartupLine(at="a.py:3", seconds=5.0),
        StartupLine(at="a.py:1", seconds=3.0, kind="imports"),
    )
    found = observed(startup_lines=lines, first_step_s=4.0, workload=RUN, shares={"step": 1.0})
    run = break_down_run(found)
    assert run.group_s("setup") == 8.0
    assert run.avoidable_s("setup") == 4.0  # neither imports nor the first second
    assert run.avoidable_s("compile") == 3.0
    assert run.avoidable_s("step") == 0.0


def test_the_step_is_told_by_the_phases_of_its_kernels():
    kernels = tuple(
        KernelGroup(phase=phase, share=share, calls_per_step=1.0, main_kernel="MatMul")
        for phase, share in (("forward", 0.3), ("backward", 0.4), ("forward", 0.2))
    )
    found = seconds(shares={"step": 1.0}, kernels=kernels)
    assert found == pytest.approx(
        {("step", "forward"): 10.0, ("step", "backward"): 8.0, ("step", ""): 2.0}
    )


def test_callbacks_validations_and_saves_come_as_often_as_the_run_has_them():
    saving = CheckpointCost(
        name="Saver", save_s=0.5, save_cpu_s=0.1, copy_s=0.1, copy_bytes=9, every_steps=100,
        trial_steps=9, is_save_best_only=True,
    )  # fmt: skip
    found = seconds(
        shares={"step": 1.0},
        callbacks=(
            CallbackCost(name="Board", batch_s=0.01, epoch_s=1.0),
            CallbackCost(name="Saver", batch_s=0.1, action_s=1.0),  # told as a save
        ),
        validation=Validation(validation_s=2.0, sample_count=320, validation_count=2),
        checkpoint_cost=saving,
    )
    assert found == pytest.approx(
        {
            ("step", ""): 20.0,
            ("callbacks", "Board, each batch"): 2.0,
            ("callbacks", "Board, each epoch"): 2.0,
            ("validation", ""): 4.0,
            ("saving", "at most Saver"): 1.0,
        }
    )


def test_a_validation_as_fast_as_the_step_is_no_distance_to_the_ceiling():
    validation = Validation(validation_s=1.0, sample_count=320, validation_count=2)
    fast = observed(step_s=0.1, shares={"step": 1.0}, workload=RUN, validation=validation)
    assert break_down_run(fast).headroom == pytest.approx(1.0)  # 320 samples are ten steps
    slow = replace(fast, validation=replace(validation, validation_s=5.0))
    assert break_down_run(slow).headroom == pytest.approx(30 / 22)


def test_compiling_for_new_shapes_is_what_the_whole_run_has_of_it():
    shapes = VaryingShapes(
        batch_count=10, shape_count=8, seen_once=6, seen_twice=2, compile_s_per_shape=1.0
    )
    found = seconds(shares={"step": 1.0}, varying_shapes=shapes)
    assert found[("compile", "new shapes")] == pytest.approx(12.0)
    run = break_down_run(observed(workload=RUN, shares={"step": 1.0}, varying_shapes=shapes))
    assert next(p.count for p in run.parts if p.name == "new shapes") == 13


@pytest.mark.parametrize(("without_s", "taken_from"), [(None, ("input", "")), (0.07, ("step", ""))])
def test_tracing_again_is_taken_from_where_it_was_measured(without_s, taken_from):
    plain = seconds(shares={"input": 0.4, "step": 0.6})
    found = seconds(
        shares={"input": 0.4, "step": 0.6}, tracing_share=0.3, step_s_without_tracing=without_s
    )
    assert found[("compile", "again")] == pytest.approx(6.0)
    assert plain[taken_from] - found[taken_from] == pytest.approx(6.0)


def test_a_new_function_for_each_epoch_and_a_growing_state_are_told():
    found = seconds(
        shares={"step": 1.0},
        recreated_function=RecreatedFunction(first_call_extra_s=1.5, at="a.py:7"),
        state_growth=StateGrowth(
            name="history", bytes_per_step=8.0, first_step_s=0.1, added_s_per_step=1e-4
        ),
    )
    assert found[("compile", "a new function each epoch")] == 3.0
    assert found[("host", "history")] == pytest.approx(1e-4 * 200 * 200 / 2)


def test_the_start_of_each_iterator_is_input_beside_the_steps_or_among_them():
    kept = RecordedBatches(batch_count=9, new_step_s=0.05, known_step_s=0.05, start_s=2.0)
    shares = {"input": 0.5, "step": 0.5}
    beside = seconds(shares=shares, recorded_batches=kept)
    assert beside[("input", "start")] == 4.0
    assert beside[("input", "")] == pytest.approx(10.0)
    among = seconds(shares=shares, recorded_batches=replace(kept, is_start_in_steps=True))
    assert among[("input", "start")] == 4.0
    assert among[("input", "")] == pytest.approx(6.0)


def test_waiting_for_an_input_that_is_faster_than_that_is_unexplained():
    slow = observed(step_s=0.1, shares={"input": 0.9, "step": 0.1}, workload=RUN)
    fast = replace(slow, ceilings={**slow.ceilings, "supply": 32_000.0})
    assert unexplained_wait_s(slow) == 0.0  # nobody knows how fast the input is
    assert unexplained_wait_s(fast) == pytest.approx(0.089)
    assert break_down_run(fast).unexplained_share == pytest.approx(0.89)
    assert not is_near_ceiling(fast)


def test_of_a_loop_of_unknown_length_an_epoch_or_a_step_is_broken_down():
    endless = {**RUN, "is_epoch_count_assumed": True}
    run = break_down_run(
        observed(step_s=0.1, workload=endless, shares={"step": 1.0}, first_step_s=9.0)
    )
    assert (run.scope, run.seconds) == ("an epoch", pytest.approx(10.0))
    for unknown in ({"steps_per_epoch": None}, {"is_fit_in_loop": True}):
        run = break_down_run(
            observed(step_s=0.1, workload={**RUN, **unknown}, shares={"step": 1.0})
        )
        assert (run.scope, run.seconds) == ("a step", pytest.approx(0.1))


def test_the_slowest_stage_is_where_the_input_stands():
    stages = (stage(0, "map", 0.01), stage(1, "map", 0.05), stage(2, "batch", 0.001))
    run = break_down_run(observed(*stages, workload=RUN, shares={"input": 0.5, "step": 0.5}))
    assert next(part.at for part in run.parts if part.group == "input") == "train.py:21"


def test_seconds_between_epochs_are_input_of_their_own():
    found = workload_diagnosis(workload=WORKLOAD)
    found = replace(found, measurement=replace(found.measurement, between_epochs_share=0.25))
    names = {part.name: part.seconds for part in break_down_run(found).parts}
    steps_s = 3120 * found.step_s
    assert names["between epochs"] == pytest.approx(0.25 * steps_s)


def test_what_a_loop_of_one_s_own_does_beside_its_step_is_the_host_s():
    loop = {**RUN, "kind": "custom_loop", "model": None}
    found = observed(step_s=0.1, shares={"input": 0.9, "step": 0.1}, workload=loop)
    run = break_down_run(replace(found, ceilings={**found.ceilings, "supply": 32_000.0}))
    names = {(part.group, part.name): part.seconds for part in run.parts}
    assert names["host", "outside the step"] == pytest.approx(17.8)
    assert names["input", ""] == pytest.approx(0.2)
    assert run.unexplained_share == 0.0


def test_shares_that_were_not_measured_are_unexplained():
    run = break_down_run(observed(step_s=0.1, workload=RUN))
    assert run.unexplained_share == 1.0
    assert run.parts[0].name == "not measured"


@pytest.mark.parametrize(("low", "host_s"), [(0.15, 4.0), (0.05, 1.0), (-0.1, 0.0)])
def test_of_python_between_steps_only_what_is_certain_is_told(low, host_s):
    spread = Spread(median=0.2, low=low, high=0.4, n=4)
    run = break_down_run(
        observed(
            step_s=0.1,
            workload=RUN,
            shares={"host": 0.2, "step": 0.8},
            breakdown_intervals={"host": spread},
        )
    )
    assert run.group_s("host") == pytest.approx(host_s)
    assert run.group_s("unexplained") == pytest.approx(4.0 - host_s)
