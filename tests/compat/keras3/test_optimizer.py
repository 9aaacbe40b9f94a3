from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest

from uncork.compat.keras3 import optimizer as compat
from uncork.compat.keras3.optimizer import (
    BACKEND_UPDATE,
    CURRENT_RATE,
    NO_STATE,
    STRATEGY_UPDATE,
    WEIGHT_NUMBERS,
    method_of,
    owner_of,
    rate_setting,
    squared_sums,
    state_list,
    step_counter,
    weight_key,
    weight_number,
    weights_of,
)
from uncork.core.base.errors import MissingPrivateApi

SCHEDULE = keras.optimizers.schedules.CosineDecay(0.1, 100)


def built(optimizer):
    weights = [keras.Variable([1.0, 2.0]), keras.Variable([3.0])]
    optimizer.build(weights)
    return optimizer, weights


def test_weights_have_numbers_and_keys():
    optimizer, weights = built(keras.optimizers.Adam())
    assert [each is weight for each, weight in zip(weights_of(optimizer), weights, strict=True)]
    assert [weight_number(optimizer, weight) for weight in weights] == [0, 1]
    keys = [weight_key(optimizer, weight) for weight in weights]
    assert getattr(optimizer, WEIGHT_NUMBERS) == dict(zip(keys, (0, 1), strict=True))


def test_state_is_listed_weight_by_weight_beside_what_is_no_state():
    optimizer, weights = built(keras.optimizers.Adam())
    lists = {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, list) and len(value) == len(weights)
    }
    assert lists.keys() - set(NO_STATE) == {"_momentums", "_velocities"}
    assert [each.shape for each in state_list(optimizer, "_velocities")] == [(2,), (1,)]


def test_adagrad_sums_squares():
    optimizer, weights = built(keras.optimizers.Adagrad(initial_accumulator_value=0.0))
    optimizer.apply([np.array([2.0, 3.0]), np.array([4.0])], weights)
    assert [each.numpy().tolist() for each in squared_sums(optimizer)] == [[4.0, 9.0], [16.0]]


def test_the_counter_counts_steps():
    optimizer, weights = built(keras.optimizers.SGD(gradient_accumulation_steps=2))
    optimizer.apply([np.ones(2), np.ones(1)], weights)
    assert int(step_counter(optimizer)) == 1
    assert int(optimizer.iterations) == 0


@pytest.mark.parametrize("name", [BACKEND_UPDATE, STRATEGY_UPDATE, CURRENT_RATE])
def test_a_replaced_method_is_called_at_each_update(name):
    optimizer, weights = built(keras.optimizers.SGD(1.0))
    written, calls = method_of(optimizer, name), []

    def instead(*args):
        calls.append(len(args))
        return written(*args)

    object.__setattr__(optimizer, name, instead)
    optimizer.apply([np.ones(2), np.ones(1)], weights)
    assert calls == [{BACKEND_UPDATE: 3, STRATEGY_UPDATE: 3, CURRENT_RATE: 0}[name]]
    assert weights[1].numpy().tolist() == [2.0]


def test_a_rate_is_what_was_given():
    assert rate_setting(keras.optimizers.SGD(SCHEDULE)) is SCHEDULE
    assert isinstance(rate_setting(keras.optimizers.SGD(0.1)), keras.Variable)
    assert rate_setting(None) is None


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (lambda optimizer: method_of(optimizer, CURRENT_RATE), CURRENT_RATE),
        (lambda optimizer: owner_of(type(optimizer), STRATEGY_UPDATE), STRATEGY_UPDATE),
        (weights_of, "_trainable_variables"),
        (lambda optimizer: weight_number(optimizer, None), "_get_variable_index"),
        (lambda optimizer: weight_key(optimizer, None), "_var_key"),
        (squared_sums, "_accumulators"),
        (step_counter, "_iterations"),
        (rate_setting, "_learning_rate"),
    ],
)
def test_a_missing_field_is_reported(read, field):
    class Optimizer:
        learning_rate = 0.1

    with pytest.raises(MissingPrivateApi, match=rf"Optimizer\.{field}'"):
        read(Optimizer())


def test_hooks_use_it_without_keras():
    code = f"import sys, {compat.__name__}; sys.exit('keras' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
