"""Whose is the time of a measured step?"""

from __future__ import annotations

import pytest

from records import STAGES, measurement, workload_diagnosis
from uncork.core.base.record import replace
from uncork.core.costmodel.attribution import (
    _together,
    attribute_costs,
    discarded_cpu_s,
    overlapped_step_s,
)
from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import AUTOTUNE, INFINITE_LENGTH, RandomPart, Stage

# 40 ms of a step, on all cores.
DECODE = Stage(
    index=0,
    kind="map",
    cpu_s_per_element=0.004,
    wall_s_per_element=0.004,
    elements_per_step=10.0,
    parallelism=AUTOTUNE,
)


def trained(cpu_s: float, *, own: float | None = 0.02, **changes) -> WorkloadDiagnosis:
    """A step of 50 ms that decodes."""
    measured = replace(measurement(640.0), cpu_s_per_step=cpu_s)
    return workload_diagnosis(
        **{"stages": (DECODE,), "measurement": measured, "consumer_cpu_s": own, **changes}
    )


def test_costs_come_from_the_diagnosis():
    seen = workload_diagnosis()
    found = attribute_costs(seen, 2.0)
    assert found.consumer_s == pytest.approx(32 / 2480)
    assert found.stages == STAGES
    assert found.cpu_s() >= seen.measurement.cpu_s_per_step


@pytest.mark.parametrize(
    ("cpu_s", "overhead", "nobodys_s"),
    [
        (0.06, 0.0, 0.0),
        (0.07, 0.25, 0.0),
        (0.10, 1.0, 0.0),
        (0.13, 1.0, 0.03),  # that cannot be the input's
    ],
)
def test_what_neither_explains_is_the_inputs_up_to_its_double(cpu_s, overhead, nobodys_s):
    found = attribute_costs(trained(cpu_s), 2.0)
    assert found.input_overhead == pytest.approx(overhead)
    assert found.unattributed_cpu_s == pytest.approx(nobodys_s)
    assert found.consumer_cpu_s == pytest.approx(0.02)
    assert found.cpu_s() == pytest.approx(cpu_s)


def test_stages_cost_no_more_than_the_training_leaves_them():
    """One by one they came to 40 ms, 20 beside the consumer are left of 50."""
    found = attribute_costs(trained(0.05), 2.0)
    assert found.cpu_s() == pytest.approx(0.05)
    assert found.consumer_cpu_s == pytest.approx(0.02)
    assert found.stages[0].wall_s_per_element == pytest.approx(0.003)
    assert (found.input_overhead, found.unattributed_cpu_s) == (0.0, 0.0)


def test_but_for_what_the_times_may_be_wrong_by():
    assert attribute_costs(trained(0.021), 2.0).stages_cpu_s() == pytest.approx(0.0021)


def test_python_may_work_in_processes_whose_time_is_not_counted():
    loader = replace(DECODE, has_python_code=True)
    found = attribute_costs(trained(0.05, stages=(loader,)), 2.0)
    assert found.stages == (loader,)


def test_what_a_shuffle_holds_may_have_been_made_before_the_measured_steps():
    shuffle = Stage(index=1, kind="shuffle", is_random=True)
    assert attribute_costs(trained(0.05, stages=(DECODE, shuffle)), 2.0).stages[0] == DECODE
    below = replace(shuffle, index=0)
    fitted = attribute_costs(trained(0.05, stages=(below, replace(DECODE, index=1))), 2.0)
    assert fitted.stages_cpu_s() == pytest.approx(0.03)


def test_what_was_not_measured_says_nothing_of_the_stages():
    assert attribute_costs(trained(0.0), 2.0).stages == (DECODE,)


def test_it_goes_where_the_input_goes():
    found = attribute_costs(trained(0.07), 2.0)
    assert found.without_stages([0]).cpu_s() == pytest.approx(0.02)
    assert found.with_stages_share([0], 0.5).cpu_s() == pytest.approx(0.045)


def test_what_is_made_ahead_for_nobody_stays():
    """Ten elements are ready when each pass of two steps ends: as many again as it takes."""
    left_early = replace(DECODE, length=INFINITE_LENGTH, prefetched_elements=10)
    workload = replace(workload_diagnosis().workload, kind="custom_loop", steps_per_epoch=2)
    found = attribute_costs(trained(0.09, stages=(left_early,), workload=workload), 2.0)
    assert found.unattributed_cpu_s == pytest.approx(0.02)
    assert found.input_overhead == pytest.approx(0.25)


