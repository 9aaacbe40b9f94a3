from __future__ import annotations

import math

import pytest

from records import MACHINE, STAGES, WORKLOAD, healthy_diagnosis, workload_diagnosis
from uncork.core.base.record import replace
from uncork.core.evidence.stage import AUTOTUNE, Stage
from uncork.report.content.stage_rows import stage_rate, stage_rows


def stage(**changes):
    base = Stage(
        index=0,
        kind="map",
        cpu_s_per_element=2e-3,
        wall_s_per_element=4e-3,
        elements_per_step=10,
        parallelism=1,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 250.0),
        ({"parallelism": None}, 250.0),
        ({"parallelism": 2}, 1000.0),
        ({"parallelism": 64}, 2000.0),
        ({"parallelism": AUTOTUNE}, 2000.0),
        ({"wall_s_per_element": None}, 500.0),
        ({"parallelism": 4, "cpu_s_per_element": None}, 1000.0),
    ],
)
def test_serial_stages_are_bound_by_elapsed_time_parallel_ones_by_cores(changes, expected):
    assert stage_rate(stage(**changes), 10, cpus=4) == pytest.approx(expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"wall_s_per_element": None, "cpu_s_per_element": None},
        {"wall_s_per_element": math.nan, "cpu_s_per_element": math.inf},
        {"wall_s_per_element": 0.0},
        {"elements_per_step": None},
    ],
)
def test_unknown_cost_is_an_unknown_rate(changes):
    assert stage_rate(stage(**changes), 10, cpus=4) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parallelism": 1}, "serial"),
        ({"parallelism": 4}, "4 in parallel"),
        ({"parallelism": AUTOTUNE}, "parallel (auto)"),
        ({"parallelism": AUTOTUNE, "autotuned_parallelism": 2}, "2 in parallel, auto"),
        ({"parallelism": None}, ""),
    ],
)
def test_how_a_stage_runs_is_told(changes, expected):
    diagnosis = replace(workload_diagnosis(), stages=(stage(**changes),))
    assert [row.parallelism_text for row in stage_rows(diagnosis, MACHINE)] == [expected]


def test_the_slowest_stage_is_the_bottleneck():
    rows = stage_rows(workload_diagnosis(), MACHINE)
    assert [row.kind for row in rows if row.is_bottleneck] == ["map"]
    neck = rows[2]
    assert neck.samples_per_s == pytest.approx(645, rel=0.01)
    assert neck.cpu_s_per_step == pytest.approx(0.04896)
    assert neck.share == pytest.approx(0.92, abs=0.01)
    assert (neck.parallelism_text, neck.traits, neck.at) == ("serial", ("random",), "train.py:23")


def test_what_a_costly_map_spends_its_time_on_is_told_with_its_lines():
    costly = stage_rows(workload_diagnosis(), MACHINE)[2]
    told = [(cost.op, cost.at, cost.share) for cost in costly.op_rows]
    assert told == [
        ("DecodeJpeg", "train.py:15", 0.61),
        ("ResizeBilinear", "train.py:16", 0.3),
        ("ReadFile", None, 0.05),
    ]
    assert costly.op_rows[0].cpu_s_per_step == pytest.approx(0.61 * 0.04896)


def test_of_a_map_that_costs_little_nothing_more_is_told():
    dear = replace(STAGES[4], cpu_s_per_element=1.0)
    rows = stage_rows(workload_diagnosis(stages=(*STAGES[:4], dear)), MACHINE)
    assert [row.op_rows for row in rows] == [()] * 5


def test_a_pipeline_that_keeps_up_has_no_bottleneck():
    assert not any(row.is_bottleneck for row in stage_rows(healthy_diagnosis(), MACHINE))


def test_stages_that_are_fast_alone_but_slow_together_still_name_the_slowest():
    fast = tuple(replace(each, wall_s_per_element=1e-6, parallelism=None) for each in STAGES)
    together = workload_diagnosis(stages=fast)
    assert sum(row.is_bottleneck for row in stage_rows(together, MACHINE)) == 1


def test_an_unknown_batch_size_is_taken_from_the_measurement():
    unsized = workload_diagnosis(workload=replace(WORKLOAD, batch_size=None))
    assert stage_rows(unsized, MACHINE)[2].samples_per_s == pytest.approx(645, rel=0.01)


def test_unknown_costs_give_unknown_rows():
    blank = tuple(Stage(index=n, kind="map") for n in range(2))
    rows = stage_rows(workload_diagnosis(stages=blank), MACHINE)
    assert [(r.samples_per_s, r.cpu_s_per_step, r.share, r.is_bottleneck) for r in rows] == [
        (None, None, None, False)
    ] * 2
