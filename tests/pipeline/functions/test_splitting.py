from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.conftest import load_and_flip
from pipeline.helpers import (
    changing_table,
    epochs,
    function_of,
    in_a_branch,
    in_a_function,
    table,
    twice,
)
from uncork.core.edits.pipeline import SplitMap
from uncork.pipeline.functions.effects import is_deterministic
from uncork.pipeline.functions.function_graph import graph_of
from uncork.pipeline.functions.splitting import split_deterministic_prefix, split_narrow_prefix
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit


def run(cut, *flat):
    return [np.asarray(t) for t in cut.rest(*cut.prefix(*flat))]


def test_the_photo_function_is_cut_before_the_flip(photos):
    function = read_pipeline(photos).stages[2].functions[0]
    cut = split_deterministic_prefix(function)
    assert [spec.shape.as_list() for spec in cut.specs] == [[16, 16, 3], []]
    prefix, rest = set(op_types(cut.prefix)), set(op_types(cut.rest))
    assert {"ReadFile", "DecodeJpeg", "ResizeBilinear"} <= prefix
    assert "RandomUniform" not in prefix
    assert "RandomUniform" in rest
    assert not rest & {"ReadFile", "DecodeJpeg", "ResizeBilinear"}


def op_types(function):
    return [op.type for op in function.graph.get_operations()]


def test_widening_is_left_to_the_rest():
    def widen(x):
        pixels = tf.tile(tf.reshape(tf.cast(x, tf.uint8), [1, 1, 1]), [4, 4, 3])
        return tf.image.random_flip_left_right(tf.cast(pixels, tf.float32) / 255.0)

    cut = split_deterministic_prefix(function_of(widen))
    assert [(spec.dtype, spec.shape.as_list()) for spec in cut.specs] == [(tf.uint8, [4, 4, 3])]


def test_narrowing_is_kept_in_the_prefix():
    def narrow(x):
        pixels = tf.cast(tf.tile([tf.cast(x, tf.float64)], [12]), tf.float16)
        return tf.random.shuffle(pixels)

    assert split_deterministic_prefix(function_of(narrow)).specs[0].dtype == tf.float16


def test_both_halves_get_the_captured_tensors():
    lookup = changing_table()
    weights = tf.constant(np.arange(6.0))

    def function(x):
        y = tf.strings.length(tf.strings.as_string(x)) + tf.cast(weights[1], tf.int32)
        return lookup.lookup(y - 1) * y + tf.cast(weights[2], tf.int32)

    whole = function_of(function)
    cut = split_deterministic_prefix(whole)
    assert "LookupTableFindV2" not in op_types(cut.prefix)
    assert run(cut, tf.constant(7, tf.int64)) == [np.asarray(whole(tf.constant(7, tf.int64))[0])]


def test_an_assertion_before_the_draw_runs_in_the_prefix():
    def checked(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, tf.constant(2, tf.int64))]):
            y = tf.strings.length(tf.strings.as_string(x))
        return y + tf.random.uniform([], 0, 5, tf.int32)

    cut = split_deterministic_prefix(function_of(checked))
    cut.prefix(tf.constant(1, tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError):
        cut.prefix(tf.constant(3, tf.int64))


def test_an_assertion_on_the_draw_runs_in_the_rest():
    def checked(x):
        y = tf.strings.length(tf.strings.as_string(x))
        drawn = tf.random.uniform([], 0, 5, tf.int32)
        tf.debugging.assert_less(drawn, 0)
        return y

    cut = split_deterministic_prefix(function_of(checked))
    (middle,) = cut.prefix(tf.constant(1, tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError):
        cut.rest(middle)


def test_side_effects_stay_in_the_rest():
    counter = tf.Variable(0)

    def counting(x):
        y = tf.strings.length(tf.strings.as_string(x))
        counter.assign_add(1)
        return y

    cut = split_deterministic_prefix(function_of(counting))
    middle = cut.prefix(tf.constant(1, tf.int64))
    assert int(counter) == 0
    cut.rest(*middle)
    assert int(counter) == 1


def test_lists_and_ragged_tensors_do_not_cross_the_cut():
    data = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]]))

    def function(x):
        words = tf.ragged.map_flat_values(tf.strings.as_string, x)
        return tf.random.shuffle(words.to_tensor(default_value=""))[0]

    def stacked(x):
        rows = tf.TensorArray(tf.int64, 2).unstack(tf.stack([x, x]))
        return rows.read(tf.random.uniform([], 0, 2, tf.int32)) + rows.read(0)

    batched = data.batch(2)
    for whole in (function_of(function, batched), function_of(stacked)):
        cut = split_deterministic_prefix(whole)
        if cut is not None:
            arguments = {f"{name}:0" for name in whole.structured_input_signature[1]}
            inner = zip(cut.frontier, cut.specs, strict=True)
            assert all(s.dtype != tf.variant or "args" in f for f, s in inner), arguments


def test_nothing_before_the_draw_is_no_split():
    assert (
        split_deterministic_prefix(function_of(lambda x: x + tf.random.uniform([], 0, 5, tf.int64)))
        is None
    )


@tf.function
def decorated(x):
    tf.debugging.assert_less(x, tf.constant(99, tf.int64))
    return inner(tf.strings.as_string(x)), x


