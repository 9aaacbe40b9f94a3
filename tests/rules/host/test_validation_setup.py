from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.callbacks import Validation
from uncork.rules.host import validation_setup

# 100 steps of 0.1 s; the step itself takes 0.05 s for 32 samples.
HALF = {"input": 0.5, "step": 0.5}


def found(validation, **workload):
    work = {"steps_per_epoch": 100, **workload}
    diagnosis = observed(shares=HALF, workload=work, validation=validation)
    return list(validation_setup.find(diagnosis, MACHINE))


def test_a_slow_validation_is_named_where_its_batches_are_put_together():
    (finding,) = found(Validation(validation_s=10.0, sample_count=640, at="train.py:9"))
    assert (finding.cause, finding.at) == ("validation_setup", "train.py:9")
    assert finding.share == pytest.approx(0.5)
    assert finding.upper_bound == pytest.approx(20 / 11)
    for figure in ("validation takes 10 s", "epoch take 10 s", "50%", "would take 1 s"):
        assert figure in finding.evidence


def test_one_in_five_epochs_costs_a_fifth():
    (finding,) = found(Validation(validation_s=10.0, sample_count=640, every_epochs=5))
    assert finding.share == pytest.approx(2 / 12)
    assert finding.upper_bound == pytest.approx(12 / 10.2)
    assert finding.at == "train.py:41"


@pytest.mark.parametrize(
    "validation",
    [
        None,
        Validation(validation_s=1.0, sample_count=640),  # as fast as training
        Validation(validation_s=0.4, sample_count=640),
        Validation(validation_s=10.0, sample_count=6_400),  # long because there is much of it
        Validation(validation_s=0.9, sample_count=32),  # slow, and short
    ],
)
def test_what_is_not_named(validation):
    assert found(validation) == []


def test_without_a_length_nothing_is_known():
    assert found(Validation(validation_s=10.0, sample_count=640), steps_per_epoch=None) == []
