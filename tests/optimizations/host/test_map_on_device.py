from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import VectorizeMap
from uncork.core.edits.step import MapOnDevice
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import StepOffload
from uncork.optimizations.host.map_on_device import MapOnDeviceOptimization

HERE = MapOnDeviceOptimization()
SENT = Transfer(
    device="GPU:0", batch_bytes=40_000_000, min_bytes=40_000_000, wall_s=0.06, cpu_s=0.0
)
LAST = StepOffload(digest="ca57", saved_transfer_share=0.75)
BYTES = stage(1, "batch", bytes_per_element=10_000_000)
CAST = stage(2, "map", 0.001, name="cast", bytes_per_element=40_000_000, step_offload=LAST)


def training(*stages, sent=SENT, **workload):
    stages = stages or (stage(0, "from_tensor_slices"), BYTES, CAST, stage(3, "prefetch"))
    return observed(*stages, shares=COMPUTING, transfer=sent, workload=workload)


def test_three_quarters_of_the_bytes_are_not_sent():
    found = proposal(HERE, training())
    assert found.edits == (MapOnDevice(expected_digest="ca57"),)
    assert found.predicted == pytest.approx(0.1 / 0.055, rel=0.05)
    assert found.at == CAST.at
    assert "75% of the bytes" in found.rationale
    assert "GPU:0" in found.rationale


def test_arrays_that_the_device_may_have_room_for_come_first():
    assert proposal(HERE, training()).prerequisite == ""
    rows = stage(0, "from_tensor_slices", step_offload=replace(LAST, saved_transfer_share=0.99))
    assert proposal(HERE, training(rows, BYTES, CAST)).prerequisite == "data_on_device"


def test_maps_below_the_batch_take_whole_batches_first():
    below = replace(CAST, index=1, step_offload=replace(LAST, vectorized_maps=(2, 1)))
    found = proposal(HERE, training(stage(0, "from_tensor_slices"), below, stage(2, "batch")))
    digest = training().workload.pipeline_digest
    assert found.edits == (
        VectorizeMap(stage=2, expected_digest=digest),
        VectorizeMap(stage=1, expected_digest=""),
        MapOnDevice(expected_digest="ca57"),
    )


def test_where_little_time_is_spent_on_sending_there_is_nothing_to_win():
    assert "predicted gain 1.0" in reason(HERE, training(sent=replace(SENT, wall_s=0.004)))


def test_where_nothing_is_sent():
    assert "sends little or nothing" in reason(HERE, training(sent=None))


@pytest.mark.parametrize("needed", [10_000_000, 40_000_000])
def test_where_no_last_map_makes_the_bytes_more(needed):
    other = replace(CAST, step_offload=None)
    sent = replace(SENT, min_bytes=needed)
    assert "does not end with a map" in reason(HERE, training(BYTES, other, sent=sent))


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ({"is_eager_step": True}, "run_eagerly"),
        ({"is_distributed": True}, "strategy"),
        ({"kind": "custom_loop"}, "more than one compiled function"),
        (
            {"kind": "custom_loop", "step_code_digest": "c0de", "is_eager_step": True},
            "runs eagerly",
        ),
        (
            {"kind": "custom_loop", "step_code_digest": "c0de", "is_dataset_recreated": True},
            "recreates its dataset",
        ),
        ({"data_kind": "numpy"}, "not by tf.data"),
    ],
)
def test_where_it_cannot_be_done(situation, told):
    assert told in reason(HERE, training(**situation))


def test_batches_of_a_loop_are_made_on_the_device_of_its_step():
    card = "/job:card/replica:0/task:0/device:CPU:0"
    rows = stage(0, "from_tensor_slices", step_offload=replace(LAST, saved_transfer_share=0.99))
    loop = {"kind": "custom_loop", "step_code_digest": "c0de"}
    sent = replace(SENT, placement=card)
    found = proposal(HERE, training(rows, BYTES, CAST, sent=sent, **loop))
    assert found.edits == (MapOnDevice(expected_digest="ca57", placement=card),)
    assert found.prerequisite == ""  # nothing puts the rows of a loop on a device
    assert "train_step" in found.source_edit


def test_it_is_proposed_where_floats_are_sent():
    assert proposal(HERE, SITUATIONS["floats sent to a device"]).predicted > 1.5
