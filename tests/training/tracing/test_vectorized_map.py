"""What ``tf.map_fn`` is answered at once, and what stays a loop."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.tracing.vectorized_map import NotVectorizedError, call_vectorized_map

X = tf.random.stateless_normal((6, 4, 3), (1, 2))
WEIGHT = tf.Variable(tf.random.stateless_normal((3,), (3, 4)))
DENSE = keras.layers.Dense(2)
DENSE.build((None, 3))
ANY_LENGTH = tf.TensorSpec((None, 4, 3))


def pooled(x):
    weights = tf.nn.softmax(tf.linalg.matvec(x, WEIGHT))
    return tf.reduce_sum(weights[:, None] * x, axis=0)


def clipped(x):
    """The gradient of one example, as private training needs it."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(pooled(x) ** 2)
    gradient = tape.gradient(loss, WEIGHT)
    return gradient / tf.maximum(1.0, tf.norm(gradient))


def branching(x):
    if x[0, 0] > 0:
        return pooled(x)
    return x[0]


def summed_up(x):
    total = 0.0
    for row in x:  # as long as the example: a loop of the graph
        total += tf.reduce_sum(row)
    return total


@tf.custom_gradient
def straight_through(x):
    return tf.round(x), lambda upstream: upstream


@tf.function
def by_itself(x):
    return 2 * x


def drawn(x):
    return x * tf.random.uniform(())


def counted(x):
    WEIGHT.assign_add(tf.zeros(3))
    return x


def checked(x):
    tf.debugging.assert_all_finite(x, "not finite")
    tf.debugging.assert_greater(tf.norm(x), 0.0)
    return x


def printed(x):
    tf.print(x)
    return x


def seeded(x):
    seed = tf.cast(x[0, :2], tf.int32)
    return x + tf.random.stateless_normal((4, 3), seed)


def both(map_fn, elems, signature=None):
    """Results of a function over these elements, with gradients."""

    def run(elems):
        with tf.GradientTape() as tape:
            found = map_fn(elems)
            loss = sum(tf.reduce_sum(tf.cast(f, tf.float32) ** 2) for f in tf.nest.flatten(found))
        return found, tape.gradient(loss, WEIGHT)

    return tf.function(run, input_signature=None if signature is None else [signature])


def same(fn, elems=X, signature=None, **options):
    looped = both(lambda xs: tf.map_fn(fn, xs, **options), elems, signature)
    whole = both(lambda xs: call_vectorized_map(fn, xs, **options), elems, signature)
    expected, found = looped(elems), whole(elems)
    tf.nest.assert_same_structure(expected, found)
    for theirs, ours in zip(*map(tf.nest.flatten, (expected, found)), strict=True):
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
            assert ours.dtype == theirs.dtype
    graphs = [each.get_concrete_function(elems).graph for each in (looped, whole)]
    assert [has_loop(graph) for graph in graphs] == [True, False]
    shapes = [[tensor.shape for tensor in graph.outputs] for graph in graphs]
    for theirs, ours in zip(*shapes, strict=True):
        assert ours.is_compatible_with(theirs)


def has_loop(graph):
    proto = graph.as_graph_def()
    bodies = [proto.node, *(inner.node_def for inner in proto.library.function)]
    return any("While" in node.op for body in bodies for node in body)


def refused(fn, elems=X, **options):
    reasons = []

    @tf.function
    def run():
        try:
            call_vectorized_map(fn, elems, **options)
        except NotVectorizedError as reason:
            reasons.append(str(reason))

    run.get_concrete_function()
    assert len(reasons) == 1, "it was answered at once"
    assert len(reasons[0]) < 160
    return reasons[0]


@pytest.mark.every(2)
@pytest.mark.parametrize("signature", [None, ANY_LENGTH, tf.TensorSpec((None, None, 3))])
def test_results_and_gradients_are_the_same(signature):
    same(pooled, signature=signature)


@pytest.mark.parametrize(
    "fn",
    [
        clipped,
        DENSE,
        lambda x: x[::2, 1:] * tf.where(x[:1] > 0, 2.0, 3.0)[:, 1:],
        lambda x: tf.linalg.inv(x[:3] + 5 * tf.eye(3)),
        lambda x: tf.nn.moments(x, axes=[0])[1],
        lambda x: tf.gather(tf.constant([1.0, 2.0, 3.0]), tf.argmax(x, axis=1)),
        lambda _: tf.constant([1.0, 2.0]),
        lambda x: tf.random.stateless_normal((3,), (1, 2)) * x[0],  # the same for each
        keras.layers.LayerNormalization(),
    ],
)
def test_functions_of_many_kinds(fn):
    if isinstance(fn, keras.layers.LayerNormalization):
        fn.build((None, 3))
    same(fn, fn_output_signature=tf.float32)


def test_structures_keep_their_form():
    pair = {"a": tf.float32, "b": (tf.int64, tf.TensorSpec((3,), tf.float32))}

    def fn(x):
        return {"b": (tf.argmax(x[0]), x[0]), "a": tf.norm(x)}

    same(fn, fn_output_signature=pair)
    same(lambda given: given[0] + given[1], (X, X), fn_output_signature=tf.float32)
    same(lambda given: (given[1], given[0]), (X, X))
    same(lambda given: [tf.norm(given)], X, dtype=[tf.float32])


