from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import ShuffleFirst
from uncork.core.evidence.stage import AUTOTUNE, ShuffleBuffer
from uncork.optimizations.input_rewrites.shuffle_first import ShuffleFirstOptimization

SHUFFLE = ShuffleFirstOptimization()
# The step takes 60 ms on one thread; decoding takes as long, on other cores.
ALONE = {"input": 0.4, "host": 0.0, "step": 0.6}
CORES = Machine(cpus=4.0, cpu_model="any", memory_bytes=8 << 30)
WHOLE = ShuffleBuffer(
    element_count=1000, elements_per_pass=1000, movable_maps=(1,), bytes_per_element=50
)


def shuffled(buffer: ShuffleBuffer | None, decode_s: float = 0.16):
    return observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", decode_s, name="decode", parallelism=AUTOTUNE),
        stage(2, "shuffle", shuffle_buffer=buffer, at="train.py:9"),
        stage(3, "batch"),
        shares=ALONE,
    )


def test_filling_and_training_one_after_the_other_become_one():
    found = proposal(SHUFFLE, shuffled(WHOLE), machine=CORES)
    assert found.edits == (ShuffleFirst(stage=2, expected_digest="51ab"),)
    assert found.at == "train.py:9"
    # 42 ms of decoding on four cores, then 60 ms of training, against 60 ms of both at once
    assert found.predicted == pytest.approx(102.4 / 60, rel=0.01)
    assert "1,000 elements" in found.rationale


def test_what_is_made_of_much_is_not_put_above_it():
    large = ShuffleBuffer(
        element_count=100_000,
        elements_per_pass=100_000,
        movable_maps=(1,),
        bytes_per_element=200_000,
    )
    parsing = shuffled(large)
    source = replace(parsing.stages[0], bytes_per_element=200_000)
    parsing = replace(parsing, stages=(source, *parsing.stages[1:]))
    assert "would hold 20.0 GB" in reason(SHUFFLE, parsing, machine=CORES)


def test_a_small_buffer_is_filled_soon():
    few = ShuffleBuffer(
        element_count=10, elements_per_pass=1000, movable_maps=(1,), bytes_per_element=50
    )
    assert "predicted gain 1.0" in reason(SHUFFLE, shuffled(few), machine=CORES)


def test_cheap_elements_may_be_held():
    assert "predicted gain" in reason(SHUFFLE, shuffled(WHOLE, 0.001), machine=CORES)


def test_a_shuffle_without_maps_below_is_left_alone():
    assert "no shuffle follows maps" in reason(SHUFFLE, shuffled(None))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_no_shuffle(situation):
    assert "not by tf.data" in reason(SHUFFLE, SITUATIONS[situation])
