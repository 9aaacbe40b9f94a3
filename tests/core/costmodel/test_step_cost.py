from __future__ import annotations

import pytest

from uncork.core.base.record import replace
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.evidence.stage import AUTOTUNE, MapPrefix, RandomPart, Stage
from uncork.core.evidence.stage_graph import subtree_indices


def stage(index: int, cost_s: float, kind: str = "map", **fields) -> Stage:
    """A stage that costs so many seconds for each of the ten elements of a step."""
    return Stage(
        index=index,
        kind=kind,
        cpu_s_per_element=cost_s,
        wall_s_per_element=cost_s,
        elements_per_step=10,
        **fields,
    )


def costs(*stages: Stage, consumer_s: float = 0.01, cpus: float = 4) -> StepCosts:
    return StepCosts(consumer_s=consumer_s, consumer_cpu_s=consumer_s, stages=stages, cpus=cpus)


def test_without_input_the_step_is_the_limit():
    assert costs().step_s() == 0.01


def test_a_serial_map_is_one_thread():
    assert costs(stage(0, 0.01, parallelism=1)).step_s() == pytest.approx(0.1)


def test_serial_neighbours_share_a_thread():
    both = costs(stage(0, 0.01, parallelism=1), stage(1, 0.02, kind="batch"))
    assert both.step_s() == pytest.approx(0.3)


def test_a_prefetch_between_them_makes_two_threads():
    apart = costs(
        stage(0, 0.01, parallelism=1),
        Stage(index=1, kind="prefetch"),
        stage(2, 0.02, parallelism=1),
    )
    assert apart.step_s() == pytest.approx(0.2)


def test_a_parallel_map_between_them_makes_two_threads():
    apart = costs(
        stage(0, 0.01, parallelism=1),
        stage(1, 0.001, parallelism=AUTOTUNE),
        stage(2, 0.02, parallelism=1),
    )
    assert apart.step_s() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("stages", "consumer_s", "slower"),
    [
        ((stage(0, 0.04, parallelism=AUTOTUNE),), 0.0001, 1.617),  # all cores are busy, nearly
        ((stage(0, 0.01, parallelism=1),), 0.0, 1.0),  # one thread is alone
        ((), 0.01, 1.0),  # so is the step
        ((stage(0, 0.01, parallelism=1),), 0.1, 1 + (2 / 3 / 3)),  # two of four side by side
    ],
)
def test_cores_are_slower_together_than_alone(stages, consumer_s, slower):
    fast = costs(*stages, consumer_s=consumer_s)
    assert replace(fast, busy_core_speed_ratio=0.6).step_s() == pytest.approx(
        slower * fast.step_s(), rel=0.01
    )


def test_a_step_that_was_timed_with_all_cores_busy_is_slow_enough():
    busy = replace(costs(stage(0, 0.04, parallelism=AUTOTUNE)), consumer_cpu_s=0.04)
    assert replace(busy, busy_core_speed_ratio=0.5).step_s() == busy.step_s()


def test_a_parallel_map_is_spread_over_the_cores():
    spread = costs(stage(0, 0.04, parallelism=AUTOTUNE))
    assert spread.step_s() == pytest.approx(1.06 * (0.4 + 0.01) / 4)


@pytest.fixture
def zipped():
    """Two serial maps, one behind a prefetch, joined and batched."""
    return costs(
        stage(0, 0.002, first_index=0),
        stage(1, 0.003, first_index=1),
        stage(2, 0.0, "prefetch", first_index=1),
        stage(3, 0.001, "zip"),
        stage(4, 0.0, "batch"),
        consumer_s=0.001,
        cpus=16,
    )


def test_branches_are_read_by_one_thread_and_those_behind_a_prefetch_by_another(zipped):
    assert zipped.step_s() == pytest.approx(0.03)
    assert zipped.with_parallel_stage(1).step_s() == pytest.approx(
        0.03
    )  # 0.02 of the first, 0.01 of the zip
    assert zipped.without_stages([1]).step_s() == pytest.approx(0.03)
    assert zipped.without_stages([0, 1]).step_s() == pytest.approx(0.01)


def test_a_cache_in_a_branch_spares_that_branch(zipped):
    assert zipped.without_stages(subtree_indices(zipped.stages[2])).cpu_s() == pytest.approx(0.031)


def test_what_a_filter_drops_in_a_branch_is_spared_there(zipped):
    assert zipped.with_upstream_share(2, 0.5).cpu_s() == pytest.approx(0.061 - 0.015)


def test_a_prefix_in_a_branch_spares_nothing_of_the_other():
    prefix = MapPrefix(op_count=3, bytes_per_element=4, cpu_s_per_element=0.001)
    joined = costs(
        stage(0, 0.002, first_index=0),
        stage(1, 0.002, first_index=1, deterministic_prefix=prefix),
        stage(2, 0.0, "zip"),
    )
    assert joined.with_cached_stage(joined.stages[1]).cpu_s() == pytest.approx(0.01 + 0.02 + 0.01)


@pytest.mark.parametrize(("threads", "expected"), [(2, 0.2), (4, 0.10865), (64, 0.10865)])
def test_a_map_with_so_many_threads_uses_no_more(threads, expected):
    found = costs(stage(0, 0.04, parallelism=threads))
    assert found.step_s() == pytest.approx(expected)


