from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf import graphs


@tf.function
def inner(x):
    return tf.square(x)


@tf.function
def outer(x):
    return inner(x) + 1.0


def test_an_op_is_defined_and_a_function_is_not():
    assert graphs.registered_op_def("MatMul").name == "MatMul"
    assert not graphs.registered_op_def("MatMul").is_stateful
    assert graphs.registered_op_def("no_such_op") is None


def test_the_body_of_a_function_is_a_graph():
    function = inner.get_concrete_function(tf.TensorSpec([], tf.float32))
    graph, names = graphs.function_def_to_graph_def(function.function_def)
    assert "Square" in {node.op for node in graph.node}
    assert "x" in names


def test_a_called_function_is_found_by_its_name():
    graph = outer.get_concrete_function(tf.TensorSpec([], tf.float32)).graph
    (call,) = (op for op in graph.get_operations() if op.type.endswith("PartitionedCall"))
    called = graphs.function_in(graph, call.get_attr("f").name)
    assert "Square" in {op.type for op in called.graph.get_operations()}
    assert graphs.function_in(graph, "no_such_function") is None


def test_ragged_tensors_are_composite():
    assert isinstance(tf.ragged.constant([[1], []]), graphs.CompositeTensor)
    assert not isinstance(tf.constant(1), graphs.CompositeTensor)
