from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from uncork.compat.keras3.backend import (
    AutocastScope,
    get_autocast_scope,
    get_keras_mask,
    global_seed_generator,
    set_keras_mask,
    tf_variable,
)
from uncork.core.base.errors import MissingPrivateApi


def test_a_mask_of_a_layer_is_read_and_put_on_another_tensor():
    masked = keras.layers.Masking()(tf.constant([[[0.0], [1.0]]]))
    other = tf.identity(masked)
    assert get_keras_mask(other) is None
    set_keras_mask(other, get_keras_mask(masked))
    assert get_keras_mask(other).numpy().tolist() == [[False, True]]


def test_variables_are_cast_within_a_scope_and_not_within_one_of_none():
    variable = keras.Variable([1.0])
    assert get_autocast_scope() is None
    with AutocastScope("bfloat16"):
        assert get_autocast_scope().dtype == "bfloat16"
        assert variable.value.dtype == tf.bfloat16
        with AutocastScope(None):
            assert variable.value.dtype == tf.float32


def test_the_global_seed_generator_is_the_one_that_draws():
    keras.random.uniform(())
    before = global_seed_generator().state.numpy()
    keras.random.uniform(())
    assert (global_seed_generator().state.numpy() != before).any()


def test_the_variable_of_tensorflow_is_found_where_reading_gives_a_tensor():
    variable = keras.Variable([1.0])
    with AutocastScope("bfloat16"):
        assert isinstance(tf_variable(variable), tf.Variable)
        assert not isinstance(variable.value, tf.Variable)


def test_a_missing_field_is_reported():
    with pytest.raises(MissingPrivateApi, match=r"object\._value'"):
        tf_variable(object())
