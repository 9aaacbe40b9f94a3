from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from layer_watching import watched_layers
from uncork.compat.tf.eager_context import clear_kernel_cache
from uncork.measure.profile.kernels import profile_kernels
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.kernel_owners import group_kernels

BATCH = 16


class OneByOne(keras.layers.Layer):
    def call(self, x):
        return tf.map_fn(lambda example: example / tf.norm(example), x)


class Letters(keras.layers.Layer):
    def call(self, texts):
        letters = tf.strings.unicode_decode(texts, "UTF-8")
        return tf.cast(letters.to_tensor(shape=(None, 400)), "float32")


def parts_of(model, layers, batch, steps=6, optimizer=None):
    """Of a training step in a loop of one's own."""
    optimizer = optimizer or keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    train_step(batch)
    clear_kernel_cache()
    return group_kernels(
        profile_kernels(lambda: [train_step(batch) for _ in range(steps)]), layers, batch_size=BATCH
    )


def line_of(text):
    with open(__file__) as file:  # noqa: PTH123
        lines = [n for n, line in enumerate(file, 1) if text in line and "line_of" not in line]
    return f"test_kernel_owners.py:{lines[0]}"


def test_kernels_are_told_by_layer_line_and_phase():
    with watched_layers() as layers:
        model = keras.Sequential(
            [
                keras.Input((600,)),
                keras.layers.Dense(500),  # the wide one
                keras.layers.Dense(1),
            ]
        )
        parts = parts_of(model, layers, tf.ones((BATCH, 600)))
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    wide = {part.phase: part for part in parts if part.at and line_of("# the wide one") in part.at}
    assert wide["forward"].layer == wide["backward"].layer == "Dense"
    assert "MatMul" in wide["forward"].main_kernel
    updates = [part for part in parts if part.phase == "optimizer"]
    assert sum(part.calls_per_step for part in updates) > 40
    # Of four weights one is large: the update of the others is brief.
    assert (
        20
        < sum(part.short_calls_per_step for part in updates)
        < sum(part.calls_per_step for part in updates)
    )
    assert (
        0
        < sum(part.short_kernel_share for part in updates)
        < 0.9 * sum(part.share for part in updates)
    )
    assert any(line_of("optimizer.apply_gradients(") in (part.at or "") for part in updates)


def test_a_loop_over_examples_is_told_with_its_rounds_at_its_own_line():
    with watched_layers() as layers:
        model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(32), OneByOne()])
        parts = parts_of(model, layers, tf.ones((BATCH, 32)))
    loops = [part for part in parts if part.loop_iterations]
    assert {part.layer for part in loops} == {"OneByOne"}
    # Steps overlap, so that one of them may seem to have a part of its neighbour's.
    assert all(abs(part.loop_iterations - BATCH) < BATCH for part in loops)
    forward = next(part for part in loops if part.phase == "forward")
    assert line_of("tf.map_fn(lambda example") in forward.at
    assert {part.is_map_fn_loop for part in parts if part.loop_iterations} == {True}
    assert {part.is_map_fn_loop for part in parts if not part.loop_iterations} == {False}


def test_what_depends_on_the_batch_alone_is_told():
    with watched_layers() as layers:
        model = keras.Sequential(
            [keras.Input((), dtype="string"), Letters(), keras.layers.Dense(1)]
        )
        parts = parts_of(model, layers, tf.constant(["some words of one text " * 40] * BATCH))
    of_batch = [part for part in parts if part.batch_only_share > 0.01]
    assert "Letters" in {part.layer for part in of_batch}
    assert all(part.phase == "forward" for part in of_batch)
    assert {part.batch_only_at for part in of_batch if part.layer == "Letters"} == {None}
    dense = [part for part in parts if part.layer == "Dense"]
    assert sum(part.batch_only_share for part in dense) < 0.05


