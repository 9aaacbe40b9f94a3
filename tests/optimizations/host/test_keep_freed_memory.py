from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, FOUR_CORES, proposal, reason
from records import measurement, observed
from uncork.core.base.record import replace
from uncork.core.edits.edit import KeepFreedMemory
from uncork.optimizations.host.keep_freed_memory import KeepFreedMemoryOptimization

MEMORY = KeepFreedMemoryOptimization()


def training(faulting_s, cpu_s=0.2, **workload):
    """Of a tenth of a second a step."""
    measured = replace(measurement(320.0), cpu_s_per_step=cpu_s, page_fault_s_per_step=faulting_s)
    return observed(shares=COMPUTING, measurement=measured, workload=workload)


def test_what_is_made_anew_in_each_step_is_kept():
    found = proposal(MEMORY, training(0.08))
    assert found.edits == (KeepFreedMemory(),)
    assert found.predicted == pytest.approx(0.2 / 0.12)
    assert "80 ms of CPU a step" in found.rationale
    assert "mallopt" in found.source_edit


def test_no_more_is_promised_than_one_thread_can_lose():
    """Where cores wait, an hour of CPU is an hour."""
    found = proposal(MEMORY, training(0.04, cpu_s=0.05))
    assert found.predicted == pytest.approx(0.1 / 0.06)


def test_a_trifle_is_not_worth_a_process():
    assert "predicted gain 1.03x" in reason(MEMORY, training(0.006))


def test_it_takes_a_process_of_its_own():
    assert MEMORY.needs_own_process
    assert (MEMORY.guarantee, MEMORY.fallback_guarantee) == ("exact", "rounding")


@pytest.mark.parametrize(
    ("allocator", "words"),
    [("tcmalloc", "the allocator is tcmalloc"), ("", "the allocator is unknown")],
)
def test_an_allocator_that_is_not_glibc_s_own_is_left_alone(allocator, words):
    machine = replace(FOUR_CORES, allocator=allocator)
    assert words in reason(MEMORY, training(0.08), machine=machine)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "custom_loop"}, "calls no single function"),
        (
            {"kind": "custom_loop", "step_code_digest": "c0de", "tf_function_refusal": "it prints"},
            "cannot be called again in another process: it prints",
        ),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
    ],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(MEMORY, training(0.08, **workload))


def test_the_step_of_a_loop_is_called_again_there():
    found = proposal(MEMORY, training(0.08, kind="custom_loop", step_code_digest="c0de"))
    assert found.predicted == pytest.approx(0.2 / 0.12)