def test_where_the_consumer_was_not_measured_it_costs_the_rest():
    found = attribute_costs(trained(0.07, own=None), 2.0)
    assert (found.input_overhead, found.unattributed_cpu_s) == (0.0, 0.0)
    assert found.consumer_cpu_s == pytest.approx(0.03)


def test_first_is_spared_what_is_nobodys():
    found = attribute_costs(trained(0.13), 2.0)
    assert found.without_unattributed_cpu(0.02).unattributed_cpu_s == pytest.approx(0.01)
    assert found.without_unattributed_cpu(0.05).input_overhead == pytest.approx(0.5)
    assert found.without_unattributed_cpu(9.0).cpu_s() == pytest.approx(0.06)


def test_where_nothing_consumes_what_is_unexplained_is_the_stages():
    draws = RandomPart(deterministic_op_count=3, cpu_s_per_element=0.001)
    map_ = replace(DECODE, parallelism=1, random_part=draws)
    alone = workload_diagnosis(
        stages=(map_,),
        measurement=replace(measurement(320.0), cpu_s_per_step=0.08),
        consumer_cpu_s=0.0001,
    )
    found = attribute_costs(alone, 2.0)
    assert found.consumer_cpu_s == 0.0
    assert found.cpu_s() == pytest.approx(0.08)
    assert found.stages[0].wall_s_per_element == pytest.approx(0.008)
    assert found.stages[0].random_part.cpu_s_per_element == pytest.approx(0.002)
    trained = attribute_costs(replace(alone, consumer_cpu_s=0.03), 2.0)
    assert trained.stages == alone.stages
    assert trained.consumer_cpu_s == pytest.approx(0.03)
    assert trained.cpu_s() == pytest.approx(0.08)


def test_without_a_ceiling_the_step_itself_is_the_consumer():
    seen = workload_diagnosis(ceilings={}, stages=())
    assert attribute_costs(seen, 2.0).consumer_s == seen.step_s


def test_the_consumer_never_costs_less_than_nothing():
    slow = replace(measurement(612.0), cpu_s_per_step=0.0)
    assert attribute_costs(workload_diagnosis(measurement=slow), 2.0).consumer_cpu_s == 0.0


def test_nor_less_than_alone_where_stages_timed_one_by_one_explain_too_much():
    map_ = replace(DECODE, cpu_s_per_element=0.01, parallelism=2)
    seen = workload_diagnosis(
        stages=(map_,),
        measurement=replace(measurement(320.0), cpu_s_per_step=0.09),
        consumer_cpu_s=0.03,
    )
    assert attribute_costs(seen, 2.0).consumer_cpu_s == 0.03
    assert attribute_costs(replace(seen, consumer_cpu_s=0.2), 2.0).consumer_cpu_s == 0.09


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        (0.8, 0.04),  # it waits as long as making the batch takes
        (0.805, 0.04025),  # the call takes longer, and stays
        (0.99, 0.0405),  # that is no call
    ],
)
def test_asking_for_a_batch_is_not_overlapped(waited, expected):
    serial = replace(DECODE, parallelism=1)
    ceilings = {"consumer": 800.0}
    seen = trained(0.06, stages=(serial,), breakdown={"input": waited}, ceilings=ceilings)
    assert overlapped_step_s(seen, 2.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measured", "together"),
    [
        (2.0, 0.5),  # slower than told: something else is the matter
        (1.0, 0.5),
        (0.75, 2 / 3),  # half as much slower as it was told to be
        (0.5, 1.0),
        (0.3, 1.0),  # less than any cores can do: a stage costs less in the training
    ],
)
def test_cores_are_no_slower_together_than_the_training_shows(measured, together):
    told = StepCosts(
        consumer_s=0.0001,
        consumer_cpu_s=0.0001,
        stages=(replace(DECODE, cpu_s_per_element=0.04, wall_s_per_element=0.04),),
        cpus=4,
        busy_core_speed_ratio=0.5,
    )
    shown = replace(told, measured_step_s=measured * told.step_s())
    assert _together(shown) == pytest.approx(together, rel=0.02)


def test_where_a_pass_is_longer_than_the_data_nothing_is_thrown_away():
    short = replace(DECODE, length=10, prefetched_elements=100)
    workload = replace(workload_diagnosis().workload, kind="custom_loop", steps_per_epoch=5)
    seen = trained(0.09, stages=(short,), workload=workload)
    assert discarded_cpu_s(seen, short) == 0.0