@tf.function
def inner(text):
    length = tf.strings.length(text)
    drawn = tf.random.uniform([2], 0, 99, tf.int32, seed=3)
    return {"sum": tf.cond(length > 1, lambda: length + drawn, lambda: drawn), "text": text}


def test_a_decorated_function_is_looked_into():
    data = tf.data.Dataset.range(30)
    cut = split_deterministic_prefix(function_of(decorated, data))
    assert "AsString" in op_types(cut.prefix)
    assert not {"AsString", "StatefulPartitionedCall"} & set(op_types(cut.rest))
    pipeline = read_pipeline(data.map(decorated))
    after = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    assert epochs(after.dataset) == epochs(data.map(decorated))


def test_assertions_in_a_decorated_function_still_fail():
    pipeline = read_pipeline(tf.data.Dataset.range(98, 102).map(decorated))
    after = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    assert epochs(after.dataset)[0].error.index == 1


def test_a_decorated_function_with_a_table_and_a_variable():
    lookup = table()
    counter = tf.Variable(0)

    @tf.function
    def count(x):
        length = tf.strings.length(tf.strings.as_string(x))
        before = counter.assign_add(1)
        return lookup.lookup(length), before, length

    data = tf.data.Dataset.range(5).map(count)
    pipeline = read_pipeline(data)
    after = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    assert epochs(after.dataset) == epochs(data)


def test_a_compiled_function_stays_whole():
    compiled = tf.function(lambda x: tf.nn.relu(tf.cast(x, tf.float32)), jit_compile=True)
    function = function_of(lambda x: compiled(x) + tf.random.uniform([]))
    assert any("_XlaMustCompile" in n.attr for n in graph_of(function).nodes.values())


def test_photo_function_has_a_line_to_show(photos):
    assert read_pipeline(photos).stages[2].name == load_and_flip.__name__


@pytest.mark.parametrize("use", [twice, in_a_branch, in_a_function])
def test_a_table_that_may_change_beside_one_that_does_not(use):
    lookup, filled_anew = table(), changing_table()

    def both(x):
        known = use(lookup, tf.cast(x, tf.int32))
        return use(filled_anew, known), known

    function = function_of(both)
    assert not is_deterministic(function)
    cut = split_deterministic_prefix(function)
    held = [id(captured) for captured in cut.prefix.captured_inputs]
    assert id(lookup.resource_handle) in held
    assert id(filled_anew.resource_handle) not in held
    one = tf.constant(1, tf.int64)
    assert run(cut, one) == [np.asarray(tensor) for tensor in function(one)]


def test_a_table_beside_a_variable_is_cut_off():
    lookup, counter = table(), tf.Variable(0)

    def function(x):
        return lookup.lookup(tf.cast(x, tf.int32)), counter.assign_add(1)

    cut = split_deterministic_prefix(function_of(function))
    assert "LookupTableFindV2" in op_types(cut.prefix)
    assert "LookupTableFindV2" not in op_types(cut.rest)


def scaled(x):
    pixels = tf.tile(tf.reshape(tf.cast(x, tf.uint8), [1, 1, 1]), [4, 4, 3])
    return tf.cast(pixels, tf.float32) / 255.0, tf.one_hot(x % 7, 7)


def test_widening_at_the_end_is_cut_off():
    """The label's class takes its eight bytes, not the twenty-eight of its code."""
    whole = function_of(scaled)
    assert split_deterministic_prefix(whole) is None
    cut = split_narrow_prefix(whole)
    assert [(spec.dtype, spec.shape.as_list()) for spec in cut.specs] == [
        (tf.uint8, [4, 4, 3]),
        (tf.int64, []),
    ]
    for given in (tf.constant(3, tf.int64), tf.constant(250, tf.int64)):
        expected = [np.asarray(tensor).tobytes() for tensor in whole(given)]
        assert [part.tobytes() for part in run(cut, given)] == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.cast(x, tf.float64) / 255.0,  # a cache below it is as small
        lambda x: tf.cast(tf.reduce_max([x, x]), tf.uint8),
        tf.strings.as_string,
        lambda x: tf.cast(x, tf.float32) + tf.random.uniform([]),
        lambda x: tf.cast(tf.numpy_function(abs, [x], tf.uint8), tf.float32),
    ],
    ids=["all cheap", "narrows", "neither", "draws", "python"],
)
def test_without_widening_nothing_is(function):
    assert split_narrow_prefix(function_of(function)) is None


def test_lists_are_not_kept_before_they_are_widened():
    data = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])).batch(2)
    assert (
        split_narrow_prefix(function_of(lambda rows: tf.cast(rows * rows, tf.float64), data))
        is None
    )


def test_an_assertion_on_what_is_widened_still_fails():
    def checked(x):
        pixels = tf.tile([tf.cast(x, tf.uint8)], [12])
        wide = tf.cast(pixels, tf.float32)
        with tf.control_dependencies([tf.debugging.assert_less(wide, 3.0)]):
            return wide * 2.0

    data = tf.data.Dataset.range(5).map(checked)
    pipeline = read_pipeline(data)
    after = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    assert [node.kind for node in after.stages] == ["range", "map", "map"]
    found, expected = epochs(after.dataset)[0], epochs(data)[0]
    assert found.digests == expected.digests
    assert found.error.index == expected.error.index == 3
