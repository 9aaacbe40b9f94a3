from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from layer_watching import watched_layers


class Own(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)

    def call(self, x):
        return self.inner(x)


def test_a_layer_remembers_the_line_that_made_it():
    with watched_layers() as layers:
        dense = keras.layers.Dense(3)
        own = Own()
    file, _, line = layers.creation_location(dense).rpartition(":")
    assert file.endswith("test_layer_hooks.py")
    assert int(layers.creation_location(own).rpartition(":")[2]) == int(line) + 1
    assert layers.creation_location(own.inner) != layers.creation_location(own)
    assert layers.creation_location(keras.layers.Dense(3)) is None


def test_its_ops_are_found_under_the_scope_that_tensorflow_gave_it():
    with watched_layers() as layers:
        first, second = keras.layers.Dense(3, name="dense"), keras.layers.Dense(3, name="dense_1")
        model = keras.Sequential([keras.Input((4,)), first, second])
        step = tf.function(lambda x: model(x, training=True))
        graph = step.get_concrete_function(tf.ones((2, 4))).graph
    products = [op.name for op in graph.get_operations() if op.type == "MatMul"]
    assert [layers.layer_of_op(name) for name in products] == [first, second]


def test_layers_work_as_before_and_eager_calls_leave_nothing():
    with watched_layers() as layers:
        model = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3, kernel_initializer="ones")]
        )
        seen = len(layers._scopes)
        assert model(tf.ones((2, 4))).numpy() == pytest.approx(4.0)
        assert len(layers._scopes) == seen
        with pytest.raises(ValueError, match="incompatible"):
            model(tf.ones((2, 5)))
    assert keras.layers.Layer.__new__.__module__ == "keras.src.layers.layer"


def test_layers_on_ragged_and_sparse_tensors_are_called_as_ever():
    with watched_layers() as layers:
        total = keras.layers.Lambda(tf.reduce_sum)
        ragged, sparse = tf.ragged.constant([[1.0], [2.0, 3.0]]), tf.sparse.eye(2)
        assert tf.function(total)(ragged).numpy() == pytest.approx(6.0)
        dense = keras.layers.Lambda(tf.sparse.to_dense)
        assert tf.function(lambda: dense(sparse))().numpy().sum() == pytest.approx(2.0)
    assert {layer for layer, _ in layers.outermost_calls()} == {total, dense}


def test_arguments_may_have_any_name():
    class Scaled(keras.layers.Layer):
        def call(self, x, layer=1, cls=1):
            return x * layer * cls

    with watched_layers():
        found = keras.layers.Lambda(lambda x: x)(Scaled()(tf.ones((2,)), layer=3, cls=2))
    assert found.numpy() == pytest.approx(6.0)
