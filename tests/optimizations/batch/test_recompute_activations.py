from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed
from uncork.core.edits.step import RecomputeActivations
from uncork.core.evidence.batches import MemoryOverflow
from uncork.optimizations.batch.larger_batch import LargerBatchOptimization
from uncork.optimizations.batch.micro_batches import MicroBatchesOptimization
from uncork.optimizations.batch.recompute_activations import RecomputeActivationsOptimization
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization

AGAIN = RecomputeActivationsOptimization()
FOUND = MemoryOverflow(
    error_message="OOM when allocating tensor with shape[64,9]",
    fitting_rows=16,
    segments=4,
    peak_bytes=1_200_000_000,
    fitting_rows_peak_bytes=300_000_000,
)


def test_what_does_not_fit_in_parts_is_made_again():
    found = proposal(AGAIN, observed(memory_overflow=FOUND))
    assert found.edits == (RecomputeActivations(segments=4),)
    assert "shape[64,9]" in found.rationale
    assert "with recomputed activations, in 4 segments, it uses at most 1.2 GB" in found.rationale
    assert "not the same training" in reason(
        MicroBatchesOptimization(), observed(memory_overflow=FOUND)
    )


def test_what_fits_is_run_once():
    assert "fits into memory" in reason(AGAIN, observed())


def test_parts_cost_less_where_they_will_do():
    in_parts = MemoryOverflow(
        error_message="OOM", fitting_rows=16, parts=4, peak_bytes=9, fitting_rows_peak_bytes=5
    )
    why = reason(AGAIN, observed(memory_overflow=in_parts))
    assert "in 4 micro-batches, which costs less time" in why


@pytest.mark.parametrize("optimization", [LargerBatchOptimization(), KerasBackendOptimization()])
def test_what_would_take_more_memory_is_not_tried(optimization):
    assert "recomputed" in reason(optimization, observed(memory_overflow=FOUND))


@pytest.mark.parametrize("name", ["custom loop", "distributed", "eager"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(name):
    assert reason(AGAIN, SITUATIONS[name])
