from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.module_speed import compare_model_in_float32


def called(model, *specs):
    layers = LayerRegistry()
    layers.note_call(model, "functional_1", specs)
    return layers


def network(policy, inputs=2):
    given = [keras.Input((16,)) for _ in range(inputs)]
    x = keras.layers.Concatenate(dtype=policy)(given) if inputs > 1 else given[0]
    x = keras.layers.Dense(64, dtype=policy)(x)
    x = keras.layers.BatchNormalization(dtype=policy)(x)
    return keras.Model(given, keras.layers.Dense(1, dtype="float32")(x))


def spec():
    return tf.TensorSpec((None, 16), tf.float32)


def test_a_model_in_mixed_precision_is_held_against_itself_in_float32():
    model = network("mixed_float16")
    before = [v.numpy().copy() for v in model.variables]
    policies = [layer.dtype_policy.name for layer in model._flatten_layers()]
    compared = compare_model_in_float32(called(model, [spec(), spec()]), 8, block_s=0.05)
    assert compared is not None
    assert compared.ratio > 0
    after = [v.numpy() for v in model.variables]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert [layer.dtype_policy.name for layer in model._flatten_layers()] == policies


def test_one_in_float32_needs_no_comparison():
    assert compare_model_in_float32(called(network("float32", 1), spec()), 8, block_s=0.05) is None
    assert compare_model_in_float32(LayerRegistry(), 8, block_s=0.05) is None


def test_a_layer_inside_another_is_not_asked():
    layers, inner = LayerRegistry(), network("mixed_float16", 1)
    outer = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16)])
    layers.note_call(outer, "sequential", (spec(),))
    layers.note_call(inner, "sequential/functional_1", (spec(),))
    assert [layer for layer, _ in layers.outermost_calls()] == [outer]
    assert compare_model_in_float32(layers, 8, block_s=0.05) is None
