from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.base.machine import Machine
from uncork.core.edits.pipeline import ParallelMap
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.input_parallelism.parallel_map import ParallelMapOptimization

PARALLEL = ParallelMapOptimization()


def with_map(cost_s: float = 0.09, **fields):
    shown = stage(1, "map", cost_s, **{"name": "noise", "parallelism": 1, **fields})
    return observed(stage(0, "range"), shown, shares=WAITING)


@pytest.mark.parametrize("random", [True, False])
def test_a_serial_map_is_run_in_parallel(random):
    found = proposal(PARALLEL, with_map(is_random=random))
    assert found.edits == (ParallelMap(stage=1, expected_digest="51ab"),)
    assert found.predicted == pytest.approx(0.09 / 0.025, rel=0.1)
    assert "noise" in found.rationale


def test_the_slowest_of_several_is_chosen():
    maps = [stage(i, "map", cost, parallelism=1) for i, cost in enumerate((0.01, 0.08, 0.02))]
    assert proposal(PARALLEL, observed(*maps, shares=WAITING)).edits[0].stage == 1


def test_it_promises_other_draws_and_no_more():
    assert PARALLEL.guarantee == "resampled"


@pytest.mark.parametrize("parallelism", [AUTOTUNE, 4, None])
def test_a_parallel_map_is_left_alone(parallelism):
    assert reason(PARALLEL, with_map(parallelism=parallelism)) == "no serial map"


def test_python_may_not_be_thread_safe():
    assert reason(PARALLEL, with_map(has_python_code=True)) == "no serial map"


@pytest.mark.parametrize("kind", ["batch", "interleave", "filter"])
def test_other_stages_are_left_alone(kind):
    diagnosis = observed(stage(0, kind, 0.09, parallelism=1), shares=WAITING)
    assert reason(PARALLEL, diagnosis) == "no serial map"


def test_a_cheap_map_is_left_alone():
    assert "predicted gain" in reason(PARALLEL, with_map(1e-4))


def test_one_core_has_no_second_thread():
    one = Machine(cpus=1.0, cpu_model="x", memory_bytes=1)
    assert "predicted gain" in reason(PARALLEL, with_map(), machine=one)


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_map(situation):
    assert "not by tf.data" in reason(PARALLEL, SITUATIONS[situation])
