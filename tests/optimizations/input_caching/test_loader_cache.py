from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.edits.edit import LoaderCache
from uncork.core.evidence.stage import Memoization
from uncork.optimizations.input_caching.loader_cache import LoaderCacheOptimization

KEEP = LoaderCacheOptimization()
LARGE = Memoization(total_bytes=2_000_000_000, hit_wall_s_per_element=0.009)


def loading(*, keepable=LARGE, **workload):
    memory = workload.pop("memory_available_bytes", 64 << 30)
    return observed(
        stage(0, "pydataset", 0.09, parallelism=1, has_python_code=True, memoization=keepable),
        shares=WAITING,
        memory_available_bytes=memory,
        workload={
            "data_kind": "pydataset",
            "pipeline_digest": "",
            "loader_digest": "c0de",
            **workload,
        },
    )


def test_batches_that_are_the_same_in_every_epoch_are_kept():
    found = proposal(KEEP, loading())
    assert found.edits == (LoaderCache(size_bytes=2_000_000_000, expected_digest="c0de"),)
    assert found.predicted == pytest.approx(0.1 / 0.01, rel=0.2)
    assert "2 GB of memory" in found.rationale


def test_handing_them_over_costs_what_it_did():
    dear = Memoization(total_bytes=1000, hit_wall_s_per_element=0.088)
    assert "predicted gain" in reason(KEEP, loading(keepable=dear))


def test_they_must_fit_the_memory_budget():
    assert "needs 2.0 GB of memory" in reason(KEEP, loading(memory_available_bytes=3 << 30))


def test_one_epoch_reads_nothing_twice():
    assert "one epoch" in reason(KEEP, loading(epochs=1))


def test_they_are_kept_once():
    assert "already" in reason(KEEP, loading(is_loader_cached=True))


def test_workers_of_the_users_own_are_kept():
    assert "workers" in reason(KEEP, loading(loader_workers=4))


def test_a_given_number_of_steps_may_begin_anywhere():
    assert "steps_per_epoch" in reason(KEEP, loading(has_explicit_steps=True))


def test_other_batches_in_every_epoch_are_not_kept():
    assert "same in every epoch" in reason(KEEP, loading(keepable=None))


@pytest.mark.parametrize("situation", ["waiting for input", "arrays", "generator"])
def test_other_feeds_have_no_such_loader(situation):
    assert "not by a PyDataset" in reason(KEEP, SITUATIONS[situation], machine=MACHINE)
