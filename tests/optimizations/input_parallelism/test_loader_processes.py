from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.edits.edit import LoaderProcesses
from uncork.optimizations.input_parallelism.loader_processes import LoaderProcessesOptimization
from uncork.optimizations.input_parallelism.loader_workers import LoaderWorkersOptimization

PROCESSES, THREADS = LoaderProcessesOptimization(), LoaderWorkersOptimization()


def loading(*, processes_s=0.03, threads_s=0.09, random=False, workers=1):
    return observed(
        stage(
            0,
            "pydataset",
            0.09,
            name="Reviews",
            parallelism=workers,
            has_python_code=True,
            is_random=random,
            threaded_wall_s_per_element=threads_s,
            multiprocess_wall_s_per_element=processes_s,
        ),
        shares=WAITING,
        workload={
            "data_kind": "pydataset",
            "pipeline_digest": "",
            "loader_digest": "c0de",
            "loader_workers": workers,
        },
        memory_available_bytes=8_000_000_000,
    )


def test_every_core_gets_a_process():
    found = proposal(PROCESSES, loading())
    assert found.edits == (LoaderProcesses(processes=4, expected_digest="c0de"),)
    assert found.predicted == pytest.approx(0.09 / 0.03, rel=0.15)
    assert "4 processes compute the batches of Reviews" in found.rationale
    assert "workers=4, use_multiprocessing=True" in found.source_edit


def test_a_loader_that_draws_is_worth_a_weaker_promise():
    found = proposal(PROCESSES, loading(random=True))
    assert found.edits == (LoaderProcesses(processes=4, expected_digest="c0de", is_random=True),)
    assert "seed its random generators" in found.source_edit
    assert (PROCESSES.guarantee, PROCESSES.fallback_guarantee) == ("exact", "resampled")


def test_the_cores_are_a_limit_too():
    two = Machine(cpus=2.0, cpu_model="x", memory_bytes=1)
    found = proposal(PROCESSES, loading(processes_s=0.001), machine=two)
    assert found.predicted < 2.1


def test_many_cores_do_not_get_a_process_each():
    many = Machine(cpus=96.0, cpu_model="x", memory_bytes=1)
    (edit,) = proposal(PROCESSES, loading(), machine=many).edits
    assert edit.processes == 16


def test_what_was_not_measured_in_processes_is_left_alone():
    assert "threads are as fast" in reason(PROCESSES, loading(processes_s=None))


def test_processes_that_were_slower_are_not_proposed():
    assert "predicted gain" in reason(PROCESSES, loading(processes_s=0.2))


def test_threads_give_way_to_processes_that_promise_more():
    assert proposal(THREADS, loading(threads_s=0.06)).prerequisite == "loader_processes"
    assert proposal(THREADS, loading(threads_s=0.03, processes_s=0.03)).prerequisite == ""


def test_processes_must_fit_the_memory():
    tight = replace(loading(), memory_available_bytes=100_000_000)
    assert "0.3 GB of memory" in reason(PROCESSES, tight)


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"has_explicit_steps": True}, "steps_per_epoch"), ({"is_loader_cached": True}, "cached")],
)
def test_where_workers_would_not_do_the_same(changed, why):
    found = loading()
    changed = replace(found, workload=replace(found.workload, **changed))
    assert why in reason(PROCESSES, changed)


def test_workers_of_the_users_own_are_kept():
    assert "already" in reason(PROCESSES, loading(workers=2))


@pytest.mark.parametrize("situation", ["waiting for input", "arrays", "generator"])
def test_other_feeds_have_no_such_loader(situation):
    assert "not by a PyDataset" in reason(PROCESSES, SITUATIONS[situation], machine=MACHINE)
