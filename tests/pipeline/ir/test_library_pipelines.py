"""Pipelines that Keras and TensorFlow put together: read, rebuilt, and every edit of them exact."""

from __future__ import annotations

import wave
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs
from pipeline.properties import STAGE_EDITS, all_together, legal_edits, serially_drawn, whole_edits
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.element_order import with_deterministic_order
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.trial_copy import copy_pipeline
from uncork.pipeline.transforms.apply import apply_edit

DRAWN = np.random.default_rng(5)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    for label in ("calm", "loud"):
        (tmp_path / label).mkdir()
        for number in range(5):
            words = " ".join([label] * (number + 1))
            (tmp_path / label / f"{number}.txt").write_text(f"{words} être ☕")
    return tmp_path


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    for label in ("high", "low"):
        (tmp_path / label).mkdir()
        for number in range(4):
            samples = DRAWN.integers(-9_000, 9_000, 300 + 50 * number).astype("<i2")
            with wave.open(str(tmp_path / label / f"{number}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8_000)
                file.writeframes(samples.tobytes())
    return tmp_path


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for number in range(3):
        rows = [f"{number}.{row},{'ab'[row % 2]},{row}" for row in range(4 + number)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["size,kind,count", *rows]) + "\n")
    return tmp_path


def exact(data, *, most=2):
    """Every legal edit, and all of them together, gives the same in so many passes."""
    original = read_pipeline(data)
    twin = create_seeded_copy(original, 9)
    expected = epochs(with_deterministic_order(create_seeded_copy(original, 9)), passes=most)
    assert expected[0].error is None
    assert expected[0].digests
    assert epochs(with_deterministic_order(copy_pipeline(twin)), passes=most) == expected
    tried = 0
    for edit, changed in legal_edits(twin, STAGE_EDITS, highest=False):
        assert (
            epochs(
                with_deterministic_order(serially_drawn(copy_pipeline(changed), edit)), passes=most
            )
            == expected
        ), edit
        tried += 1
    for edit in whole_edits(twin):
        assert (
            epochs(with_deterministic_order(copy_pipeline(apply_edit(twin, edit))), passes=most)
            == expected
        ), edit
    together, edits = all_together(copy_pipeline(twin), STAGE_EDITS, highest=False)
    assert (
        epochs(with_deterministic_order(serially_drawn(together, *edits)), passes=most) == expected
    ), edits
    return original, tried


def kinds(pipeline):
    return {place.node.kind for place in pipeline.stage_locations}


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", ["int", "categorical", "binary"])
def test_texts_of_a_directory(texts, mode):
    data = keras.utils.text_dataset_from_directory(
        texts, label_mode=mode, batch_size=3, seed=4, verbose=False
    )
    pipeline, tried = exact(data)
    assert tried > 0
    assert "opaque" not in kinds(pipeline)


def test_texts_and_what_adapted_layers_make_of_them(texts):
    data = keras.utils.text_dataset_from_directory(texts, batch_size=3, seed=4, verbose=False)
    words = keras.layers.TextVectorization(output_sequence_length=6)
    words.adapt(data.map(lambda text, label: text))
    exact(data.map(lambda text, label: (words(text), label)).prefetch(1))


@pytest.mark.every(2)
@pytest.mark.parametrize("length", [320, None])
def test_sounds_of_a_directory(sounds, length):
    data = keras.utils.audio_dataset_from_directory(
        sounds, batch_size=2, output_sequence_length=length, seed=4, verbose=False
    )
    pipeline, tried = exact(data)
    assert tried > 0
    assert "opaque" not in kinds(pipeline)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("crop", [False, True])
def test_images_of_a_directory(jpegs, tmp_path, crop):
    data = keras.utils.image_dataset_from_directory(
        tmp_path, labels=list(range(12)), image_size=(16, 16), batch_size=4, seed=4,
        crop_to_aspect_ratio=crop, verbose=False,
    )  # fmt: skip
    _, tried = exact(data)
    assert tried > 0


@pytest.mark.every(2)
@pytest.mark.parametrize("halves", ["training", "validation"])
def test_a_half_of_a_directory(jpegs, tmp_path, halves):
    data = keras.utils.image_dataset_from_directory(
        tmp_path, labels=list(range(12)), image_size=(16, 16), batch_size=4, seed=4,
        validation_split=0.5, subset=halves, verbose=False,
    )  # fmt: skip
    exact(data)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("shuffled", [False, True])
def test_windows_of_a_time_series(shuffled):
    data = keras.utils.timeseries_dataset_from_array(
        np.arange(90.0).reshape(30, 3), np.arange(30), sequence_length=4, sequence_stride=2,
        sampling_rate=2, batch_size=3, shuffle=shuffled, seed=4,
    )  # fmt: skip
    exact(data)


@pytest.mark.parametrize("readers", [1, 2])
def test_tables_by_the_experimental_function(tables, readers):
    data = tf.data.experimental.make_csv_dataset(
        str(tables / "*.csv"), batch_size=3, label_name="count", num_epochs=1, shuffle_seed=4,
        num_parallel_reads=readers,
    )  # fmt: skip
    exact(data)


def test_tables_line_by_line(tables):
    def parsed(line):
        size, kind, count = tf.io.decode_csv(line, [0.0, "", 0])
        return {"size": size, "kind": kind}, count

    files = tf.data.Dataset.list_files(str(tables / "*.csv"), seed=4)
    lines = files.interleave(lambda file: tf.data.TextLineDataset(file).skip(1), cycle_length=2)
    _, tried = exact(lines.map(parsed).shuffle(8, seed=1).batch(4))
    assert tried > 2


def test_columns_of_a_table(tables):
    files = sorted(map(str, tables.glob("*.csv")))
    columns = tf.data.experimental.CsvDataset(files, [0.0, tf.string, tf.int32], header=True)
    exact(columns.map(lambda size, kind, count: (size * 2.0, count)).batch(4))


def test_what_was_saved(tmp_path):
    made = tf.data.Dataset.range(20).map(lambda x: {"x": tf.cast(x, tf.float32), "y": x % 3})
    made.save(str(tmp_path / "saved"))
    loaded = tf.data.Dataset.load(str(tmp_path / "saved"))
    _, tried = exact(loaded.map(lambda row: (row["x"] / 2.0, row["y"])).shuffle(9, seed=2).batch(4))
    assert tried > 0


def test_records_with_features(tmp_path):
    file = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for number in range(11):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
            features = tf.train.Features(feature={"n": value})
            writer.write(tf.train.Example(features=features).SerializeToString())
    data = tf.data.experimental.make_batched_features_dataset(
        file, 4, {"n": tf.io.FixedLenFeature([], tf.int64)}, num_epochs=1, shuffle_seed=4
    )
    exact(data)


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "data",
    [
        tf.data.Dataset.from_tensor_slices(np.zeros((5, 0, 3), "float32")).batch(2),
        tf.data.Dataset.from_tensors(np.zeros((0, 3), "float32")).repeat(3),
        tf.data.Dataset.range(9)
        .map(lambda x: tf.fill([x % 3], x))
        .padded_batch(2)
        .map(lambda x: x * 2),
        tf.data.Dataset.range(9).batch(4).map(lambda x: x[x > 6]),
        tf.data.Dataset.range(9).map(lambda x: tf.fill([0], x)).batch(4).shuffle(3, seed=1),
        tf.data.Dataset.range(9).batch(4).map(lambda x: tf.boolean_mask(x, x > 99)).prefetch(1),
        tf.data.Dataset.range(6)
        .map(lambda x: tf.RaggedTensor.from_row_lengths(tf.fill([x], x), [x, 0]))
        .ragged_batch(2),
        tf.data.Dataset.range(8).window(3).flat_map(lambda w: w.skip(1).batch(2)),
    ],
)
def test_batches_without_rows(data):
    exact(data.map(lambda x: x))


def test_data_without_elements_stay_empty():
    data = tf.data.Dataset.range(9).map(lambda x: x + 1).filter(lambda x: x > 99).batch(4)
    original = read_pipeline(data)
    expected = epochs(original.dataset)
    assert (len(expected[0].digests), expected[0].is_complete) == (0, True)
    edits = list(legal_edits(original, STAGE_EDITS, highest=False))
    assert edits
    for edit, changed in edits:
        assert epochs(changed.dataset) == expected, edit
