from __future__ import annotations

import keras
import numpy as np
import pytest

from uncork.compat.keras3.layers import (
    ADDED_LOSSES,
    READ_IN_STEPS,
    DropoutRNNCell,
    built_shapes,
    flatten_layers,
    learning_setting,
    own_metrics,
    own_non_trainable_variables,
    own_trainable_variables,
    seed_generators,
    set_learning_setting,
    table_of,
    takes_training,
)
from uncork.core.base.errors import MissingPrivateApi


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="block")
        self.dense = keras.layers.Dense(2, name="dense")
        self.drop = keras.layers.Dropout(0.5, name="drop")
        self.seen = keras.metrics.Mean(name="seen")

    def build(self, shape):
        self.scale = self.add_weight(shape=(1,))
        self.count = self.add_weight(shape=(), trainable=False)
        self.dense.build(shape)

    def call(self, inputs):
        return self.drop(self.dense(inputs)) * self.scale


@pytest.fixture
def block():
    layer = Block()
    layer.build((None, 2))
    return layer


def names(layers):
    return [layer.name for layer in layers]


def test_layers_inside_a_layer_are_listed(block):
    model = keras.Sequential([keras.Input((2,)), block], name="model")
    assert set(names(flatten_layers(model))) >= {"model", "block", "dense", "drop"}
    assert names(flatten_layers(block, include_self=False)) == ["dense", "drop"]
    inner = flatten_layers(model, include_self=False, recursive=False)
    assert "block" in names(inner)
    assert "dense" not in names(inner)


def test_what_is_a_layer_s_own_leaves_out_the_layers_inside(block):
    assert own_trainable_variables(block) == [block.scale]
    assert own_non_trainable_variables(block) == [block.count]
    assert own_metrics(block) == [block.seen]
    assert seed_generators(block) == []
    assert len(seed_generators(block.drop)) == 1


def test_a_call_with_an_argument_for_training_is_told_apart(block):
    assert takes_training(block.drop)
    assert not takes_training(block)


def test_shapes_are_known_once_a_layer_is_built(block):
    assert built_shapes(block.dense) == {"input_shape": (None, 2)}
    assert built_shapes(keras.layers.Dense(1)) == {}


def test_the_table_of_an_embedding_is_its_variable():
    embedding = keras.layers.Embedding(5, 2)
    embedding.build((None,))
    assert table_of(embedding) is embedding.trainable_variables[0]


def test_the_own_setting_changes_nothing_inside(block):
    for part in (block, block.scale):
        set_learning_setting(part, False)
        assert learning_setting(part) is False
    assert learning_setting(block.dense) is True


def test_losses_are_added_to_one_list():
    layer = keras.layers.ActivityRegularization(l2=1.0)
    before = len(getattr(layer, ADDED_LOSSES))
    layer(np.ones((1, 2), "float32"))
    assert len(getattr(layer, ADDED_LOSSES)) == before + 1


def test_layers_and_optimizers_have_what_steps_read(block):
    parts = vars(block).keys() | vars(keras.optimizers.SGD()).keys()
    assert parts >= READ_IN_STEPS


def test_cells_that_drop_are_told_apart():
    cell = keras.layers.LSTMCell(2, dropout=0.5)
    assert isinstance(cell, DropoutRNNCell)
    assert np.shape(cell.get_dropout_mask(np.ones((3, 2)))) == (3, 2)


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (seed_generators, "_seed_generators"),
        (own_trainable_variables, "_trainable_variables"),
        (own_non_trainable_variables, "_non_trainable_variables"),
        (own_metrics, "_metrics"),
        (takes_training, "_call_has_training_arg"),
        (built_shapes, "_build_shapes_dict"),
        (table_of, "_embeddings"),
        (learning_setting, "_trainable"),
        (lambda part: set_learning_setting(part, True), "_trainable"),
    ],
)
def test_a_missing_field_is_reported(read, field):
    with pytest.raises(MissingPrivateApi, match=rf"object\.{field}'"):
        read(object())
