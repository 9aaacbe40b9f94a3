from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.evidence.model import OneHotLabels
from uncork.rules.input import one_hot_labels

LABELS = OneHotLabels(
    class_count=5_000,
    batch_bytes=41_000_000,
    creation_s=0.03,
    creation_cpu_s=0.03,
    loss_s=0.02,
    loss_cpu_s=0.04,
)


def found(*stages, labels=LABELS, **changes):
    diagnosis = observed(*stages, one_hot_labels=labels, **changes)
    return list(one_hot_labels.find(diagnosis, MACHINE))


def test_in_a_loop_all_of_it_can_be_won():
    (finding,) = found(stage(0, "loop", 0.04), shares={"input": 0.5, "step": 0.5})
    assert finding.cause == "one_hot_labels"
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.at == "train.py:20"
    for figure in ("5,000 numbers", "41 MB", "30 ms", "20 ms longer", "100 ms"):
        assert figure in finding.evidence


def test_no_more_than_the_loop_was_seen_to_spend_there():
    (finding,) = found(stage(0, "loop", 0.01), shares={"input": 0.1, "step": 0.9})
    assert finding.upper_bound == pytest.approx(0.1 / 0.07)


def test_beside_the_training_only_the_loss_is_in_the_way():
    (finding,) = found(shares={"step": 1.0}, consumer_cpu_s=0.1)
    assert 1.1 < finding.upper_bound <= 0.1 / 0.08 + 1e-9
    assert finding.at == "train.py:41"


def test_a_loader_that_holds_the_step_up_makes_them_faster():
    slow = stage(0, "pydataset", 0.1, parallelism=1, has_python_code=True)
    (finding,) = found(slow, shares={"input": 0.5, "step": 0.5})
    assert finding.upper_bound == pytest.approx(0.1 / 0.07)
    assert finding.at == "train.py:20"


def test_a_function_called_for_each_row_makes_no_labels_of_a_batch():
    each = stage(0, "map", 0.0002, parallelism=1, has_python_code=True, elements_per_step=50.0)
    (finding,) = found(each, shares={"step": 1.0}, consumer_cpu_s=0.1)
    assert finding.upper_bound <= 0.1 / 0.08 + 1e-9
    assert finding.at == "train.py:41"


@pytest.mark.parametrize(
    "labels",
    [
        None,
        OneHotLabels(
            class_count=9,
            batch_bytes=9,
            creation_s=0.004,
            creation_cpu_s=0.0,
            loss_s=0.0,
            loss_cpu_s=0.0,
        ),
    ],
)
def test_what_wins_little_is_left_alone(labels):
    assert found(stage(0, "loop", 0.04), labels=labels) == []
