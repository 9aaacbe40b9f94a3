from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, SITUATIONS, proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import GatherLast, VectorizeMap
from uncork.core.edits.step import MapOnDevice
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import StepOffload
from uncork.optimizations.host.data_on_device import DataOnDeviceOptimization

THERE = DataOnDeviceOptimization()
SENT = Transfer(
    device="GPU:0",
    batch_bytes=40_000_000,
    min_bytes=40_000_000,
    wall_s=0.06,
    cpu_s=0.0,
    free_device_bytes=8_000_000_000,
)
ROWS = StepOffload(digest="9a7e", saved_transfer_share=0.999, resident_bytes=2_000_000_000)


def training(*, rows=ROWS, sent=SENT, **workload):
    stages = (stage(0, "from_tensor_slices", step_offload=rows), stage(1, "batch"))
    return observed(*stages, shares=COMPUTING, transfer=sent, workload=workload)


def test_numbers_of_rows_are_all_that_is_sent():
    found = proposal(THERE, training())
    digest = training().workload.pipeline_digest
    assert found.edits == (GatherLast(expected_digest=digest), MapOnDevice(expected_digest="9a7e"))
    assert found.predicted == pytest.approx(0.1 / 0.04, rel=0.05)
    assert found.at == "train.py:20"
    assert "2,000.0 MB of arrays are copied to GPU:0" in found.rationale


def test_maps_below_the_batch_take_whole_batches_first():
    found = proposal(THERE, training(rows=replace(ROWS, vectorized_maps=(1,))))
    digest = training().workload.pipeline_digest
    assert found.edits == (
        VectorizeMap(stage=1, expected_digest=digest),
        GatherLast(expected_digest=""),
        MapOnDevice(expected_digest="9a7e"),
    )


def test_arrays_that_fit_is_given_need_no_other_pipeline():
    arrays = training(data_kind="numpy", pipeline_digest="", array_offload=ROWS)
    found = proposal(THERE, replace(arrays, stages=()))
    assert found.edits == (MapOnDevice(expected_digest="9a7e"),)
    assert found.predicted == pytest.approx(0.1 / 0.04, rel=0.05)
    assert found.at == "train.py:41"


def test_the_device_must_have_room():
    little = replace(SENT, free_device_bytes=3_000_000_000)
    assert "take 2.0 GB of the device's memory" in reason(THERE, training(sent=little))
    unknown = replace(SENT, free_device_bytes=None)
    assert "is unknown" in reason(THERE, training(sent=unknown))


def test_where_little_time_is_spent_on_sending_there_is_nothing_to_win():
    assert "predicted gain 1.0" in reason(THERE, training(sent=replace(SENT, wall_s=0.004)))


def test_where_nothing_is_sent():
    assert "sends little or nothing" in reason(THERE, training(sent=None))


def test_where_rows_are_not_only_picked():
    assert "not fed by arrays" in reason(THERE, training(rows=None))


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ({"is_eager_step": True}, "run_eagerly"),
        ({"is_distributed": True}, "strategy"),
        ({"kind": "custom_loop"}, "custom loop"),
        ({"is_fit_in_loop": True}, "runs a few steps only"),
    ],
)
def test_where_it_cannot_be_done(situation, told):
    assert told in reason(THERE, training(**situation))


def test_a_loader_has_no_rows():
    assert "not by tf.data" in reason(THERE, training(rows=None, data_kind="pydataset"))


def test_it_is_proposed_where_floats_are_sent():
    assert proposal(THERE, SITUATIONS["floats sent to a device"]).predicted > 1.5
