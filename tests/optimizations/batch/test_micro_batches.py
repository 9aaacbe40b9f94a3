from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed
from uncork.core.edits.step import MicroBatches
from uncork.core.evidence.batches import MemoryOverflow
from uncork.optimizations.batch.larger_batch import LargerBatchOptimization
from uncork.optimizations.batch.micro_batches import MicroBatchesOptimization
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization

PARTS = MicroBatchesOptimization()
FOUND = MemoryOverflow(
    error_message="OOM when allocating tensor with shape[64,9]",
    fitting_rows=15,
    parts=4,
    peak_bytes=1_200_000_000,
    fitting_rows_peak_bytes=300_000_000,
)


def test_what_does_not_fit_is_trained_in_parts():
    found = proposal(PARTS, observed(memory_overflow=FOUND, workload={"batch_size": 64}))
    assert found.edits == (MicroBatches(parts=4),)
    assert "shape[64,9]" in found.rationale
    assert "in 4 parts of 16 examples it uses at most 1.2 GB" in found.rationale


def test_what_fits_is_left_whole():
    assert "fits into memory" in reason(PARTS, observed())


def test_it_promises_rounding_and_other_draws_at_worst():
    assert (PARTS.guarantee, PARTS.fallback_guarantee) == ("rounding", "resampled")


@pytest.mark.parametrize("optimization", [LargerBatchOptimization(), KerasBackendOptimization()])
def test_what_would_take_more_memory_is_not_tried(optimization):
    found = observed(memory_overflow=FOUND)
    assert "in 4 micro-batches" in reason(optimization, found)


@pytest.mark.parametrize("name", ["custom loop", "distributed", "eager"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(name):
    assert reason(PARTS, SITUATIONS[name])
