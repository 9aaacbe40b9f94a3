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
from uncork.core.edits.step import FusedUpdates
from uncork.core.evidence.kernels import KernelGroup
from uncork.optimizations.base.proposal import Proposal
from uncork.optimizations.host.fused_updates import FusedUpdatesOptimization

FUSED = FusedUpdatesOptimization()


def training(shares=COMPUTING, **workload):
    return observed(shares=shares, workload={"fusable_weight_count": 4, **workload})


@pytest.mark.parametrize("shares", [COMPUTING, CHATTY])
def test_weights_are_updated_by_one_kernel_each(shares):
    found = proposal(FUSED, training(shares))
    assert found.edits == (FusedUpdates(),)
    assert found.predicted is None
    assert "each of 4 weights" in found.rationale


def test_it_is_told_where_the_optimizer_was_chosen():
    assert proposal(FUSED, training(step_setup_at="train.py:33")).at == "train.py:33"
    assert proposal(FUSED, training(step_setup_at=None)).at == "train.py:41"


def test_it_promises_every_bit_and_falls_back_on_rounding():
    assert (FUSED.guarantee, FUSED.fallback_guarantee) == ("exact", "rounding")


@pytest.mark.parametrize(
    ("workload", "words"),
    [({"fusable_weight_count": 0}, "no kernel"), ({"jit_compile": True}, "XLA")],
)
def test_what_leaves_it_out(workload, words):
    assert words in reason(FUSED, training(**workload))


def test_in_a_loop_the_edit_is_for_one_function():
    loop = training(kind="custom_loop", step_code_digest="ab12")
    assert proposal(FUSED, loop).edits == (FusedUpdates(code_digest="ab12"),)
    assert "more than one" in reason(FUSED, training(kind="custom_loop"))


@pytest.mark.parametrize(("share", "is_tried"), [(0.4, True), (0.02, False)])
def test_it_is_tried_where_the_optimizer_s_kernels_take_their_time(share, is_tried):
    kernels = (
        KernelGroup(phase="optimizer", share=share, calls_per_step=12.0, main_kernel="Mul"),
        KernelGroup(phase="forward", share=0.5, calls_per_step=2.0, main_kernel="MatMul"),
    )
    answer = ask(FUSED, replace(training(), kernels=kernels))
    assert isinstance(answer, Proposal) == is_tried


def test_a_step_that_takes_no_time_is_left_alone():
    assert "predicted gain" in reason(FUSED, training(WAITING))


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(FUSED, SITUATIONS[situation])
