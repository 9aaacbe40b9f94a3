"""Which loop is written out in a graph?"""

from __future__ import annotations

import gc
import linecache

import keras
import pytest
import tensorflow as tf

from layer_watching import watched_layers
from uncork.training.tracing.graph_ops import find_live_graphs
from uncork.training.tracing.unrolled_loops import find_unrolled_loop

ROUNDS = 40


@pytest.fixture
def seen(monkeypatch):
    """Layers as the hooks see them; graphs of other tests are gone, or not looked at.

    TensorFlow keeps each function that was given as a gradient, and with it the graph around it.
    """
    keras.backend.clear_session()
    gc.collect()
    earlier = list(find_live_graphs())

    def later():
        return [graph for graph in find_live_graphs() if all(graph is not e for e in earlier)]

    monkeypatch.setattr("uncork.training.tracing.unrolled_loops.find_live_graphs", later)
    with watched_layers() as layers:
        yield layers


def line_of(function, text):
    code = function.python_function.__code__
    lines = linecache.getlines(code.co_filename)
    return next(n for n, line in enumerate(lines, 1) if n > code.co_firstlineno and text in line)


def test_a_loop_around_one_cell_is_told_by_its_for_statement(seen):
    cell = keras.layers.GRUCell(4)

    @tf.function
    def step(x):
        state = tf.zeros((2, 4))
        for t in range(ROUNDS):
            before = state
            state, _ = cell(x[:, t], [state])
            state = state + before
        return tf.reduce_sum(state)

    step(tf.ones((2, ROUNDS, 3)))
    found = find_unrolled_loop(seen, 5.0)
    assert found.at.endswith(f"test_unrolled_loops.py:{line_of(step, 'for t in')}")
    assert found.iterations == ROUNDS
    assert found.op_count > 1000
    assert found.op_share > 0.9
    assert found.tracing_s == pytest.approx(5.0 * found.op_share)


@pytest.mark.deep
def test_a_loop_over_layers_cannot_be_written_otherwise(seen):
    layers = [keras.layers.LayerNormalization() for _ in range(60)]

    @tf.function
    def step(x):
        for layer in layers:
            x = tf.nn.relu(layer(x))
        return tf.reduce_sum(x)

    step(tf.ones((2, 3)))
    graph = step.get_concrete_function(tf.ones((2, 3))).graph
    assert len(graph.get_operations()) > 1000
    assert find_unrolled_loop(seen, 5.0) is None


@pytest.mark.deep
def test_a_layer_that_unrolls_is_told_by_where_it_is_made(seen):
    recurrent = keras.layers.GRU(4, unroll=True, reset_after=False)

    @tf.function
    def step(x):
        return tf.reduce_sum(recurrent(x))

    step(tf.ones((2, ROUNDS, 3)))
    found = find_unrolled_loop(seen, 5.0)
    assert found.at == seen.creation_location(recurrent)
    assert "test_unrolled_loops.py" in found.at
    assert found.iterations == ROUNDS


@pytest.mark.deep
def test_a_loop_around_the_call_is_none_of_the_step_s(seen):
    cell = keras.layers.GRUCell(4)

    @tf.function
    def many(x):
        state = tf.zeros((2, 4))
        state, _ = cell(x, [state])
        return state, [tf.square(x) for _ in range(1100)]

    for _ in range(2):
        many(tf.ones((2, 3)))
    assert find_unrolled_loop(seen, 5.0) is None


def test_a_quick_first_step_is_not_looked_at(seen):
    assert find_unrolled_loop(seen, 0.5) is None
