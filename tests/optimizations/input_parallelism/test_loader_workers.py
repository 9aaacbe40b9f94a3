from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.edits.edit import LoaderWorkers
from uncork.optimizations.input_parallelism.loader_workers import LoaderWorkersOptimization

THREADS = LoaderWorkersOptimization()


def loading(*, threads_s=0.03, random=False, workers=1, cost_s=0.09):
    return observed(
        stage(
            0,
            "pydataset",
            cost_s,
            name="Photos",
            parallelism=workers,
            has_python_code=True,
            is_random=random,
            threaded_wall_s_per_element=threads_s,
        ),
        shares=WAITING,
        workload={
            "data_kind": "pydataset",
            "pipeline_digest": "",
            "loader_digest": "c0de",
            "loader_workers": workers,
        },
    )


def test_every_core_gets_a_thread():
    found = proposal(THREADS, loading())
    assert found.edits == (LoaderWorkers(workers=4, expected_digest="c0de"),)
    assert found.predicted == pytest.approx(0.09 / 0.03, rel=0.15)
    assert "4 threads compute the batches of Photos" in found.rationale
    assert "workers=4" in found.source_edit


def test_what_holds_the_interpreter_gains_nothing_from_threads():
    assert "predicted gain" in reason(THREADS, loading(threads_s=0.09))


def test_threads_that_were_slower_are_not_proposed():
    assert "predicted gain" in reason(THREADS, loading(threads_s=0.2))


def test_the_cores_are_a_limit_too():
    two = Machine(cpus=2.0, cpu_model="x", memory_bytes=1)
    found = proposal(THREADS, loading(threads_s=0.001), machine=two)
    assert found.predicted < 2.1


def test_a_loader_that_is_looked_at_is_left_alone():
    assert "alone" in reason(THREADS, loading(random=True, threads_s=None))


def test_a_loader_that_draws_is_worth_a_weaker_promise():
    assert proposal(THREADS, loading(random=True)).edits
    assert (THREADS.guarantee, THREADS.fallback_guarantee) == ("exact", "resampled")


def test_batches_made_ahead_must_fit_the_memory():
    tight = replace(loading(), memory_available_bytes=10)
    stages = tuple(replace(s, bytes_per_element=1_000_000) for s in tight.stages)
    assert "prefetched" in reason(THREADS, replace(tight, stages=stages))
    # As many as Keras lets wait, and those that are being made.
    large = replace(loading(), memory_available_bytes=24_000_000_000)
    stages = tuple(replace(s, bytes_per_element=1_000_000_000) for s in large.stages)
    assert "prefetched batches would take" in reason(THREADS, replace(large, stages=stages))


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"has_explicit_steps": True}, "steps_per_epoch"), ({"is_loader_cached": True}, "cached")],
)
def test_where_workers_would_not_do_the_same(changed, why):
    found = loading()
    changed = replace(found, workload=replace(found.workload, **changed))
    assert why in reason(THREADS, changed)


def test_workers_of_the_users_own_are_kept():
    assert "already" in reason(THREADS, loading(workers=2))


@pytest.mark.parametrize("situation", ["waiting for input", "arrays", "generator"])
def test_other_feeds_have_no_such_loader(situation):
    assert "not by a PyDataset" in reason(THREADS, SITUATIONS[situation], machine=MACHINE)
