from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import DropUnused
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.input_rewrites.drop_unused import DropUnusedOptimization

DROP = DropUnusedOptimization()


def picked(ignores: tuple[int, ...] = (1,), needed_s: float = 0.02):
    """A map whose work is half for what the next one ignores."""
    return observed(
        stage(0, "from_tensor_slices"),
        stage(
            1, "map", 0.08, name="load", at="train.py:8", parallelism=AUTOTUNE,
            needed_cpu_s_per_element=needed_s,
        ),
        stage(
            2, "map", name="pick", at="train.py:9", parallelism=AUTOTUNE, unused_output_maps=ignores
        ),
        stage(3, "batch"),
        shares=WAITING,
    )  # fmt: skip


def test_what_a_map_ignores_is_not_made():
    found = proposal(DROP, picked())
    assert found.edits == (DropUnused(stage=2, expected_digest="51ab"),)
    assert found.at == "train.py:8"
    assert found.predicted == pytest.approx(2.5)  # 25 ms of all four cores, and 10
    assert "75% of load is for what pick ignores" in found.rationale


def test_what_costs_little_may_be_made_in_vain():
    assert "predicted gain" in reason(DROP, picked(needed_s=0.079))


def test_a_map_that_takes_all_is_left_alone():
    assert "no map ignores" in reason(DROP, picked(ignores=()))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_map(situation):
    assert "not by tf.data" in reason(DROP, SITUATIONS[situation])