def test_running_in_parallel_takes_the_work_to_the_other_cores():
    before = costs(stage(0, 0.04, parallelism=1))
    after = before.with_parallel_stage(0)
    assert predict_gain(before, after) == pytest.approx(0.4 / 0.10865)
    assert before.stages[0].parallelism == 1
    assert before.with_parallel_stage(7) == before


def test_a_call_that_is_not_alone_does_not_lose_what_spreading_its_ops_costs():
    alone = costs(stage(0, 0.002), consumer_s=0.01)
    spread = costs(stage(0, 0.002, multithreading_cpu_s_per_element=0.0004), consumer_s=0.01)
    lossy = replace(spread, input_overhead=0.1, unattributed_cpu_s=0.001)
    assert alone.with_parallel_stage(0).cpu_s() == pytest.approx(0.03)
    assert lossy.cpu_s() == pytest.approx(0.033)
    assert lossy.with_parallel_stage(0).cpu_s() == pytest.approx(
        0.03
    )  # no more than was seen to be lost
    little = replace(spread, input_overhead=0.3)
    assert little.with_parallel_stage(0).cpu_s() == pytest.approx(0.032)


def test_on_one_core_nothing_is_won_by_threads():
    before = costs(stage(0, 0.04, parallelism=1), cpus=1)
    assert predict_gain(before, before.with_parallel_stage(0)) == 1.0


def test_what_is_cached_costs_nothing():
    before = costs(stage(0, 0.04, parallelism=1), stage(1, 0.002, parallelism=1))
    after = before.without_stages(subtree_indices(before.stages[0]))
    assert after.step_s() == pytest.approx(0.02)
    assert before.without_stages((0, 1)).step_s() == pytest.approx(0.01)


PREFIX = MapPrefix(op_count=3, bytes_per_element=10, cpu_s_per_element=0.03)


def test_a_split_map_is_two_stages():
    before = costs(stage(0, 0.04, parallelism=1, is_random=True, deterministic_prefix=PREFIX))
    after = before.with_split_stage(0)
    assert [s.parallelism for s in after.stages] == [AUTOTUNE, 1]
    assert [s.is_random for s in after.stages] == [False, True]
    assert after.cpu_s() == pytest.approx(before.cpu_s())
    assert after.step_s() == pytest.approx(max(0.1, 1.06 * 0.41 / 4))


def test_a_cached_prefix_leaves_the_rest_and_what_follows():
    before = costs(
        stage(0, 0.005, parallelism=1),
        stage(1, 0.04, parallelism=1, deterministic_prefix=PREFIX),
        stage(2, 0.002, kind="batch"),
    )
    assert before.with_cached_stage(before.stages[1]).step_s() == pytest.approx(0.1 + 0.02)


def test_a_prefix_costs_no_more_than_its_map():
    noisy = replace(PREFIX, cpu_s_per_element=1.0)
    before = costs(stage(0, 0.04, parallelism=1, deterministic_prefix=noisy))
    assert before.with_split_stage(0).cpu_s() == pytest.approx(before.cpu_s())


def test_a_map_without_prefix_cannot_be_split():
    before = costs(stage(0, 0.04, parallelism=1))
    assert before.with_split_stage(0) == before


def test_unknown_costs_count_as_none():
    unknown = Stage(index=0, kind="map", parallelism=1, deterministic_prefix=PREFIX)
    before = costs(unknown)
    for after in (
        before,
        before.with_split_stage(0),
        before.with_cached_stage(before.stages[0]),
        before.with_parallel_stage(0),
    ):
        assert after.step_s() == 0.01


def test_a_predicted_loss_is_no_gain():
    slow, fast = costs(consumer_s=0.02), costs(consumer_s=0.01)
    assert predict_gain(slow, fast) == pytest.approx(2.0)
    assert predict_gain(fast, slow) == 1.0
    assert predict_gain(slow, costs(consumer_s=0.0)) == 1.0


def test_a_map_cut_behind_its_draws_draws_serially_and_works_in_parallel():
    draws = RandomPart(deterministic_op_count=3, cpu_s_per_element=0.01)
    before = costs(stage(0, 0.04, parallelism=1, is_random=True, random_part=draws))
    after = before.with_random_part_first(0)
    assert [s.parallelism for s in after.stages] == [1, AUTOTUNE]
    assert [s.is_random for s in after.stages] == [True, False]
    assert after.cpu_s() == pytest.approx(before.cpu_s())
    assert after.step_s() == pytest.approx(max(0.1, 1.06 * 0.41 / 4))
    assert costs(stage(0, 0.04, parallelism=1)).with_random_part_first(0).step_s() == pytest.approx(
        0.4
    )


def test_no_more_is_promised_than_what_was_measured_would_leave():
    slow = costs(stage(0, 0.04, parallelism=1))
    assert predict_gain(slow, slow.with_parallel_stage(0)) == pytest.approx(4, rel=0.1)
    measured = replace(slow, measured_step_s=0.2)
    assert predict_gain(measured, measured.with_parallel_stage(0)) == pytest.approx(2, rel=0.1)
    assert predict_gain(
        replace(slow, measured_step_s=9.0), slow.with_parallel_stage(0)
    ) == pytest.approx(4, rel=0.1)
