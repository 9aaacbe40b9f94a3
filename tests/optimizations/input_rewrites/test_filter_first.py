from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, WAITING, proposal, reason
from records import observed, stage
from uncork.core.edits.pipeline import FilterFirst
from uncork.core.evidence.stage import AUTOTUNE
from uncork.optimizations.input_rewrites.filter_first import FilterFirstOptimization

FILTER = FilterFirstOptimization()


def filtered(
    first: tuple[int, ...], made: float = 10.0, decode_s: float = 0.016, kind: str = "filter"
):
    """Of so many elements that are made for a step, two stay."""
    return observed(
        stage(0, "from_tensor_slices", elements_per_step=made),
        stage(1, "map", decode_s, name="decode", parallelism=AUTOTUNE, elements_per_step=made),
        stage(2, kind, bypassable_maps=first, at="train.py:9", elements_per_step=2.0),
        stage(3, "batch"),
        shares=WAITING,
    )


def test_what_is_dropped_is_not_made():
    found = proposal(FILTER, filtered((1,)))
    assert found.edits == (FilterFirst(stage=2, expected_digest="51ab"),)
    assert found.at == "train.py:9"
    assert found.predicted == pytest.approx(4.24)  # 42 ms of decoding on four cores; the step 10 ms
    assert "80% of the elements" in found.rationale


@pytest.mark.parametrize("kind", ["filter", "shard", "skip"])
def test_it_tells_how_to_write_it(kind):
    found = proposal(FILTER, filtered((1,), kind=kind))
    assert found.source_edit.startswith(f"dataset.{kind}(")
    assert found.predicted == pytest.approx(4.24)


def test_a_filter_that_drops_nothing_is_left_alone():
    assert "predicted gain 1.00x" in reason(FILTER, filtered((1,), made=2.0))


def test_cheap_elements_may_be_made_in_vain():
    assert "predicted gain" in reason(FILTER, filtered((1,), decode_s=1e-4))


def test_a_filter_for_which_the_map_works_is_left_alone():
    assert "no filter follows maps" in reason(FILTER, filtered(()))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_filter(situation):
    assert "not by tf.data" in reason(FILTER, SITUATIONS[situation])