@pytest.mark.deep
def test_what_xla_compiles_of_one_layer_is_that_layer_s_forward_and_backward():
    with watched_layers() as layers:
        model = keras.Sequential(
            [
                keras.Input((32, 32, 16)),
                keras.layers.Conv2D(64, 7),
                keras.layers.Conv2D(16, 3, groups=4),  # in groups
            ]
        )
        parts = parts_of(model, layers, tf.ones((BATCH, 32, 32, 16)))
    apart = [part for part in parts if part.is_compiled_separately]
    assert {(part.layer, part.batch_only_share) for part in apart} == {("Conv2D", 0.0)}
    assert all(line_of("# in groups") in part.at for part in apart)
    assert "backward" in {part.phase for part in apart}
    assert any(part.layer == "Conv2D" for part in parts if not part.is_compiled_separately)


@pytest.mark.deep
def test_of_several_such_layers_none_is_named_for_the_others():
    with watched_layers() as layers:
        model = keras.Sequential(
            [
                keras.Input((32, 32, 16)),
                keras.layers.Conv2D(16, 3, groups=4),
                keras.layers.Conv2D(16, 3, groups=8),
            ]
        )
        parts = parts_of(model, layers, tf.ones((BATCH, 32, 32, 16)))
    apart = [part for part in parts if part.is_compiled_separately]
    assert {part.layer for part in apart} == {"Conv2D"}
    # A call is a layer's own; what runs inside has the names that it has in the other, too.
    assert all(
        part.at is None for part in apart if not part.main_kernel.endswith("PartitionedCall")
    )


def numbers_of(letters, texts):
    return letters(tf.strings.lower(texts))


def test_what_a_step_does_to_its_batch_is_told_at_the_step_s_own_line():
    with watched_layers() as layers:
        letters = Letters()
        weight = tf.Variable(tf.ones((400, 1)))

        @tf.function
        def train_step(texts):
            numbers = numbers_of(letters, texts)  # in the step
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(numbers @ weight)
            weight.assign_sub(0.01 * tape.gradient(loss, weight))

        texts = tf.constant(["some words of one text " * 40] * BATCH)
        train_step(texts)
        clear_kernel_cache()
        kernels = profile_kernels(lambda: [train_step(texts) for _ in range(6)])
        parts = group_kernels(kernels, layers, batch_size=BATCH)
    of_batch = {part.layer: part.batch_only_at for part in parts if part.batch_only_share}
    assert line_of("# in the step") in of_batch["Letters"]


@pytest.mark.every(2)
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_passes_over_a_whole_table_are_told_with_the_rows_that_are_needed(optimizer):
    with watched_layers() as layers:
        model = keras.Sequential(
            [keras.Input((5,), dtype="int32"), keras.layers.Embedding(20_000, 16)]
        )
        how = keras.optimizers.get(optimizer)
        parts = parts_of(model, layers, tf.ones((BATCH, 5), tf.int32), optimizer=how)
    table = [part for part in parts if part.table_rows]
    assert {(part.table_rows, part.max_used_rows) for part in table} == {(20_000, 5 * BATCH)}
    assert {part.layer for part in table} == {"Embedding"}
    assert sum(part.share for part in table if part.phase == "optimizer") > 0.1


def test_two_tables_of_one_shape_cannot_be_told_apart():
    with watched_layers() as layers:
        words, pairs = (keras.Input((5,), dtype="int32") for _ in range(2))
        both = [keras.layers.Embedding(5_000, 8)(x) for x in (words, pairs)]
        model = keras.Model([words, pairs], keras.layers.Add()(both))
        ids = tf.ones((BATCH, 5), tf.int32)
        parts = parts_of(model, layers, [ids, ids])
    assert not any(part.table_rows for part in parts)


def test_without_any_layer_seen_the_phases_are_told_all_the_same():
    model = keras.Sequential([keras.Input((600,)), keras.layers.Dense(500)])
    parts = parts_of(model, LayerRegistry(), tf.constant(np.ones((BATCH, 600), "float32")))
    assert {"forward", "backward", "optimizer"} <= {part.phase for part in parts}
    assert {part.layer for part in parts} == {""}


def test_kernels_of_no_graph_that_is_known_tell_nothing():
    @tf.function(jit_compile=True)
    def step():
        return tf.reduce_sum(tf.ones((64, 64)) @ tf.ones((64, 64)))

    step()
    assert group_kernels((), LayerRegistry()) == ()
    found = group_kernels(profile_kernels(lambda: [step(), step()]), LayerRegistry())
    assert not any(part.layer or part.table_rows or part.loop_iterations for part in found)
