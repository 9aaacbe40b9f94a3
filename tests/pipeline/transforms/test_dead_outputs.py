"""What a map ignores need not be made below it, and all else stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import changing_table, epochs, kinds, measured
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DropUnused
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.function_graph import graph_of
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.dead_outputs import find_unused_outputs

NUMBERS = tf.data.Dataset.range(12)


def parts(x):
    return {"x": x * 3, "root": tf.sqrt(tf.cast(x, tf.float32)), "text": tf.strings.as_string(x)}


def more(of):
    return of["x"] + 1, tf.sin(of["root"]), of["text"]


def first(x, root, text):
    return x


def by_text(x, root, text):
    return tf.strings.length(text) < 2


def noisy(of):
    return of["x"] + tf.random.uniform([], 0, 9, tf.int64), tf.sin(of["root"]), of["text"]


HANDED_ON = {
    "directly": lambda d: d,
    "shuffled, batched and repeated": lambda d: d.shuffle(5, seed=3).batch(3).repeat(2),
    "filtered": lambda d: d.filter(by_text),
    "cached": lambda d: d.cache().shuffle(4, seed=1),
    "some of them": lambda d: d.skip(1).shard(2, 0).take(3).prefetch(2),
    "in batches of one size": lambda d: d.batch(5, drop_remainder=True),
}


def ops(node):
    return {each.op for each in graph_of(node.functions[0]).nodes.values()}


def edited(data):
    before = read_pipeline(data)
    top = max(i for i, node in enumerate(before.stages) if node.kind == "map")
    return before, apply_edit(before, DropUnused(stage=top, expected_digest=before.digest))


@pytest.mark.parametrize("how", HANDED_ON)
def test_the_same_elements_in_the_same_order(how):
    data = HANDED_ON[how](NUMBERS.map(parts).map(more)).map(first)
    before, after = edited(data)
    assert epochs(after.dataset) == epochs(before.dataset)
    assert after.element_spec == before.element_spec
    assert after.cardinality == before.cardinality
    assert kinds(after) == kinds(before)


def test_work_for_the_rest_is_gone_from_all_maps_below():
    _, after = edited(NUMBERS.map(parts).map(more).batch(2).map(first))
    lower, upper = after.stages[1], after.stages[2]
    assert not {"Sqrt", "AsString"} & ops(lower)
    assert "Sin" not in ops(upper)
    assert len(tf.nest.flatten(lower.dataset.element_spec)) == 1


def test_what_a_filter_in_between_goes_by_is_made():
    _, after = edited(NUMBERS.map(parts).map(more).filter(by_text).map(first))
    lower = after.stages[1]
    assert "AsString" in ops(lower)
    assert "Sqrt" not in ops(lower)


def test_draws_for_what_is_taken_stay_as_they_were():
    data = NUMBERS.map(parts).map(noisy).shuffle(9).map(first)
    twin = create_seeded_copy(read_pipeline(data), 7)
    changed = apply_edit(twin, DropUnused(stage=4, expected_digest=twin.digest))
    assert epochs(changed.dataset) == epochs(twin.dataset)
    assert "RandomUniformInt" in ops(changed.stages[2])


def test_what_was_made_in_parallel_still_is():
    data = NUMBERS.map(parts, num_parallel_calls=4, deterministic=True).map(more).map(first)
    before, after = edited(data)
    assert [n.parallelism for n in after.stages] == [n.parallelism for n in before.stages]
    assert epochs(after.dataset) == epochs(before.dataset)


def test_an_assertion_about_what_is_ignored_still_speaks():
    def checked(x):
        tf.debugging.assert_less(tf.sqrt(tf.cast(x, tf.float32)), 2.0)
        return x, tf.exp(tf.cast(x, tf.float32))

    before, after = edited(NUMBERS.map(checked).map(lambda x, power: x))
    assert "Exp" not in ops(after.stages[1])
    assert epochs(after.dataset) == epochs(before.dataset)
    assert epochs(after.dataset)[0].error is not None


def drawn(x):
    return x, tf.random.uniform([])


def in_python(x):
    return x, tf.numpy_function(np.negative, [x], tf.int64)


def looked_up(x):
    return x, TABLE.lookup(tf.cast(x, tf.int32))


def counted(x):
    return x, COUNTER.assign_add(1)


def ragged(x):
    return x, tf.RaggedTensor.from_row_lengths(tf.range(x), [x])


TABLE, COUNTER = changing_table(), tf.Variable(0)


@pytest.mark.parametrize("made", [drawn, in_python, counted, looked_up, ragged])
def test_what_may_show_elsewhere_is_still_made(made):
    data = NUMBERS.map(made).map(lambda x, other: x)
    with pytest.raises(EditRefused, match="ignores"):
        edited(data)


BETWEEN = {
    "a cache of draws": lambda d: d.shuffle(9).cache(),
    "padding": lambda d: d.padded_batch(2),
    "a join": lambda d: tf.data.Dataset.zip(d, NUMBERS).map(lambda of, n: of),
    "an expansion": lambda d: d.flat_map(lambda *of: tf.data.Dataset.from_tensors(of)),
}


@pytest.mark.parametrize("how", BETWEEN)
def test_what_hands_on_otherwise_is_not_looked_through(how):
    data = BETWEEN[how](NUMBERS.map(parts).map(more)).map(first)
    pipeline = read_pipeline(data)
    makers = find_unused_outputs(pipeline, len(pipeline.stages) - 1)
    assert not any(pipeline.stages[i].name in ("parts", "more") for i in makers)


def test_a_cache_in_files_is_left_alone(tmp_path):
    data = NUMBERS.map(parts).map(more).cache(str(tmp_path / "kept")).map(first)
    assert find_unused_outputs(read_pipeline(data), 4) == {}


@pytest.mark.parametrize(
    "data",
    [
        NUMBERS.map(parts).map(lambda of: of),  # takes all
        NUMBERS.map(lambda x: (x, 1)).map(lambda x, one: x),  # nothing to spare
        NUMBERS.map(parts).map(lambda of: 1),  # takes nothing
        NUMBERS.map(parts).batch(2),  # no map
        NUMBERS,
    ],
)
def test_nothing_is_unused(data):
    pipeline = read_pipeline(data)
    assert find_unused_outputs(pipeline, len(pipeline.stages) - 1) == {}


def test_a_part_that_cannot_be_made_no_longer_fails():
    def load(x):
        return x, tf.io.decode_jpeg(tf.strings.as_string(x))

    before, after = edited(NUMBERS.map(load).map(lambda x, image: x))
    assert epochs(before.dataset)[0].error is not None
    assert epochs(after.dataset)[0].error is None


def test_a_function_of_the_users_is_cut_as_well():
    before, after = edited(NUMBERS.map(tf.function(parts)).map(tf.function(more)).map(first))
    assert not {"Sqrt", "AsString"} & ops(after.stages[1])
    assert epochs(after.dataset) == epochs(before.dataset)


def test_what_is_spared_is_timed():
    def dear(x):
        wide = tf.ones([300, 300]) * tf.cast(x, tf.float32)
        return x, tf.reduce_sum(wide @ wide)

    data = NUMBERS.map(dear).shuffle(3).map(lambda x, total: x).batch(2)
    stages = measured(data, batch_size=2)
    assert stages[3].unused_output_maps == (1,)
    assert stages[1].needed_cpu_s_per_element < 0.5 * stages[1].cpu_s_per_element
    assert all(stage.needed_cpu_s_per_element is None for stage in stages if stage.index != 1)
