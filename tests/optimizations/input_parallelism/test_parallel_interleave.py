from __future__ import annotations

import pytest

from optimizations.situations import WAITING, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import ParallelInterleave
from uncork.optimizations.input_parallelism.parallel_interleave import (
    ParallelInterleaveOptimization,
)

READ = ParallelInterleaveOptimization()


def reading(readers=4, cost_s=0.09):
    return observed(
        stage(0, "from_tensor_slices"),
        stage(1, "interleave", cost_s, parallelism=1, max_readers=readers),
        stage(2, "batch"),
        shares=WAITING,
    )


def test_readers_get_threads():
    found = proposal(READ, reading(16))
    assert found.edits == (ParallelInterleave(stage=1, expected_digest="51ab"),)
    assert found.at == "train.py:21"
    assert found.predicted > 3


def test_two_readers_are_two_threads_at_most():
    two = proposal(READ, reading(2)).predicted
    assert two == pytest.approx(2.0, rel=0.1)
    assert proposal(READ, reading(4)).predicted > two


def test_where_no_readers_are_there_is_nothing_to_do():
    assert "no serial interleave" in reason(READ, reading(None))


def test_readers_that_keep_up_are_left_alone():
    assert "predicted gain" in reason(READ, reading(4, cost_s=0.0001))


def test_one_core_reads_no_faster():
    assert "predicted gain" in reason(READ, reading(4), machine=replace(MACHINE, cpus=1.0))
