from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.compat.tf import py_function


def negative(x):
    return -x


@pytest.mark.parametrize("wrap", [tf.numpy_function, tf.py_function])
def test_the_function_behind_a_token_is_replaced(wrap):
    minus = tf.function(lambda x: wrap(negative, [x], tf.float32))
    graph = minus.get_concrete_function(tf.TensorSpec([], tf.float32)).graph
    (call,) = (op for op in graph.get_operations() if "PyFunc" in op.type)
    token = call.get_attr("token").decode()
    entry = py_function.registered(token)
    assert callable(py_function.function_of(entry))
    doubled = py_function.entry_like(entry, lambda x: np.float32(2) * x)
    assert type(doubled) is type(entry)
    py_function.replace_registered(token, doubled)
    assert float(minus(tf.constant(3.0))) == 6.0
    py_function.replace_registered(token, entry)
    assert float(minus(tf.constant(3.0))) == -3.0


def test_a_graph_keeps_entries_alive():
    class Entry:
        pass

    entry, graph = Entry(), tf.Graph()
    token = py_function.register(entry)
    py_function.keep_alive(graph, [entry])
    del entry
    assert isinstance(py_function.registered(token), Entry)
    del graph
    assert py_function.registered("no such token") is None
