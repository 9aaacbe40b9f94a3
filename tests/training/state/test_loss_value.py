from __future__ import annotations

import keras
import pytest

from uncork.training.loop_step.loss import MetricLoss
from uncork.training.state.loss_value import find_logged_loss


@pytest.mark.parametrize(
    ("logs", "found"),
    [
        ({"losses": {"loss": 3.0, "kl": 1.0}}, ("loss", 3.0)),
        ({"a": {"x_loss": 3.0}, "b": {"y_loss": 1.0}}, ("", 2.0)),
        ({"learning_rate": 0.1, "my_loss": 2.0}, ("my_loss", 2.0)),
        ({}, ("", 0.0)),
    ],
)
def test_which_of_what_fit_is_told(logs, found):
    assert find_logged_loss(logs) == found


def metrics(*names: str) -> list[keras.metrics.Mean]:
    return [keras.metrics.Mean(name=name) for name in names]


def values(*means: keras.metrics.Mean) -> list[object]:
    return [variable.value for mean in means for variable in mean.variables]


def test_other_variables_of_one_name_are_no_matter():
    (loss,), others = metrics("train_loss"), metrics("score", "score")
    assert MetricLoss.from_variables(values(loss, *others)) is not None
    assert MetricLoss.from_variables(values(*metrics("train_loss", "train_loss"))) is None


def test_a_mean_that_the_step_itself_sets_to_0():
    (metric,) = metrics("train_loss")
    metric.update_state(7.0)
    loss = MetricLoss.from_variables(values(metric))
    found = []
    for number in (3.0, 4.0, 5.0):
        metric.reset_state()
        metric.update_state(number)
        found.append(loss.mean_since_last())
    assert found == [3.0, 4.0, 5.0]
    assert loss.mean_since_last() is None
