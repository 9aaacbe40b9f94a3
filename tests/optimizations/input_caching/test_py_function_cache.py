from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import PyFunctionCache
from uncork.core.evidence.stage import AUTOTUNE, Memoization
from uncork.optimizations.input_caching.py_function_cache import PyFunctionCacheOptimization

KEEP = PyFunctionCacheOptimization()
ANSWERS = Memoization(total_bytes=2_000_000_000, hit_wall_s_per_element=0.009, code_digest="c0de")


def asking(*, keepable=ANSWERS, parallelism=1, together=None, **workload):
    memory = workload.pop("memory_available_bytes", 64 << 30)
    return observed(
        stage(0, "from_tensor_slices"),
        stage(
            1,
            "map",
            0.09,
            parallelism=parallelism,
            has_python_code=True,
            python_code_at="train.py:7",
            memoization=keepable,
            threaded_wall_s_per_element=together,
        ),
        shares=WAITING,
        memory_available_bytes=memory,
        workload={"pipeline_digest": "d1ge57", **workload},
    )


def test_what_python_answers_in_every_epoch_is_kept():
    found = proposal(KEEP, asking())
    assert found.edits == (
        PyFunctionCache(
            stage=1, expected_digest="d1ge57", size_bytes=2_000_000_000, code_digest="c0de"
        ),
    )
    assert found.predicted == pytest.approx(0.1 / 0.01, rel=0.2)
    assert "2 GB of memory" in found.rationale
    assert found.at == "train.py:7"


def test_parallel_calls_share_the_interpreters_lock():
    apart = proposal(KEEP, asking(parallelism=AUTOTUNE, together=0.045)).predicted
    locked = proposal(KEEP, asking(parallelism=AUTOTUNE, together=0.09)).predicted
    assert locked == pytest.approx(2 * apart, rel=0.2)


def test_handing_them_out_costs_what_it_did():
    dear = Memoization(total_bytes=1000, hit_wall_s_per_element=0.088)
    assert "predicted gain" in reason(KEEP, asking(keepable=dear))


def test_they_must_fit_the_memory_budget():
    assert "needs 2.0 GB of memory" in reason(KEEP, asking(memory_available_bytes=3 << 30))


def test_one_epoch_reads_nothing_twice():
    assert "one epoch" in reason(KEEP, asking(epochs=1))


def test_a_given_number_of_steps_may_begin_anywhere():
    assert "steps_per_epoch" in reason(KEEP, asking(has_explicit_steps=True))


def test_other_answers_in_every_epoch_are_not_kept():
    assert "return the same" in reason(KEEP, asking(keepable=None))


def test_without_python_in_a_map_there_is_nothing_to_keep():
    assert "no map calls Python" in reason(KEEP, SITUATIONS["waiting for input"])


def test_batches_of_a_loader_are_another_matter():
    loader = observed(
        stage(0, "pydataset", 0.09, has_python_code=True, memoization=ANSWERS),
        workload={"data_kind": "pydataset"},
    )
    assert "not by tf.data" in reason(KEEP, loader)
