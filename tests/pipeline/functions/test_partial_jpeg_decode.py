"""JPEG images of which a map decodes no more than it crops: the same pixels, the same errors."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, measured
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DecodeAndCrop, DrawFirst, InlineMap, SplitMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.effects import op_types
from uncork.pipeline.functions.function_graph import graph_of
from uncork.pipeline.functions.partial_jpeg_decode import decode_crops_only
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

FILE = tf.TensorSpec([], tf.string)


def photo(height=97, width=131, *, colours=3, seed=1, **how):
    """Smooth, with edges, as a file; colours of neighbours are stored together."""
    drawn = np.random.default_rng(seed)
    waves = np.add.outer(np.arange(height) / 9.0, np.arange(width) / 7.0)[..., None]
    image = 120 + 80 * np.sin(waves + drawn.uniform(0, 9, colours)) + drawn.normal(0, 8, colours)
    image[height // 3 : height // 2, width // 4 : width // 2] = drawn.integers(0, 255, colours)
    return tf.io.encode_jpeg(tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8), **how)


FILES = [
    photo(),
    photo(64, 64, chroma_downsampling=False),
    photo(200, 90, quality=40, progressive=True),
    photo(90, 330, quality=98, optimize_size=True),
    photo(71, 75, colours=1),
]
PNG = tf.io.encode_png(tf.io.decode_jpeg(FILES[0]))


def traced(function):
    return tf.function(function).get_concrete_function(FILE)


def decoded(file):
    return tf.io.decode_jpeg(file, channels=3)


def at_random(file):
    return tf.image.random_crop(decoded(file), [40, 50, 3], seed=3)


def at_random_as_floats(file):
    scaled = tf.image.convert_image_dtype(decoded(file), tf.float32) / 2.0 - 0.5
    return tf.image.random_crop(scaled, [30, 60, 3], seed=3)


def in_the_middle(file):
    return tf.image.resize(tf.image.central_crop(decoded(file), 0.6), [20, 20])


def in_a_box(file):
    return tf.image.crop_to_bounding_box(decoded(file), 9, 20, 33, 44)


def to_a_size(file):
    return tf.image.resize_with_crop_or_pad(decoded(file), 64, 160)


def square(file):
    image = decoded(file)
    height, width = tf.unstack(tf.shape(image)[:2])
    side = tf.minimum(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return tf.image.resize(image[top : top + side, left : left + side], [24, 24])


def from_its_end(file):
    return decoded(file)[-30:, 5:-9, :]


def rows(file):
    return decoded(file)[7:900]


def some_columns(file):
    return decoded(file)[:, -20:, ...]


def one_colour(file):
    return tf.slice(decoded(file), [3, 4, 1], [-1, 11, 1])


def distorted(file):
    image = decoded(file)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image), tf.zeros([0, 0, 4]), seed=4, area_range=(0.1, 1.0),
        use_image_if_no_bounding_boxes=True,
    )  # fmt: skip
    part = tf.slice(image, begin, size)
    return tf.image.random_flip_left_right(tf.image.resize(part, [24, 24]), seed=1)


def as_any_image(file):
    image = tf.io.decode_image(file, expand_animations=False)
    return tf.image.random_crop(image, [33, 33, tf.shape(image)[2]], seed=3)


def as_it_is_stored(file):
    return tf.io.decode_jpeg(file, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)[9:40, 9:40]


def two_of_them(file):
    again = tf.io.decode_jpeg(tf.strings.join([file, ""]), channels=1)
    return at_random(file), again[:8, 8:16], tf.shape(again)


def beside_what_nobody_takes(file):
    image = decoded(file)
    tf.image.resize(tf.cast(image, tf.float32) / 255.0, [9, 9])
    tf.image.random_crop(image, [5, 5, 3])
    return image[:9, 3:13]


def less_a_margin(file):
    image = decoded(file)
    rows = tf.shape(image)[0]
    return tf.slice(image, [5, 5, 0], tf.stack([rows - 70, 9, -1]))


CROPS = [
    beside_what_nobody_takes,
    at_random, at_random_as_floats, in_the_middle, in_a_box, to_a_size, square, from_its_end, rows,
    some_columns, one_colour, distorted, as_any_image, as_it_is_stored, two_of_them,
]  # fmt: skip


@pytest.mark.every(4)
@pytest.mark.parametrize("crop", CROPS)
def test_the_same_pixels(crop):
    whole, part = traced(crop), decode_crops_only(traced(crop))
    assert "DecodeAndCropJpeg" in op_types(part)
    for file in (*FILES, PNG):
        for _ in range(3):
            expected = tf.nest.flatten(whole(file))
            for one, other in zip(expected, part(file), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("file", FILES)
def test_wherever_the_crop_lies(file):
    def between(top, left, height, width):
        return decoded(file)[top : top + height, left : left + width]

    numbers = [tf.TensorSpec([], tf.int32)] * 4
    part = decode_crops_only(tf.function(between).get_concrete_function(*numbers))
    image, drawn = decoded(file), np.random.default_rng(2)
    for _ in range(60):
        height, width = (int(drawn.integers(1, most + 1)) for most in image.shape[:2])
        top, left = int(drawn.integers(0, 300)), int(drawn.integers(0, 300))
        top, left = top % (image.shape[0] - height + 1), left % (image.shape[1] - width + 1)
        (found,) = part(*map(tf.constant, (top, left, height, width)))
        np.testing.assert_array_equal(found, image[top : top + height, left : left + width])


def brightest(file):
    image = decoded(file)
    row = tf.argmax(tf.reduce_sum(tf.cast(image, tf.int32), [1, 2]), output_type=tf.int32)
    return image[row : row + 2]


def flipped_first(file):
    return tf.image.random_flip_left_right(decoded(file), seed=1)[:9, :9]


def once_whole(file):
    image = decoded(file)
    return image, image[:9, :9]


def two_crops(file):
    image = decoded(file)
    return image[:9, :9], image[9:18, 9:18]


def half_the_size(file):
    return tf.io.decode_jpeg(file, channels=3, ratio=2)[:9, :9]


def whatever_can_be_read(file):
    return tf.io.decode_jpeg(file, channels=3, try_recover_truncated=True)[:9, :9]


def every_second(file):
    return decoded(file)[:20:2, :20:2]


def one_row(file):
    return decoded(file)[5]


def uncropped(file):
    return tf.image.resize(decoded(file), [9, 9])


def animated(file):
    return tf.io.decode_image(file)[:9, :9]


def shape_alone(file):
    image = decoded(file)
    tf.image.random_crop(image, [5, 5, 3])
    return tf.shape(image)


def counted(file):
    part = decoded(file)[:9, :9]
    with tf.control_dependencies([part]):
        tf.print("made")
    return tf.shape(file)


def maybe(file):
    image = decoded(file)
    drawn = tf.random.uniform([], seed=1)
    return tf.cond(drawn < 0.5, lambda: image[:9, :9], lambda: image[:8, :8])


@pytest.mark.parametrize(
    "function",
    [
        brightest, flipped_first, once_whole, two_crops, half_the_size, whatever_can_be_read,
        every_second, one_row, uncropped, animated, shape_alone, counted, maybe,
    ],
)  # fmt: skip
def test_what_looks_at_more_is_left_alone(function):
    assert decode_crops_only(traced(function)) is None


def outcome(function, file):
    try:
        return [each.numpy().tolist() for each in tf.nest.flatten(function(file))]
    except tf.errors.OpError as error:
        return type(error)


@pytest.mark.parametrize("crop", [in_a_box, as_any_image, from_its_end, one_colour])
def test_what_is_no_complete_image_fails_as_before(crop):
    whole, part = traced(crop), decode_crops_only(traced(crop))
    file = FILES[0].numpy()
    cut_short = [file[:n] for n in (0, 1, 2, 3, 20, len(file) // 2, len(file) - 2, len(file) - 1)]
    for each in (*cut_short, b"no image", b"\xff\xd8\xff\xff\xd9", file + b"more", file[1:]):
        assert outcome(part, tf.constant(each)) == outcome(whole, tf.constant(each))


@pytest.mark.parametrize("crop", [at_random, in_a_box, one_colour, less_a_margin])
def test_a_crop_beyond_the_image_fails_in_the_same_words(crop):
    told = []
    for function in (traced(crop), decode_crops_only(traced(crop))):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            function(photo(2, 300))
        told.append(str(error.value).splitlines()[0].rpartition("}} ")[2])
    assert told[0] == told[1]


def edited(data, *stages, kind=DecodeAndCrop):
    """Seeded twins of both are equal in two epochs."""
    before = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    pipeline = create_seeded_copy(read_pipeline(data), 5)
    for stage in stages:
        pipeline = apply_edit(pipeline, kind(stage=stage, expected_digest=pipeline.digest))
    assert before[0].is_complete
    assert epochs(pipeline.dataset) == before
    assert pipeline.element_spec == data.element_spec
    return pipeline


def labelled(files=FILES):
    return tf.data.Dataset.from_tensor_slices((files, range(len(files))))


def augmented(file, label):
    image = tf.image.random_crop(decoded(file), [40, 50, 3])
    return tf.image.random_flip_left_right(image), label


@pytest.mark.parametrize("calls", [None, 2])
def test_a_pipeline_draws_the_same(calls):
    data = labelled().shuffle(5, seed=1).map(augmented, num_parallel_calls=calls).batch(2)
    edited(data, 2)


def test_what_is_drawn_can_be_drawn_first_all_the_same():
    pipeline = edited(labelled().map(augmented).batch(2), 1)
    again = apply_edit(pipeline, DrawFirst(stage=1, expected_digest=pipeline.digest))
    assert [node.kind for node in again.stages][1:3] == ["map", "map"]
    assert epochs(again.dataset) == epochs(pipeline.dataset)


def test_of_a_map_cut_in_two_no_crop_is_left():
    pipeline = read_pipeline(labelled().map(augmented))
    pipeline = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    for stage in (1, 2):
        with pytest.raises(EditRefused, match="crops no JPEG image"):
            apply_edit(pipeline, DecodeAndCrop(stage=stage, expected_digest=pipeline.digest))


def load(file, label):
    return {"image": decoded(file), "label": label}


def augmented_further(element):
    image = tf.image.random_crop(element["image"], [40, 50, 3])
    return tf.image.random_flip_left_right(image), element["label"]


@pytest.mark.parametrize("calls", [None, 2])
def test_one_map_may_decode_and_the_next_one_crop(calls):
    data = labelled().shuffle(5, seed=1).map(load, num_parallel_calls=calls)
    data = data.map(augmented_further, num_parallel_calls=calls).batch(2)
    edited(data, 3)
    found = apply_edit(
        read_pipeline(data), DecodeAndCrop(stage=3, expected_digest=read_pipeline(data).digest)
    )
    assert [node.kind for node in found.stages] == [
        "from_tensor_slices", "shuffle", "map", "batch",
    ]  # fmt: skip
    assert found.stages[2].parallelism == (calls or 1)


def test_two_that_became_one_are_measured_as_one():
    data = labelled(FILES * 4).map(load).map(lambda x: (x["image"][:9, :9], x["label"]))
    first = measured(data.batch(4))[2]
    assert first.has_upstream_decoder
    assert first.cropped_cpu_s_per_element > 0
    found = measured(
        apply_edit(
            read_pipeline(data), DecodeAndCrop(stage=2, expected_digest=read_pipeline(data).digest)
        )
    )
    assert [stage.kind for stage in found] == ["from_tensor_slices", "map"]
    assert found[1].op_costs
    assert found[1].cropped_cpu_s_per_element is None


def test_tables_and_variables_of_both_maps_stay_alive():
    def make():
        words = tf.constant(["a", "b"])
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, tf.constant([1, 2])), 0
        )
        shift = tf.Variable(3)
        data = labelled().map(lambda file, label: (decoded(file), table.lookup(words[label % 2])))
        return data.map(lambda image, label: (image[:9, 3:9], label + shift)).batch(2)

    edited(make(), 2)


COUNT = tf.Variable(0)


def counting(image, label):
    return image, label + COUNT


@pytest.mark.parametrize(
    "data",
    [
        labelled().map(load, num_parallel_calls=2).map(augmented_further),  # parallel, then not
        labelled().map(load).cache().map(augmented_further),
        labelled().map(load).shuffle(3).map(augmented_further),
        labelled().map(lambda *x: (decoded(x[0]), x[1])).map(counting).map(lambda i, n: i[:9, :9]),
        labelled().map(load).map(lambda x: (x["image"][:9, :9], x["image"])),
        labelled().map(augmented).map(lambda image, label: image[:9, :9]),
    ],
)
def test_other_maps_are_not_joined(data):
    pipeline = read_pipeline(data)
    with pytest.raises(EditRefused, match="crops no JPEG image"):
        apply_edit(
            pipeline, DecodeAndCrop(stage=len(pipeline.stages) - 1, expected_digest=pipeline.digest)
        )


def test_what_ran_inline_is_handed_to_threads_again():
    pipeline = read_pipeline(labelled().map(lambda file, label: (in_a_box(file), label)))
    pipeline = apply_edit(pipeline, InlineMap(stage=1, expected_digest=pipeline.digest))
    edited(pipeline.dataset, 1)


def test_errors_that_are_ignored_keep_what_fails():
    pipeline = read_pipeline(labelled().map(augmented).ignore_errors())
    with pytest.raises(EditRefused, match="ignored downstream"):
        apply_edit(pipeline, DecodeAndCrop(stage=1, expected_digest=pipeline.digest))


def test_only_what_is_cropped_is_decoded_once_more():
    """Once is enough: what was edited offers nothing that could be edited again."""
    part = decode_crops_only(traced(at_random))
    assert decode_crops_only(part) is None
    assert not {"DecodeJpeg", "DecodeAndCropJpeg"} & {n.op for n in graph_of(part).nodes.values()}


def test_what_would_be_spared_is_timed():
    file = photo(1200, 1600)
    data = tf.data.Dataset.from_tensors(file).repeat(40).map(in_a_box).batch(4)
    found = measured(data)[2]
    assert found.cropped_cpu_s_per_element < 0.8 * found.cpu_s_per_element
    assert measured(tf.data.Dataset.range(9).map(lambda x: x))[1].cropped_cpu_s_per_element is None
