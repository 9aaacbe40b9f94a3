from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import tensorflow as tf

from uncork.training.loop_step.loss import find_returned_loss, find_returned_names

LOW, HIGH = tf.constant(0.5), tf.constant(2.0)


class Told(NamedTuple):
    accuracy: tf.Tensor
    loss: tf.Tensor


def one(x):
    loss = x * 2
    return loss


def many(x):
    total = sum((x, x, x))
    g_loss, d_loss = total, x
    return g_loss, d_loss, x


def branches(x):
    loss, other = x, x
    if x > 1:
        return loss, other
    return other, loss


def computed(x):
    loss = x
    return loss, abs(x)


def early(x):
    if x > 1:
        return None
    return x


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (one, ("loss",)),
        (many, ("g_loss", "d_loss", "x")),
        (branches, ()),
        (computed, ()),
        (lambda x: x + 1, ()),
        (lambda x: {"loss": x}, ()),
        (len, ()),
    ],
)
def test_names_of_what_is_returned(function, names):
    assert find_returned_names(function) == names


def test_of_several_returns_nothing_is_told_unless_they_agree():
    assert find_returned_names(early) in ((), ("x",))  # by how Python returns a constant


def test_what_is_kept_in_a_cell_has_a_name_too():
    def step(x):
        loss, accuracy = x, x

        def later():
            return loss

        return loss, accuracy, later

    assert find_returned_names(step) == ("loss", "accuracy", "later")


@pytest.mark.parametrize(
    ("returned", "names", "found"),
    [
        (HIGH, (), (True, 2.0)),
        (HIGH, ("total",), (True, 2.0)),
        (LOW, ("accuracy",), (False, 0.5)),
        ({"accuracy": LOW, "loss": HIGH}, (), (True, 2.0)),
        ({"kl": LOW, "loss": HIGH}, (), (True, 2.0)),
        ({"grad_norm": LOW, "loss": HIGH}, (), (True, 2.0)),
        ({"learning_rate": LOW}, (), (False, 0.5)),
        ({"learning_rate": LOW, "my_loss": HIGH}, (), (True, 2.0)),
        ({"parts": {"accuracy": LOW, "loss": HIGH}}, (), (True, 2.0)),
        ((LOW, HIGH), ("accuracy", "loss"), (True, 2.0)),
        ((LOW, HIGH), ("accuracy", "my_loss"), (True, 2.0)),
        ((LOW, HIGH), ("g_loss", "d_loss"), (False, 1.25)),
        ((LOW, HIGH), (), (False, 1.25)),
        ((HIGH, tf.zeros(3), tf.constant(4)), (), (True, 2.0)),
        (Told(LOW, HIGH), (), (True, 2.0)),
        (((LOW, HIGH), LOW), ("parts", "loss"), (True, 0.5)),
        (({"loss": HIGH}, {"loss": LOW}), (), (False, 0.5)),  # which of them?
        (None, (), None),
        (tf.zeros(3), ("loss",), None),
        (tf.constant(3), ("loss",), None),
    ],
)
def test_which_is_the_loss(returned: Any, names: tuple[str, ...], found: Any):
    assert find_returned_loss(returned, names) == found
