from __future__ import annotations

import pytest

from optimizations.situations import (
    CHATTY,
    COMPUTING,
    SITUATIONS,
    WAITING,
    ask,
    proposal,
    reason,
)
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import FlatUpdates
from uncork.core.evidence.kernels import KernelGroup
from uncork.optimizations.base.proposal import Proposal
from uncork.optimizations.host.flat_updates import FlatUpdatesOptimization

AT_ONCE = FlatUpdatesOptimization()


def training(shares=COMPUTING, **workload):
    return observed(shares=shares, workload={"small_weight_count": 42, **workload})


@pytest.mark.parametrize("shares", [COMPUTING, CHATTY])
def test_many_small_weights_are_updated_at_once(shares):
    found = proposal(AT_ONCE, training(shares))
    assert found.edits == (FlatUpdates(),)
    assert found.predicted is None
    assert "42 small weights" in found.rationale


def test_it_is_told_where_the_optimizer_was_chosen():
    assert proposal(AT_ONCE, training(step_setup_at="train.py:33")).at == "train.py:33"
    assert proposal(AT_ONCE, training(step_setup_at=None)).at == "train.py:41"


def test_it_promises_every_bit_and_falls_back_on_rounding():
    assert (AT_ONCE.guarantee, AT_ONCE.fallback_guarantee) == ("exact", "rounding")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"small_weight_count": 0}, "few small weights"),
        ({"jit_compile": True}, "XLA"),
        ({"batch_callbacks": ("Own",)}, "every batch and may read the optimizer's state: Own"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
    ],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(AT_ONCE, training(**workload))


def test_a_step_that_takes_no_time_is_left_alone():
    assert "predicted gain" in reason(AT_ONCE, training(WAITING))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(AT_ONCE, SITUATIONS[situation])


@pytest.mark.parametrize(
    ("share", "calls", "is_tried"),
    [(0.3, 12.0, True), (0.01, 12.0, False), (0.01, 2000.0, True)],
)
def test_the_profiled_kernels_of_the_update_bound_the_gain(share, calls, is_tried):
    kernels = (
        KernelGroup(phase="optimizer", share=share, calls_per_step=calls, main_kernel="Mul"),
        KernelGroup(phase="forward", share=0.5, calls_per_step=2.0, main_kernel="MatMul"),
    )
    answer = ask(AT_ONCE, replace(training(), kernels=kernels))
    assert isinstance(answer, Proposal) == is_tried
