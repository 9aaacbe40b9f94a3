from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edits.step import LargerBatch
from uncork.training.optimizer.learning_rate import larger_batch_refusal, rescale_learning_rate

FOUR = (LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),)


def stepped(optimizer, edits=(), steps=3, **how):
    """A weight after a few steps of a traced update, the gradient 1."""
    weight = keras.Variable(np.ones(2, np.float32))
    optimizer.build([weight])

    @tf.function
    def step():
        optimizer.apply([tf.ones(2)], [weight])

    with rescale_learning_rate(optimizer, edits, **how):
        for _ in range(steps):
            step()
    return weight.numpy()


def test_it_is_what_the_rate_by_hand_gives():
    ours = stepped(keras.optimizers.Adam(0.01), FOUR)
    assert np.array_equal(ours, stepped(keras.optimizers.Adam(0.02)))
    decayed = stepped(keras.optimizers.AdamW(0.01, weight_decay=0.1), FOUR)
    assert np.array_equal(decayed, stepped(keras.optimizers.AdamW(0.02, weight_decay=0.1)))


def test_a_schedule_goes_on_by_samples():
    def falling(initial, every):
        return keras.optimizers.schedules.ExponentialDecay(initial, every, 0.5)

    ours = stepped(keras.optimizers.SGD(falling(0.01, 8)), FOUR, steps=6)
    assert np.allclose(ours, stepped(keras.optimizers.SGD(falling(0.02, 2)), steps=6), atol=1e-7)


def test_a_schedule_goes_on_from_where_it_is():
    """Steps of an earlier fit were of the batch as written."""
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([12], [0.25, 0.0])
    optimizer = keras.optimizers.SGD(rate)
    optimizer.iterations.assign(10)
    assert stepped(optimizer, FOUR, steps=3) == pytest.approx(1 - 0.5)


def test_a_training_that_was_stopped_goes_on_with_its_schedule():
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([44], [0.25, 0.0])
    optimizer = keras.optimizers.SGD(rate)
    optimizer.iterations.assign(10)  # of the larger batch: 40 of the script's
    assert stepped(optimizer, FOUR, steps=3, start_step=0) == pytest.approx(1 - 1.0)


def test_a_rate_that_is_changed_on_the_way_counts():
    optimizer = keras.optimizers.SGD(0.01)
    weight = keras.Variable(np.ones(1, np.float32))
    optimizer.build([weight])
    step = tf.function(lambda: optimizer.apply([tf.ones(1)], [weight]))
    with rescale_learning_rate(optimizer, FOUR):
        step()
        optimizer.learning_rate = 0.1
        step()
    assert weight.numpy() == pytest.approx(1 - 0.02 - 0.2)


def test_whoever_asks_in_python_is_told_the_rate_as_written():
    optimizer = keras.optimizers.Adam(0.25)
    with rescale_learning_rate(optimizer, FOUR):
        assert float(optimizer.learning_rate) == 0.25
        assert optimizer.get_config()["learning_rate"] == 0.25
    assert "_get_current_learning_rate" not in vars(optimizer)


def test_an_error_leaves_the_optimizer_as_it_was():
    optimizer = keras.optimizers.Adam(0.25)
    with pytest.raises(ZeroDivisionError), rescale_learning_rate(optimizer, FOUR):
        raise ZeroDivisionError
    assert "_get_current_learning_rate" not in vars(optimizer)


def test_without_the_edit_nothing_is_touched():
    optimizer = keras.optimizers.Adam(0.25)
    with rescale_learning_rate(optimizer, ()):
        assert "_get_current_learning_rate" not in vars(optimizer)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (keras.optimizers.Adam(gradient_accumulation_steps=4), "gradient_accumulation_steps"),
        (keras.optimizers.Adam(use_ema=True), "use_ema"),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "scales the loss"),
        (keras.optimizers.Adam(), ""),
    ],
)
def test_optimizers_that_count_steps_are_left_alone(optimizer, words):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    assert words in (larger_batch_refusal(model) or "")


def test_who_asks_in_python_is_told_a_schedule_where_it_is():
    """Six steps of the larger batch are twenty-four of the script's."""
    told = []
    falling = keras.optimizers.schedules.PolynomialDecay(0.01, 100, 0.0)
    optimizer = keras.optimizers.SGD(falling)
    optimizer.build([keras.Variable(np.ones(2, np.float32))])
    optimizer.iterations.assign(6)
    with rescale_learning_rate(optimizer, FOUR, start_step=0):
        told.append(float(optimizer.learning_rate))
    assert told == pytest.approx([0.01 * (1 - 24 / 100)])


def test_several_optimizers_have_rates_of_their_own():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    kinds = keras.optimizers
    model.compile(kinds.MultiOptimizer(kinds.OptimizerMap(kinds.SGD())), "mse")
    assert "several optimizers" in larger_batch_refusal(model)
