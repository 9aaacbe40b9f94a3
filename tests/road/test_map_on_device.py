from __future__ import annotations

import pytest

from records import observed, stage
from uncork.core.edit import MapOnDevice, VectorizeMap
from uncork.core.facts import Transfer
from uncork.core.record import replace
from uncork.core.stage import Vectorized
from uncork.road.map_on_device import MakeOnDevice

from .situations import COMPUTING, SITUATIONS, proposal, reason

HERE = MakeOnDevice()
SENT = Transfer(device="GPU:0", bytes=40_000_000, needed_bytes=40_000_000, wall_s=0.06, cpu_s=0.0)
BYTES = stage(1, "batch", bytes_per_element=10_000_000)
CAST = stage(2, "map", 0.001, name="cast", bytes_per_element=40_000_000, in_step="ca57")


def training(*stages, sent=SENT, **workload):
    stages = stages or (stage(0, "from_tensor_slices"), BYTES, CAST, stage(3, "prefetch"))
    return observed(*stages, shares=COMPUTING, transfer=sent, workload=workload)


def test_three_quarters_of_the_bytes_are_not_sent():
    found = proposal(HERE, training())
    assert found.edits == (MapOnDevice(expects="ca57"),)
    assert found.predicted == pytest.approx(0.1 / 0.055, rel=0.05)
    assert found.at == CAST.at
    assert "75% of the bytes" in found.why
    assert "GPU:0" in found.why


def test_a_map_below_the_batch_takes_whole_batches_first():
    at_once = Vectorized(batch=32, cpu_s_per_element=1e-4, wall_s_per_element=1e-4)
    below = replace(CAST, index=1, bytes_per_element=4000, vectorized=at_once)
    raw = stage(0, "from_tensor_slices", bytes_per_element=1000)
    found = proposal(HERE, training(raw, below, stage(2, "batch")))
    digest = training().workload.pipeline
    assert found.edits == (VectorizeMap(stage=1, expects=digest), MapOnDevice(expects="ca57"))


def test_what_is_decoded_first_counts_as_it_is_decoded():
    at_once = Vectorized(
        batch=32, cpu_s_per_element=1e-4, wall_s_per_element=1e-4, first_bytes=1000
    )
    below = replace(CAST, index=1, bytes_per_element=4000, vectorized=at_once)
    files = stage(0, "from_tensor_slices", bytes_per_element=100)
    assert "75% of the bytes" in proposal(HERE, training(files, below, stage(2, "batch"))).why


def test_where_little_time_is_spent_on_sending_there_is_nothing_to_win():
    assert "predicted gain 1.0" in reason(HERE, training(sent=replace(SENT, wall_s=0.004)))


def test_where_nothing_is_sent():
    assert "nothing is sent" in reason(HERE, training(sent=None))


@pytest.mark.parametrize("needed", [10_000_000, 40_000_000])
def test_where_no_last_map_makes_the_bytes_more(needed):
    other = replace(CAST, in_step="")
    sent = replace(SENT, needed_bytes=needed)
    assert "does not end with a map" in reason(HERE, training(BYTES, other, sent=sent))


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ({"eager_step": True}, "run_eagerly"),
        ({"distributed": True}, "strategy"),
        ({"kind": "custom_loop"}, "custom loop"),
        ({"data": "numpy"}, "not by tf.data"),
    ],
)
def test_where_it_cannot_be_done(situation, told):
    assert told in reason(HERE, training(**situation))


def test_it_is_proposed_where_floats_are_sent():
    assert proposal(HERE, SITUATIONS["floats sent to a device"]).predicted > 1.5
