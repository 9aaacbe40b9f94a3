"""Maps of which the end alone is moved above the batch: what reads and decodes stays below."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, kinds, measured
from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import VectorizeMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.batched_ops import split_batchable_tail, unbatched_ops
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.vectorize import vectorize_map


@pytest.fixture
def photos(tmp_path):
    """PNGs of several sizes, the last one not whole."""
    draw = np.random.default_rng(3)
    for number in range(11):
        pixels = draw.integers(0, 256, (9 + number % 3, 8 + number % 2, 3), dtype="uint8")
        tf.io.write_file(str(tmp_path / f"{number:02}.png"), tf.io.encode_png(pixels))
    return tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in tmp_path.iterdir()))


@pytest.fixture
def sounds(tmp_path):
    draw = np.random.default_rng(3)
    for number in range(7):
        wave = draw.normal(size=(256, 1)).astype("float32") / 9
        tf.io.write_file(str(tmp_path / f"{number}.wav"), tf.audio.encode_wav(wave, 8000))
    return tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in tmp_path.iterdir()))


def photo(name):
    pixels = tf.io.decode_png(tf.io.read_file(name), 3)
    resized = tf.image.resize(pixels, (6, 6))
    label = tf.strings.to_number(tf.strings.substr(name, -5, 1), tf.int32)
    return resized / 127.5 - 1.0, tf.one_hot(label, 10)


def spectrum(name):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(name), 1, 256)
    return {"loudness": tf.abs(tf.signal.stft(wave[:, 0], 64, 32)), "name": name}


def checked(name):
    number = tf.strings.to_number(tf.strings.substr(name, -5, 1))
    tf.debugging.assert_less(number, 9.5)
    return tf.sqrt(number + 1.0), number


def moved(dataset, stage=1):
    """Two passes over a pipeline, and over the same with the end of a map behind the batch."""
    twins = [create_seeded_copy(read_pipeline(dataset), 5) for _ in range(2)]
    changed = apply_edit(twins[1], VectorizeMap(stage=stage, expected_digest=twins[1].digest))
    assert changed.element_spec == twins[0].element_spec
    assert epochs(twins[0].dataset, 100) == epochs(changed.dataset, 100)
    return changed


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("calls", [None, 2, tf.data.AUTOTUNE])
def test_photos_are_scaled_a_batch_at_a_time(photos, drop, calls):
    data = photos.map(photo, num_parallel_calls=calls).shuffle(4).batch(4, drop_remainder=drop)
    changed = moved(data)
    assert kinds(changed) == ["from_tensor_slices", "map", "shuffle", "batch", "map"]
    first = changed.stages[1]
    assert first.parallelism == read_pipeline(data).stages[1].parallelism
    assert tf.TensorSpec((1, 6, 6, 3)) in first.dataset.element_spec


def test_spectra_are_made_of_a_batch(sounds):
    changed = moved(sounds.map(spectrum).batch(3))
    assert kinds(changed) == ["from_tensor_slices", "map", "batch", "map"]
    at_once = {node.op for node in graph_ops(changed.stages[3])}
    assert "RFFT" in at_once
    assert "DecodeWav" not in at_once


def graph_ops(node):
    return node.functions[0].graph.as_graph_def().node


def test_a_padded_batch_and_repetitions(sounds):
    moved(sounds.map(spectrum).repeat(2).shuffle(3, seed=2).padded_batch(4).repeat(2))


def test_what_is_checked_of_an_element_is_checked_before_the_batch(photos):
    changed = moved(photos.map(checked).batch(4))
    assert "If" in {node.op for node in graph_ops(changed.stages[1])}
    assert "If" not in {node.op for node in graph_ops(changed.stages[3])}


def test_a_file_that_is_broken_ends_the_same_batch(photos, tmp_path):
    (tmp_path / "06.png").write_bytes((tmp_path / "06.png").read_bytes()[:60])
    dataset = photos.map(photo).batch(4)
    changed = apply_edit(
        read_pipeline(dataset), VectorizeMap(stage=1, expected_digest=read_pipeline(dataset).digest)
    ).dataset
    seen = []
    for each in (dataset, changed):
        batches = iter(each)
        next(batches)
        with pytest.raises(tf.errors.InvalidArgumentError, match="PNG") as error:
            next(batches)
        seen.append((str(error.value).partition("[[")[2][:20], len(next(batches)[0])))
    assert seen[0] == seen[1]


def test_the_maps_below_stay_below(photos):
    data = photos.map(tf.strings.strip).map(photo).batch(4)
    changed = moved(data, stage=2)
    assert kinds(changed) == ["from_tensor_slices", "map", "map", "batch", "map"]
    with pytest.raises(EditRefused, match="comes map"):
        apply_edit(changed, VectorizeMap(stage=1, expected_digest=changed.digest))
    stages = measured(data)
    assert [stage.vectorized_cost is not None for stage in stages] == [False, False, True, False]
    assert stages[2].vectorized_cost.unbatched_ops == ("ResizeBilinear",)
    assert stages[2].vectorized_cost.unbatched_bytes > 6 * 6 * 3 * 4


def uneven(name):
    return tf.io.decode_png(tf.io.read_file(name), 3), name


def uneven_inside(name):
    pixels = tf.cast(tf.io.decode_png(tf.io.read_file(name), 3), tf.float32)
    return tf.reduce_mean(pixels)


def read_only(name):
    return tf.io.read_file(name), name


@pytest.mark.parametrize("function", [uneven, uneven_inside, read_only])
def test_nothing_is_moved_where_no_work_is_left_on_elements_of_one_shape(photos, function):
    map_ = read_pipeline(photos.map(function)).root
    assert split_batchable_tail(map_.functions[0]) is None
    batch = read_pipeline(photos.batch(1)).root
    assert kind_of(batch.dataset).name == "batch"
    assert vectorize_map(map_, batch) is None


def test_what_keeps_it_from_the_beginning_is_told(sounds):
    cut = split_batchable_tail(read_pipeline(sounds.map(spectrum)).root.functions[0])
    assert unbatched_ops(cut) == ("DecodeWav",)
    whole = read_pipeline(tf.data.Dataset.range(3).map(lambda x: x + 1)).root.functions[0]
    assert split_batchable_tail(whole) is None
