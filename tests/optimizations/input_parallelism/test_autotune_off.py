from __future__ import annotations

import pytest

from optimizations.situations import proposal, reason
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import AutotuneOff, Prefetch
from uncork.optimizations.input_parallelism.autotune_off import AutotuneOffOptimization

STOP = AutotuneOffOptimization()


def short_epochs(*stages, **workload):
    """Ten epochs of 50 steps of 10 ms."""
    shown = stages or (stage(0, "cache"), stage(1, "batch"))
    return observed(
        *shown, shares={"step": 1.0}, step_s=0.01, workload={"steps_per_epoch": 50, **workload}
    )


def test_short_epochs_end_without_the_autotuner():
    found = proposal(STOP, short_epochs())
    assert found.edits == (Prefetch(expected_digest="51ab"), AutotuneOff(expected_digest=""))
    assert found.predicted is None


def losing(between_epochs: float | None):
    """The same, with such a part of the time between epochs."""
    diagnosis = short_epochs()
    measured = replace(diagnosis.measurement, between_epochs_share=between_epochs)
    return replace(diagnosis, measurement=measured)


def test_what_passes_between_epochs_is_predicted_to_be_won():
    assert proposal(STOP, losing(0.5)).predicted == pytest.approx(2.0)
    assert proposal(STOP, losing(0.99)).predicted == pytest.approx(2.5)
    assert proposal(STOP, losing(None)).predicted is None


def test_little_between_epochs_is_not_worth_it():
    assert "1.01x" in reason(STOP, losing(0.01))


def test_one_prefetch_is_enough():
    found = proposal(STOP, short_epochs(stage(0, "batch"), stage(1, "prefetch")))
    assert found.edits == (AutotuneOff(expected_digest="51ab"),)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"steps_per_epoch": 5_000}, "too rarely"),
        ({"steps_per_epoch": None}, "unknown length"),
        ({"epochs": 1}, "one epoch"),
        ({"has_default_rewrites": False}, "already"),
        ({"data_kind": "numpy"}, "not by tf.data"),
    ],
)
def test_left_alone(workload, said):
    assert said in reason(STOP, short_epochs(**workload))
