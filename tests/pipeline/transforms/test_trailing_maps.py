"""The last map of a pipeline: which can be done elsewhere, and that it makes the same there."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import AutotuneOff, GatherLast, VectorizeMap
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.late_gather import gather_keras_arrays
from uncork.pipeline.transforms.trailing_maps import find_step_offload, find_trailing_maps

Dataset = tf.data.Dataset
PIXELS = np.random.default_rng(3).integers(0, 256, (24, 5, 4, 3), "uint8")
LABELS = np.arange(24)
MEAN = tf.constant(np.random.default_rng(4).normal(size=(5, 4, 3)), tf.float32)


def last_map(pipeline):
    return next(iter(find_trailing_maps(pipeline)), None)


def images():
    return Dataset.from_tensor_slices((PIXELS, LABELS))


def scaled(x, y):
    return tf.cast(x, tf.float32) / 255.0, y


def centred(x, y):
    return (tf.cast(x, tf.float32) - MEAN) * 0.5, tf.one_hot(y, 24)


def flipped(x, y):
    return tf.image.random_flip_left_right(tf.cast(x, tf.float32)), y


def logged(x, y):
    tf.print(y)
    return scaled(x, y)


def in_python(x, y):
    return tf.numpy_function(np.float32, [x], tf.float32), y


def resized(x, y):
    return tf.image.resize(x, (8, 8)), y


def batches(work=scaled):
    return images().batch(8).map(work, tf.data.AUTOTUNE)


def on_cpu():
    with tf.device("CPU"):
        return batches(centred)


FOUND = {
    "of labels alone": lambda: batches(lambda x, y: (x, tf.one_hot(y, 1000))),
    "at the end": batches,
    "with what hands on behind it": lambda: batches().prefetch(2).repeat(2),
    "with numbers of its own": lambda: batches(centred),
    "made on a device that its author named": on_cpu,
    "between a shuffle and what repeats it": lambda: images().shuffle(9).batch(8).map(scaled),
}
OTHERS = {
    "it draws": lambda: batches(flipped),
    "it prints": lambda: batches(logged),
    "it runs Python": lambda: batches(in_python),
    "it does more": lambda: batches(resized),
    "something is done behind it": lambda: batches().shuffle(3),
    "it takes words": lambda: Dataset.from_tensors("a").map(tf.strings.length),
    "it keeps a shuffle and a repeat apart": lambda: images().shuffle(9).map(scaled).repeat(2),
    "there is none": lambda: images().batch(8),
}


@pytest.mark.parametrize("kind", FOUND)
def test_what_it_makes_elsewhere_is_the_same(kind):
    dataset = FOUND[kind]()
    found = last_map(read_pipeline(dataset))
    assert found is not None
    assert found.saved_transfer_share > 0.7
    device = tf.zeros([]).device
    step = tf.function(found.on_device(device))
    assert found.input_dataset.cardinality() == dataset.cardinality()
    if "shuffle" not in kind:
        again = found.input_dataset.map(lambda *given: found.map_element(given))
        for given, here, wanted in zip(found.input_dataset, again, dataset, strict=True):
            for made in (step(given), here):
                assert tf.nest.map_structure(tf.TensorSpec.from_tensor, made) == (
                    tf.nest.map_structure(tf.TensorSpec.from_tensor, wanted)
                )
                for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True):
                    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_every_op_of_it_runs_on_the_device_that_is_named():
    found = last_map(read_pipeline(on_cpu()))
    device = "/job:localhost/replica:0/task:0/device:CPU:0"

    @tf.function
    def step(given):
        return found.on_device(device)(given)

    graph = step.get_concrete_function(found.input_dataset.element_spec).graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    asked = {n.device for n in nodes if n.op not in ("NoOp", "Placeholder", "Identity", "Const")}
    assert asked == {device}  # the call, too: what it gives would travel back otherwise


@pytest.mark.parametrize("why", OTHERS)
def test_it_stays_where_it_is_where(why):
    assert last_map(read_pipeline(OTHERS[why]())) is None


def test_what_makes_nothing_larger_is_told():
    found = last_map(read_pipeline(batches(lambda x, y: (x[..., ::-1], y))))
    assert found is not None
    assert found.saved_transfer_share == 0


def places(dataset):
    return [place for place in read_pipeline(dataset).stage_locations if place.node.kind == "map"]


def test_the_step_could_do_the_map_behind_the_batch():
    dataset = batches().prefetch(1)
    (place,) = places(dataset)
    found = find_step_offload(place)
    assert (found.digest, found.vectorized_maps) == (last_map(read_pipeline(dataset)).digest, ())
    assert found.saved_transfer_share == pytest.approx(1 - (5 * 4 * 3 + 8) / (4 * 5 * 4 * 3 + 8))


def test_and_the_last_two():
    dataset = batches().map(lambda x, y: (x * 2.0, y))
    lower, upper = (find_step_offload(place) for place in places(dataset))
    assert upper is None  # by itself it makes nothing larger
    _, two = find_trailing_maps(read_pipeline(dataset))
    assert lower.digest == two.digest
    assert len(two.maps) == 2
    for given, wanted in zip(two.input_dataset, dataset, strict=True):
        made = tf.function(two.on_device(""))(given)
        assert made[0].numpy().tobytes() == wanted[0].numpy().tobytes()


def test_it_could_do_one_below_the_batch_once_that_takes_whole_batches():
    dataset = images().map(scaled).shuffle(9, seed=2).batch(8)
    (place,) = places(dataset)
    found = find_step_offload(place)
    pipeline = read_pipeline(dataset)
    edited = apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
    assert (found.digest, found.vectorized_maps) == (last_map(edited).digest, (1,))


def test_of_a_map_that_decodes_it_could_do_what_comes_after():
    encoded = [tf.io.encode_png(x).numpy() for x in PIXELS]

    def load(file, label):
        pixels = tf.ensure_shape(tf.io.decode_png(file, channels=3), (5, 4, 3))
        return tf.cast(pixels, tf.float32) / 255.0, label

    dataset = Dataset.from_tensor_slices((encoded, LABELS)).map(load).batch(8)
    (place,) = places(dataset)
    assert find_step_offload(place).vectorized_maps == (1,)
    assert (
        find_step_offload(read_pipeline(dataset).stage_locations[0]) is None
    )  # words are no rows of numbers


def test_neither_one_below_another_kind_of_map_nor_one_in_a_branch():
    below, _ = places(batches(scaled).map(flipped))
    assert find_step_offload(below) is None
    joined = Dataset.zip((batches(), Dataset.range(3)))
    (place,) = places(joined)
    assert find_step_offload(place) is None


def shuffled(rows, size):
    return rows.shuffle(size, seed=2, reshuffle_each_iteration=False)  # copies share their epochs


PICKED = {
    "batched": lambda: images().batch(8),
    "shuffled, too": lambda: shuffled(images(), 24).batch(8, drop_remainder=True),
    "with a map behind": lambda: shuffled(images(), 9).batch(8).map(centred).prefetch(1),
    "with one below the batch": lambda: shuffled(images().map(scaled), 9).batch(8),
    "and others": lambda: images().shard(2, 1).skip(2).repeat(2).batch(5).take(3),
}


def vectorized(pipeline):
    below = [i for i, node in enumerate(pipeline.stages) if node.kind == "map"]
    batch = next(i for i, node in enumerate(pipeline.stages) if node.kind == "batch")
    for stage in (i for i in below if i < batch):
        pipeline = apply_edit(pipeline, VectorizeMap(stage=stage, expected_digest=pipeline.digest))
    return pipeline


@pytest.mark.parametrize("kind", PICKED)
def test_rows_are_gathered_by_their_numbers(kind):
    pipeline = read_pipeline(PICKED[kind]())
    found = find_step_offload(pipeline.stage_locations[0])
    first = vectorized(pipeline)
    edited = apply_edit(first, GatherLast(expected_digest=first.digest))
    run = find_trailing_maps(edited)[-1]
    assert found.digest == run.digest
    assert found.resident_bytes >= PIXELS.nbytes + LABELS.nbytes
    assert (
        tf.nest.map_structure(lambda spec: spec.dtype, run.input_dataset.element_spec) == tf.int64
    )
    assert edited.element_spec == pipeline.element_spec
    step = tf.function(run.on_device(""))
    for numbers, here, wanted in zip(
        run.input_dataset, edited.dataset, PICKED[kind](), strict=True
    ):
        for made in (step(numbers), here):
            for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True):
                assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.every(4)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 8)])
def test_rows_of_any_numbers_are_gathered_bit_for_bit(dtype, shape):
    rows = np.random.default_rng(1).integers(0, 256, (9, *shape, 16), "uint8")
    rows[:3] = 255  # as floats, no numbers
    rows = rows[..., :1].astype("bool")[..., 0] if dtype == "bool" else rows.view(dtype)[..., 0]
    pipeline = read_pipeline(Dataset.from_tensor_slices(rows).batch(4))
    edited = apply_edit(pipeline, GatherLast(expected_digest=pipeline.digest))
    (run,) = find_trailing_maps(edited)
    assert edited.element_spec == pipeline.element_spec
    step = tf.function(run.on_device(""), jit_compile=True)
    for numbers, wanted in zip(run.input_dataset, pipeline.dataset, strict=True):
        for made in (step(numbers), tf.function(run.on_device(""))(numbers)):
            assert made.dtype == wanted.dtype
            assert made.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("drops", [(True, True), (True, False), (False, False)])
def test_batches_are_batched_again(drops):
    inner, outer = drops
    rows = np.arange(9 * 8, dtype="uint8").reshape(9, 8)
    batched = Dataset.from_tensor_slices(rows).batch(2, drop_remainder=inner)
    pipeline = read_pipeline(batched.batch(2, drop_remainder=outer))
    edited = apply_edit(pipeline, GatherLast(expected_digest=pipeline.digest))
    assert edited.element_spec == pipeline.element_spec
    for made, wanted in zip(edited.dataset, pipeline.dataset, strict=True):
        assert np.array_equal(made, wanted)


def test_rows_are_put_on_a_device_once():
    pipeline = read_pipeline(PICKED["with a map behind"]())
    edited = apply_edit(pipeline, GatherLast(expected_digest=pipeline.digest))
    calm = apply_edit(edited, AutotuneOff(expected_digest=edited.digest))
    one, other = (find_trailing_maps(each)[-1] for each in (edited, calm))
    one.on_device("")
    held = [map_.dataset.__dict__["_uncork_placed"] for map_ in one.maps]
    other.on_device("")
    assert [map_.dataset.__dict__["_uncork_placed"] for map_ in other.maps] == held


def test_more_rows_are_the_same_work():
    many = Dataset.from_tensor_slices((np.tile(PIXELS, (2, 1, 1, 1)), np.tile(LABELS, 2)))
    few, more = (
        find_step_offload(read_pipeline(rows.batch(8)).stage_locations[0])
        for rows in (images(), many)
    )
    assert few.digest == more.digest
    assert more.resident_bytes == 2 * few.resident_bytes


@pytest.mark.parametrize(
    "dataset",
    [
        images().filter(lambda x, y: y > 3).batch(8),
        images(),
        Dataset.from_tensor_slices(["a", "b"]).batch(2),
        Dataset.from_tensors(PIXELS).batch(2),
        images().batch(8).map(flipped),
    ],
)
def test_rows_that_something_else_is_done_to_stay(dataset):
    assert find_step_offload(read_pipeline(dataset).stage_locations[0]) is None


ARRAYS = {
    "shuffled": {"shuffle": True},
    "in order": {"shuffle": False},
    "batches shuffled": {"shuffle": "batch"},
    "with weights": {"sample_weight": np.arange(24, dtype="float32")},
    "of whole batches": {"batch_size": 6},
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_rows_of_arrays_are_gathered_where_keras_gathers_them(kind):
    given = {"batch_size": 10, "shuffle": False, **ARRAYS[kind]}
    x = {"pixels": PIXELS, "more": PIXELS[:, 0] / 3}

    def read_by_keras():
        keras.utils.set_random_seed(3)
        return ArrayDataAdapter(x, LABELS, **given).get_tf_dataset()

    plain, gathered = read_by_keras(), gather_keras_arrays(read_pipeline(read_by_keras()))
    assert gathered.element_spec == plain.element_spec
    (run,) = find_trailing_maps(read_pipeline(gathered))
    assert run.resident_bytes > PIXELS.nbytes
    keras.utils.set_random_seed(4)
    wanted = list(plain)
    for made in (gathered, run.input_dataset.map(tf.function(run.on_device("")))):
        keras.utils.set_random_seed(4)
        for ours, theirs in zip(made, wanted, strict=True):
            for a, b in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
                assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize(
    "dataset",
    [
        images().batch(8),
        Dataset.zip((Dataset.range(3), images())),
        ArrayDataAdapter(tf.sparse.from_dense(PIXELS[:, 0, 0]), LABELS).get_tf_dataset(),
        Dataset.zip((Dataset.range(24).batch(4), Dataset.from_tensors(PIXELS).repeat())).map(
            lambda numbers, rows: tf.gather(rows, numbers + 0)
        ),
        Dataset.zip((Dataset.range(4).batch(4), Dataset.from_tensors(PIXELS).repeat())).map(
            lambda numbers, rows: tf.gather(rows, numbers, axis=1)
        ),
    ],
)
def test_another_pipeline_than_that_of_keras_is_refused(dataset):
    with pytest.raises(EditRefused, match="another pipeline"):
        gather_keras_arrays(read_pipeline(dataset))


def test_rows_of_zipped_arrays_are_gathered_likewise():
    images_of, labels_of = Dataset.from_tensor_slices(PIXELS), Dataset.from_tensor_slices(LABELS)
    pipeline = read_pipeline(Dataset.zip((images_of, labels_of)).shuffle(24, seed=3).batch(8))
    edited = apply_edit(pipeline, GatherLast(expected_digest=pipeline.digest))
    for ours, theirs in zip(pipeline.dataset, edited.dataset, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    shorter = read_pipeline(Dataset.zip((images_of, labels_of.take(9))).batch(8))
    with pytest.raises(EditRefused, match="does more to its rows"):
        apply_edit(shorter, GatherLast(expected_digest=shorter.digest))
