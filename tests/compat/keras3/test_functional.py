from __future__ import annotations

import keras
import numpy as np
import pytest

from uncork.compat.keras3.functional import (
    RUN_NODES,
    Functional,
    calls_of,
    functional_in,
    history_of,
    inputs_structure,
    nodes_of,
    operation_fn,
    outputs_structure,
    standardize_inputs,
)
from uncork.core.base.errors import MissingPrivateApi

ROWS = np.ones((4, 2), "float32")


@pytest.fixture
def layers():
    return [keras.layers.Dense(3, name="first"), keras.layers.Dropout(0.5, name="second")]


@pytest.fixture
def model(layers):
    x = keras.Input((2,), name="x")
    return keras.Model({"x": x}, [layers[1](layers[0](x))])


def test_a_sequential_model_runs_a_functional_one_once_it_is_built():
    sequential = keras.Sequential([keras.layers.Dense(3)])
    assert functional_in(sequential) is None
    sequential.build((None, 2))
    assert isinstance(functional_in(sequential), Functional)


def test_nodes_come_in_the_order_in_which_they_run(model, layers):
    nodes = nodes_of(model)
    assert [node.operation.name for node in nodes] == ["x", "first", "second"]
    assert [node.is_input for node in nodes] == [True, False, False]
    assert history_of(model.outputs[0]).operation is layers[1]
    history = history_of(layers[0].output)
    assert calls_of(history.operation)[history.node_index] is nodes[1]


def test_the_user_s_structures_are_kept(model):
    assert list(inputs_structure(model)) == ["x"]
    assert isinstance(outputs_structure(model), list)
    (standard,) = standardize_inputs(model, {"x": ROWS})
    assert standard.shape == (4, 2)


@pytest.mark.parametrize("training", [True, False])
def test_an_operation_is_told_whether_the_model_trains(layers, training):
    dropped = np.asarray(operation_fn(layers[1], training=training)(np.ones((40, 40)))) == 0
    assert dropped.any() == training


def test_another_method_runs_the_nodes(model):
    runs = []
    written = getattr(model, RUN_NODES)

    def run(inputs, operation_fn, call_fn=None):
        runs.append(call_fn)
        return written(inputs, operation_fn=operation_fn, call_fn=call_fn)

    object.__setattr__(model, RUN_NODES, run)
    model({"x": ROWS})
    assert runs == [None]


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (functional_in, "_functional"),
        (nodes_of, "_nodes_by_depth"),
        (inputs_structure, "_inputs_struct"),
        (outputs_structure, "_outputs_struct"),
        (history_of, "_keras_history"),
        (calls_of, "_inbound_nodes"),
    ],
)
def test_a_missing_field_is_reported(read, field):
    with pytest.raises(MissingPrivateApi, match=rf"object\.{field}'"):
        read(object())
