from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, FOUR_CORES, SITUATIONS, WAITING, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.edit import IntraOpThreads
from uncork.optimizations.host.intra_op_threads import IntraOpThreadsOptimization

THREADS = IntraOpThreadsOptimization()


def training(shares=COMPUTING, **workload):
    """Of two milliseconds a step."""
    return observed(step_s=0.002, shares=shares, workload=workload)


def test_kernels_of_short_steps_stay_on_their_thread():
    found = proposal(THREADS, training())
    assert found.edits == (IntraOpThreads(threads=1),)
    assert found.predicted is None
    assert "set_intra_op_parallelism_threads(1)" in found.source_edit


def test_it_takes_a_process_of_its_own():
    assert THREADS.needs_own_process
    assert (THREADS.guarantee, THREADS.fallback_guarantee) == ("exact", "rounding")


def test_kernels_of_long_steps_are_shared():
    assert "which threads should share" in reason(THREADS, observed(step_s=0.1, shares=COMPUTING))


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"intra_op_threads": 3}, "sets 3 threads"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
    ],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(THREADS, training(**workload))


@pytest.mark.parametrize(
    ("machine", "words"),
    [({"devices": ("GPU:0 NVIDIA",)}, "accelerator"), ({"cpus": 1.0}, "one core")],
)
def test_machines_that_it_is_not_for(machine, words):
    assert words in reason(THREADS, training(), machine=replace(FOUR_CORES, **machine))


def test_a_step_that_takes_no_time_is_left_alone():
    assert "predicted gain" in reason(THREADS, training(WAITING))


def test_the_step_of_a_loop_is_called_again_there():
    found = proposal(THREADS, training(kind="custom_loop", step_code_digest="c0de"))
    assert found.edits == (IntraOpThreads(threads=1),)
    assert "it prints" in reason(
        THREADS, training(kind="custom_loop", tf_function_refusal="it prints")
    )
    several = training(kind="custom_loop", step_code_digest="c0de", replicas=2)
    assert "strategy" in reason(THREADS, several)


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_cannot_be_called_there_is_left_alone(situation):
    assert reason(THREADS, SITUATIONS[situation])
