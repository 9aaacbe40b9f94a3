from __future__ import annotations

import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from pipeline.helpers import behind_unknown
from uncork.core.base.errors import EditRefused, WrongUse
from uncork.pipeline.ir.tree import read_pipeline


def kinds(dataset: tf.data.Dataset) -> list[str]:
    return [node.kind for node in read_pipeline(dataset).stages]


def test_the_chain_runs_from_the_source_to_the_root():
    data = tf.data.Dataset.from_tensor_slices([1, 2, 3]).shuffle(3).map(lambda x: x + 1)
    data = data.repeat().batch(2).take(5).prefetch(1)
    assert kinds(data) == [
        "from_tensor_slices", "shuffle", "map", "repeat", "batch", "take", "prefetch",
    ]  # fmt: skip


def test_options_are_a_stage_of_their_own():
    data = tf.data.Dataset.range(3).with_options(tf.data.Options()).batch(2)
    assert kinds(data) == ["range", "options", "batch"]


def test_files_are_a_chain(jpegs):
    data = tf.data.Dataset.list_files(jpegs)
    assert kinds(data) == ["from_tensor_slices", "shuffle"]


def test_records_show_where_their_names_come_from(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"one")
    assert kinds(tf.data.TFRecordDataset([path])) == ["from_tensor_slices", "tfrecord"]


def test_a_generator_is_a_source():
    data = tf.data.Dataset.from_generator(
        lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int32)
    )
    assert kinds(data.batch(2)) == ["from_generator", "batch"]


def test_several_inputs_end_the_chain_but_stay_in_the_tree():
    data = tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(3).shuffle(2)))
    stages = read_pipeline(data.batch(2)).stages
    assert [node.kind for node in stages] == ["zip", "batch"]
    assert [node.kind for node in stages[0].inputs] == ["range", "shuffle"]


def test_an_unknown_class_is_opaque_and_ends_the_chain():
    data = behind_unknown(tf.data.Dataset.range(10))
    assert kinds(data.prefetch(1)) == ["opaque", "prefetch"]


def test_pipelines_made_by_keras_are_read(tmp_path, jpegs):
    data = keras.utils.image_dataset_from_directory(
        tmp_path, labels=list(range(12)), image_size=(16, 16), batch_size=4, verbose=False
    )
    found = kinds(data)
    assert {"map", "shuffle", "batch"} <= set(found)
    assert "opaque" not in found


def test_parallelism_is_told_apart():
    data = tf.data.Dataset.range(3).map(lambda x: x).map(lambda x: x, num_parallel_calls=4)
    data = data.map(lambda x: x, num_parallel_calls=tf.data.AUTOTUNE)
    assert [node.parallelism for node in read_pipeline(data).stages] == [None, 1, 4, -1]


def test_nodes_know_their_function_and_line():
    def double(x):
        return x * 2

    node = read_pipeline(tf.data.Dataset.range(3).map(double)).root
    assert node.name == "double"
    assert node.at is not None
    assert "test_tree.py:" in node.at


def test_what_is_no_dataset_is_refused():
    with pytest.raises(WrongUse, match="list"):
        read_pipeline([1, 2])


def augment(x):
    x = tf.image.random_flip_left_right(tf.reshape(tf.cast(x, tf.float32), [1, 1, 1]))
    return tf.map_fn(lambda r: r + tf.random.uniform([]), x)


def test_the_digest_ignores_seeds_and_data():
    one = tf.data.Dataset.from_tensor_slices([1, 2]).shuffle(5, seed=1).map(augment)
    two = tf.data.Dataset.from_tensor_slices([3, 4, 5]).shuffle(5).map(augment)
    assert read_pipeline(one).digest == read_pipeline(two).digest


@pytest.mark.parametrize(
    "changed",
    [
        lambda d: d.shuffle(6).map(augment).batch(2),
        lambda d: d.shuffle(5).map(augment).batch(3),
        lambda d: d.shuffle(5).map(augment).batch(2, drop_remainder=True),
        lambda d: d.shuffle(5).map(augment, num_parallel_calls=2).batch(2),
        lambda d: d.shuffle(5).map(lambda x: augment(x) + 1).batch(2),
        lambda d: d.shuffle(5).batch(2),
        lambda d: d.map(augment).shuffle(5).batch(2),
    ],
)
def test_the_digest_tells_pipelines_apart(changed):
    data = tf.data.Dataset.range(8)
    assert (
        read_pipeline(changed(data)).digest
        != read_pipeline(data.shuffle(5).map(augment).batch(2)).digest
    )


def test_a_constant_in_a_called_function_counts():
    def at_least(limit):
        return lambda x: tf.cond(x > 2, lambda: x + limit, lambda: x)

    data = tf.data.Dataset.range(8)
    assert (
        read_pipeline(data.map(at_least(1))).digest != read_pipeline(data.map(at_least(2))).digest
    )


SCRIPT = """
import tensorflow as tf
from uncork.pipeline.ir.tree import read_pipeline

for _ in range({noise}):
    tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))

table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0)
weights = tf.Variable([1.0])

def augment(x, y):
    x = tf.image.random_flip_left_right(tf.cast(x, tf.float32))
    x = tf.map_fn(lambda row: row + tf.random.normal([3]), x)
    y = table.lookup(y) + tf.numpy_function(lambda v: v, [y], tf.int32)
    return {{"image": x * weights, "label": y}}

data = tf.data.Dataset.from_tensor_slices((tf.zeros([4, 2, 3, 3]), [1, 2, 3, 4]))
data = data.shuffle(4).map(augment).interleave(
    lambda e: tf.data.Dataset.from_tensors(e).shuffle(2), cycle_length=2
).batch(2)
print(read_pipeline(data).digest)
"""


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.slow
def test_the_digest_is_the_same_in_a_fresh_process(capsys):
    """Here much else was made before it."""
    there = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(noise=0)],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout.split()[-1]  # fmt: skip
    exec(compile(SCRIPT.format(noise=3), "<string>", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.split()[-1] == there


def test_more_datasets_than_can_be_followed_are_refused():
    numbers = tf.data.Dataset.range(2)
    for _ in range(200):
        numbers = numbers.concatenate(tf.data.Dataset.range(2))
    pipeline = read_pipeline(numbers)
    assert len(pipeline.stage_locations) == 401
    assert pipeline.digest
    for _ in range(100):
        numbers = numbers.concatenate(tf.data.Dataset.range(2))
    with pytest.raises(EditRefused, match="are chained"):
        read_pipeline(numbers)
