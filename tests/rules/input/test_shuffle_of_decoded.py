from __future__ import annotations

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import AUTOTUNE, ShuffleBuffer
from uncork.rules.input import shuffle_of_decoded

CORES = replace(MACHINE, cpus=4.0)
BUFFER = ShuffleBuffer(
    element_count=1000, elements_per_pass=1000, movable_maps=(1,), bytes_per_element=50
)


def found(buffer, decode_s=0.16, **changes):
    diagnosis = observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", decode_s, parallelism=AUTOTUNE),
        stage(2, "shuffle", shuffle_buffer=buffer, bytes_per_element=600_000),
        shares={"input": 0.4, "host": 0.0, "step": 0.6},
        **changes,
    )
    return list(shuffle_of_decoded.find(diagnosis, CORES))


def test_filling_the_buffer_is_named_with_its_time_and_size():
    (finding,) = found(BUFFER)
    assert finding.cause == "shuffle_of_decoded"
    assert finding.at == "train.py:22"
    assert finding.upper_bound > 1.6
    # 1,000 elements of one step each: 42 ms a step
    assert "waits: 42 s;" in finding.evidence
    assert "600.0 MB; before the maps, it would take 0.1 MB" in finding.evidence


def test_filling_that_fell_into_the_measurement_is_not_taken_for_the_step():
    """It is work of nobody's, in passes that fill the buffer again and again."""
    (plain,) = found(BUFFER)
    busy = replace(observed().measurement, cpu_s_per_step=0.16 + 0.06 + 0.3)
    (finding,) = found(BUFFER, measurement=busy, consumer_cpu_s=0.06)
    assert finding.upper_bound == plain.upper_bound


def test_a_buffer_that_is_filled_soon_is_not_named():
    assert not found(replace(BUFFER, element_count=10))


def test_a_buffer_of_cheap_elements_is_not_named():
    assert not found(BUFFER, 0.001)


def test_a_shuffle_of_names_is_not_named():
    assert not found(None)
