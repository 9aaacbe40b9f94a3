from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.measurement import compare
from uncork.core.evidence.batches import LargerReplicaBatch
from uncork.rules.device import replica_too_small

AS_IS = [100.0, 101.0, 99.0]
COMPUTING = {"input": 0.1, "step": 0.9}


def found(ratio, shares=COMPUTING):
    larger = LargerReplicaBatch(
        batch_multiplier=8, speedup=compare(AS_IS, [ratio * speed for speed in AS_IS])
    )
    diagnosis = observed(
        larger_replica_batch=larger, shares=shares, workload={"replicas": 2, "is_distributed": True}
    )
    return list(replica_too_small.find(diagnosis, MACHINE))


def test_a_step_that_hardly_notices_more_work_is_overhead():
    (finding,) = found(4.0)
    assert finding.cause == "replica_too_small"
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 4))
    assert "2 replicas with 16 samples each" in finding.evidence
    assert "changes the training" in finding.remedy


@pytest.mark.parametrize(
    ("ratio", "shares"), [(1.3, COMPUTING), (0.9, COMPUTING), (4.0, {"input": 0.9, "step": 0.1})]
)
def test_replicas_with_enough_to_do_are_left_alone(ratio, shares):
    assert found(ratio, shares) == []


def test_one_device_is_not_asked():
    assert list(replica_too_small.find(observed(), MACHINE)) == []
