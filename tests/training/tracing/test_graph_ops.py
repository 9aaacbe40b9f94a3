from __future__ import annotations

import tensorflow as tf

from uncork.training.tracing.graph_ops import GraphOps


def traced(function, *args):
    """Its graph; kept alive by whoever calls."""
    return tf.function(function).get_concrete_function(*args)


def named(concrete, kind):
    return [op for op in concrete.graph.get_operations() if op.type == kind]


def test_ops_are_found_by_their_names_in_loops_and_branches_too():
    concrete = traced(lambda x: tf.square(x, name="inner_area"), tf.constant(2.0))
    ops = GraphOps()
    assert ops.op_of_kernel("while/body/_3/cond/then/_12/inner_area").type == "Square"
    assert ops.op_of_kernel("inner_area").graph is concrete.graph
    assert ops.op_of_kernel("inner_area/fused_by_grappler") is None


def test_a_kernel_of_a_loop_or_of_its_gradient_belongs_to_the_loop():
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.map_fn(lambda each: each * each, x, name="one_by_one")
        return tape.gradient(y, x)

    concrete = traced(step, tf.ones((4,)))
    (loop,) = [
        op
        for kind in ("While", "StatelessWhile")
        for op in named(concrete, kind)
        if op.name == "one_by_one/while"
    ]
    ops = GraphOps()
    forward = "one_by_one/while/body/_12/one_by_one/while/mul"
    backward = (
        "gradient_tape/one_by_one/while/one_by_one/while_grad/body/_30/"
        "gradient_tape/one_by_one/while/gradients/mul"
    )
    assert ops.loop_of_kernel(forward) == ops.loop_of_kernel(backward) == loop
    assert ops.loop_of_kernel("one_by_one/TensorArrayUnstack") is None


def test_what_no_weight_has_touched_depends_on_the_batch_alone():
    weight = tf.Variable(2.0)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64)), -1
    )

    def step(words):
        looked_up = tf.cast(table.lookup(words), tf.float32)
        return tf.square(looked_up), tf.sqrt(looked_up * weight)

    concrete = traced(step, tf.constant(["a", "b"]))
    ops = GraphOps()
    assert all(ops.is_batch_dependent(op) for op in named(concrete, "LookupTableFindV2"))
    assert all(ops.is_batch_dependent(op) for op in named(concrete, "Square"))
    assert not any(ops.is_batch_dependent(op) for op in named(concrete, "Sqrt"))
    assert not any(ops.is_batch_dependent(op) for op in named(concrete, "ReadVariableOp"))


def test_what_depends_on_nothing_does_not_depend_on_the_batch():
    def step(x):
        return tf.add(x, tf.random.stateless_normal((2,), (1, 2)), name="noisy")

    concrete = traced(step, tf.ones((2,)))
    ops = GraphOps()
    assert not any(ops.is_batch_dependent(op) for op in named(concrete, "StatelessRandomNormalV2"))
    assert ops.is_batch_dependent(concrete.graph.get_operation_by_name("noisy"))


def test_of_two_graphs_the_one_that_was_traced_last_tells():
    graphs = [traced(lambda x: tf.square(x, name="twice_there"), tf.ones((n,))) for n in (1, 2, 3)]
    assert GraphOps().op_of_kernel("twice_there").graph is graphs[-1].graph
    del graphs[1:]