def test_a_map_inside_a_map():
    def nested(map_fn):
        return both(lambda xs: map_fn(lambda x: map_fn(lambda row: row * WEIGHT, x), xs), X)

    expected, found = nested(tf.map_fn)(X), nested(call_vectorized_map)(X)
    for theirs, ours in zip(expected, found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_branches_of_python_are_converted_as_they_would_be():
    scale = 2.0

    def fn(x):
        return x * scale if scale > 1 else x

    same(fn)


def test_an_empty_batch_gives_an_empty_result():
    run = tf.function(lambda xs: call_vectorized_map(pooled, xs), input_signature=[ANY_LENGTH])
    assert [run(X[:n]).shape for n in (0, 1, 2, 6)] == [(0, 3), (1, 3), (2, 3), (6, 3)]
    np.testing.assert_allclose(run(X[:1]), [pooled(X[0])], rtol=1e-5)


def test_tensors_of_other_lengths_are_an_error_still():
    both = [tf.TensorSpec((None, 3)), tf.TensorSpec((None, 3))]

    @tf.function(input_signature=both)
    def run(x, y):
        return call_vectorized_map(
            lambda given: given[0] + given[1], (x, y), fn_output_signature=tf.float32
        )

    assert run(X[0], X[1]).shape == (4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(X[0], X[1, :1])
    assert "different lengths" in refused(lambda g: g[0], (X, X[:5]), dtype=tf.float32)


def test_under_xla():
    weight = tf.Variable(WEIGHT)  # its own: XLA once found the module's without a value

    def pooled(x):
        return tf.linalg.matvec(tf.nn.softmax(x), weight)

    run = tf.function(lambda xs: call_vectorized_map(pooled, xs), jit_compile=True)
    np.testing.assert_allclose(run(X), tf.map_fn(pooled, X), rtol=1e-5)
    run = tf.function(
        lambda x: call_vectorized_map(pooled, x), input_signature=[ANY_LENGTH], jit_compile=True
    )
    np.testing.assert_allclose(run(X), tf.map_fn(pooled, X), rtol=1e-5)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (drawn, "uses random numbers, writes or checks something (RandomUniform)"),
        (lambda x: tf.nn.dropout(x, 0.5), "uses random numbers"),
        (seeded, "StatelessRandomGetKeyCounter"),
        (counted, "AssignAddVariableOp"),
        (checked, "checks something"),
        (printed, "Print"),
        (branching, "loops or branches"),
        (lambda x: tf.cond(x[0, 0] > 0, lambda: pooled(x), lambda: x[0]), "branches"),
        (summed_up, "loops or branches"),
        (straight_through, "custom gradient"),
        (tf.nn.silu, "custom gradient"),
        (by_itself, "another tf.function"),
        (lambda x: tf.boolean_mask(x, x[:, 0] > 0), "Where"),
        (lambda x: tf.numpy_function(np.sin, [x], tf.float32), "PyFunc"),
        (lambda x: tf.range(x[0, 0]), "Range"),
        (lambda x: tf.cast(x, tf.float64), "returns float64, not float32"),
        (lambda x: (x, x), "cannot convert"),
        (lambda x: x.no_such_thing, "cannot convert"),
    ],
)
def test_what_it_would_do_otherwise_stays_a_loop(fn, words):
    assert words in refused(fn, fn_output_signature=tf.float32)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parallel_iterations": 1}, "parallel_iterations=1"),
        ({"swap_memory": True}, "swap_memory=True"),
        ({"back_prop": False}, "back_prop=False"),
        ({"infer_shape": False}, "infer_shape=False"),
        ({"fn_output_signature": tf.RaggedTensorSpec([None], tf.float32)}, "ragged"),
        ({"fn_output_signature": "no dtype"}, "unknown"),
        ({"fn_output_signature": ()}, "returns nothing"),
        ({"fn_output_signature": tf.TensorSpec((5,), tf.float32)}, "returns shape (3,), not (5,)"),
    ],
)
def test_options_that_ask_for_a_loop(options, words):
    assert words in refused(pooled, **options)


def test_ordinary_options_do_not():
    same(pooled, parallel_iterations=8, swap_memory=False, back_prop=True, infer_shape=True)


@pytest.mark.parametrize(
    ("elems", "words"),
    [
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), "ragged or sparse"),
        (tf.sparse.eye(3), "ragged or sparse"),
        (tf.constant(1.0), "cannot be flattened"),
        (X[:1], "fewer than two elements"),
        (X[:0], "fewer than two elements"),
        (object(), "not tensors"),
    ],
)
def test_what_cannot_be_taken_apart(elems, words):
    assert words in refused(tf.identity, elems, fn_output_signature=tf.float32)


def test_a_ragged_result_stays():
    def fn(x):
        return tf.RaggedTensor.from_row_lengths(x[:, 0], [1, 3])

    assert "ragged" in refused(fn, fn_output_signature=tf.float32)


def test_variables_and_arrays_are_taken_apart_as_tensors():
    for elems in (tf.Variable(X), keras.Variable(X), X.numpy()):
        run = tf.function(lambda elems=elems: call_vectorized_map(pooled, elems))
        np.testing.assert_allclose(run(), tf.map_fn(pooled, X), rtol=1e-5)


def test_what_cannot_be_converted_is_no_noise(capfd):
    logger = tf.get_logger()
    filters, level = list(logger.filters), logger.level
    refused(lambda x: tf.reshape(x, [tf.cast(x[0, 0] * 0 + 12, tf.int32)]))
    assert (logger.filters, logger.level) == (filters, level)
    assert "pfor" not in capfd.readouterr().err
    assert logging.getLogger("tensorflow") is logger


def test_where_it_stays_nothing_is_left_in_the_graph():
    @tf.function
    def run():
        with pytest.raises(NotVectorizedError):
            call_vectorized_map(drawn, X)

    ops = run.get_concrete_function().graph.get_operations()
    assert [op.type for op in ops if op.type not in ("Const", "NoOp")] == []
