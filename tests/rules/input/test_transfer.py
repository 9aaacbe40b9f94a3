from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import StepOffload
from uncork.rules.input import transfer

FLOATS = Transfer(
    device="GPU:0", batch_bytes=40_000_000, min_bytes=10_000_000, wall_s=0.04, cpu_s=0.0
)
WIDE = (
    stage(0, "batch", bytes_per_element=10_000_000),
    stage(1, "map", 0.001, bytes_per_element=40_000_000),
)


def found(*stages, sent=FLOATS, shares=None):
    diagnosis = observed(*stages, transfer=sent, shares=shares or {"step": 1.0})
    return list(transfer.find(diagnosis, MACHINE))


def test_floats_that_hold_bytes_are_named_at_the_map_that_makes_them():
    (finding,) = found(*WIDE, stage(2, "prefetch", bytes_per_element=40_000_000))
    assert finding.cause == "transfer"
    assert finding.upper_bound == pytest.approx(0.1 / 0.07)
    assert finding.at == "train.py:21"
    for figure in ("40.0 MB", "GPU:0", "40 ms of a 100 ms step", "as uint8, it would send 10.0 MB"):
        assert figure in finding.evidence
    assert "Rescaling" in finding.remedy


def test_the_map_that_makes_them_is_spared_too():
    costly = replace(WIDE[1], cpu_s_per_element=0.15, wall_s_per_element=0.15)
    (finding,) = found(WIDE[0], costly, stage(2, "prefetch"), shares={"input": 0.6, "step": 0.4})
    assert finding.upper_bound > 2  # less than 1.05x without it: the step waits for this map


def test_what_is_narrow_already_could_stay_on_the_device():
    narrow = Transfer(
        device="GPU:0", batch_bytes=10_000_000, min_bytes=10_000_000, wall_s=0.05, cpu_s=0.0
    )
    (finding,) = found(stage(0, "loop"), sent=narrow)
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.at == "train.py:41"
    assert "copy them there once" in finding.remedy


def test_in_fit_as_well():
    wide = Transfer(device="GPU:0", batch_bytes=4_000, min_bytes=4_000, wall_s=0.05, cpu_s=0.0)
    (finding,) = found(*WIDE, sent=wide)
    assert "copy them there once" in finding.remedy
    assert finding.at == "train.py:41"


def test_arrays_that_the_step_could_gather_from_are_named():
    narrow = Transfer(device="GPU:0", batch_bytes=4_000, min_bytes=4_000, wall_s=0.05, cpu_s=0.0)
    rows = stage(
        0, "from_tensor_slices", step_offload=StepOffload(digest="9a7e", saved_transfer_share=0.99)
    )
    (finding,) = found(rows, stage(1, "batch"), sent=narrow)
    assert finding.at == "train.py:20"
    assert "data_on_device" in finding.remedy


def test_a_map_that_the_step_could_do_is_named_whatever_its_floats_hold():
    sent = replace(FLOATS, min_bytes=40_000_000)
    last = replace(WIDE[1], step_offload=StepOffload(digest="ca57", saved_transfer_share=0.75))
    (finding,) = found(WIDE[0], last, sent=sent)
    assert finding.upper_bound == pytest.approx(0.1 / 0.07)
    assert finding.at == "train.py:21"
    assert "as uint8, it would send 10.0 MB" in finding.evidence
    assert "map_on_device" in finding.remedy


@pytest.mark.parametrize("code", ["c0de", ""])
def test_in_a_loop_the_plan_can_do_it_where_its_step_is_known(code):
    last = replace(WIDE[1], step_offload=StepOffload(digest="ca57", saved_transfer_share=0.75))
    loop = {"kind": "custom_loop", "step_code_digest": code}
    diagnosis = observed(WIDE[0], last, transfer=FLOATS, shares={"step": 1.0}, workload=loop)
    (finding,) = transfer.find(diagnosis, MACHINE)
    assert ("map_on_device" in finding.remedy) == bool(code)


def test_a_decoder_is_not_taken_for_a_cast():
    decode = stage(1, "map", 0.001, bytes_per_element=40_000_000)
    (finding,) = found(stage(0, "from_tensor_slices", bytes_per_element=60), decode)
    assert finding.at == "train.py:41"


def test_a_step_that_waits_for_its_input_wins_nothing():
    slow = stage(0, "map", 0.2, parallelism=1, bytes_per_element=40_000_000)
    assert found(slow, shares={"input": 0.9, "step": 0.1}) == []


@pytest.mark.parametrize("wall_s", [None, 0.001])
def test_what_takes_no_time_is_left_alone(wall_s):
    quick = Transfer(device="GPU:0", batch_bytes=4, min_bytes=4, wall_s=0.001, cpu_s=0.0)
    assert found(*WIDE, sent=None if wall_s is None else quick) == []
