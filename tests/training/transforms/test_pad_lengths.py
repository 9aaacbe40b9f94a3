"""Batches filled up to few lengths: with what, how far, and of which data."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import JitCompileOff, LayersInInput, MapOnDevice, PadLengths
from uncork.core.evidence.batches import VaryingAxis
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.input.feed import Feed
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.transforms.pad_lengths import find_padding_values, has_same_padding

ROWS = tf.ragged.constant([[1, 2, 3], [4], [5, 6, 7, 8, 9], [1, 2]], dtype=tf.int32)
LENGTHS = PadLengths(multiple=4, axes=(VaryingAxis(tensor_index=0, axis=1, max_length=64),))


def rows(**padded: Any) -> tf.data.Dataset:
    labelled = tf.data.Dataset.from_tensor_slices((ROWS, [0, 1, 1, 0])).map(lambda x, y: (x, y))
    return labelled.padded_batch(2, **padded)


def numbers(fill: float) -> tf.data.Dataset:
    floats = tf.data.Dataset.from_tensor_slices(tf.cast(ROWS, tf.float32))
    return floats.map(lambda row: row).padded_batch(2, padding_values=fill)


def model(**compiled: Any) -> Any:
    layers = keras.layers
    body = [layers.Embedding(10, 3, mask_zero=True), layers.GlobalAveragePooling1D()]
    made = keras.Sequential([keras.Input((None,), dtype="int32"), *body, layers.Dense(1)])
    made.compile("sgd", "mse", **{"jit_compile": True} | compiled)
    return made


def fed(edit: PadLengths, dataset: Any) -> list[Any]:
    return list(StepSettings(model(), (edit,)).training_feed(Feed(dataset)).dataset)


def test_each_batch_is_filled_up_to_the_next_multiple() -> None:
    first, second = (x.numpy().tolist() for x, _ in fed(LENGTHS, rows()))
    assert first == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert second == [[5, 6, 7, 8, 9, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0]]


def test_none_gets_longer_than_the_longest_that_was_seen() -> None:
    axes = (VaryingAxis(tensor_index=0, axis=1, max_length=4),)
    first, second = (x.shape[1] for x, _ in fed(PadLengths(multiple=8, axes=axes), rows()))
    assert (first, second) == (4, 5)


def test_where_xla_is_left_out_behind_it_a_plan_does_what_it_says() -> None:
    settings = StepSettings(model(), (LENGTHS, JitCompileOff()))
    lengths = [x.shape[1] for x, _ in settings.training_feed(Feed(rows())).dataset]
    assert lengths == [4, 8]


def test_what_has_such_a_length_stays_what_it_is() -> None:
    (x, y), _ = fed(PadLengths(multiple=3, axes=LENGTHS.axes), rows())
    assert x.shape == (2, 3)
    assert y.numpy().tolist() == [0, 1]


def test_it_fills_up_with_what_the_script_fills_up_with() -> None:
    labels = tf.data.Dataset.from_tensor_slices((ROWS, ROWS)).map(lambda x, y: (x, y))
    data = labels.padded_batch(2, padding_values=(0, -1))
    assert find_padding_values(read_pipeline(data.prefetch(1))) == (0.0, -1.0)
    axes = (
        VaryingAxis(tensor_index=0, axis=1, max_length=64),
        VaryingAxis(tensor_index=1, axis=1, max_length=64, padding_value=-1.0),
    )
    (x, y), _ = fed(PadLengths(multiple=4, axes=axes), data)
    assert (x.numpy()[1].tolist(), y.numpy()[1].tolist()) == ([4, 0, 0, 0], [4, -1, -1, -1])


@pytest.mark.parametrize(
    ("dtype", "fill"), [(tf.int64, 2**24 + 1), (tf.int32, 2**31 - 1), (tf.float64, -1e300)]
)
def test_it_does_so_to_the_last_bit(dtype: Any, fill: Any) -> None:
    cast = tf.data.Dataset.from_tensor_slices(tf.cast(ROWS, dtype)).map(lambda row: row)
    data = cast.padded_batch(2, padding_values=tf.constant(fill, dtype))
    (value,) = find_padding_values(read_pipeline(data))
    axes = (VaryingAxis(tensor_index=0, axis=1, max_length=64, padding_value=value),)
    first, _ = fed(PadLengths(multiple=4, axes=axes), data)
    assert first.numpy()[1].tolist()[1:] == [fill] * 3


def test_a_tuple_of_one_stays_one() -> None:
    data = tf.data.Dataset.from_tensor_slices(ROWS).map(lambda row: (row,)).padded_batch(2)
    (first, _) = fed(LENGTHS, data)
    assert isinstance(first, tuple)
    assert first[0].shape == (2, 4)


def test_text_is_filled_up_with_nothing() -> None:
    words = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([["a"], ["b", "c"]]))
    data = words.map(lambda row: row).padded_batch(2)
    assert find_padding_values(read_pipeline(data)) == (0.0,)
    (batch,) = fed(LENGTHS, data)
    assert batch.numpy().tolist() == [[b"a", b"", b"", b""], [b"b", b"c", b"", b""]]


@pytest.mark.parametrize(
    "data",
    [
        rows(padding_values=(7, None)).map(lambda x, y: (x, x, y)),
        rows(padding_values=(7, None)).map(lambda x, y: (y, x)),
        rows(padding_values=(7, None)).interleave(
            lambda x, y: tf.data.Dataset.from_tensors((y, x)), cycle_length=1
        ),
        tf.data.Dataset.from_tensor_slices(tf.cast(ROWS, tf.uint64))
        .map(lambda row: row)
        .padded_batch(2, padding_values=tf.constant(2**64 - 1, tf.uint64)),
        numbers(float("nan")),
        numbers(float("-inf")),
        rows().map(lambda x, y: (tf.RaggedTensor.from_tensor(x), y)),
        tf.data.Dataset.range(3),
    ],
    ids=[
        *("other tensors by then", "another order", "interleaved", "too large for a float"),
        *("NaN", "infinite", "ragged", "numbers"),
    ],
)
def test_where_nobody_knows_what_to_fill_up_with_nothing_is(data: Any) -> None:
    assert find_padding_values(read_pipeline(data)) == ()
    assert find_padding_values(None) == ()


def test_zeros_are_taken_to_another_form_by_any_map() -> None:
    assert find_padding_values(read_pipeline(rows().map(lambda x, y: (x, x, y)))) == (0.0, 0.0, 0.0)


def test_a_replay_compares_the_batch_as_it_is_with_what_it_becomes() -> None:
    settings = StepSettings(model(), (LENGTHS,))
    pairs = list(settings.batch_pairs(Feed(rows(), class_weight={0: 1.0, 1: 2.0})))
    (filled, given), *_ = pairs
    assert [part.shape for part in filled] == [(2, 4), (2,), (2,)]
    assert [part.shape for part in given] == [(2, 3), (2,), (2,)]


VALIDATION = PadLengths(multiple=4, axes=LENGTHS.axes, has_validation=True)


@pytest.mark.parametrize(("edit", "lengths"), [(LENGTHS, [3, 5]), (VALIDATION, [4, 8])])
def test_what_is_validated_on_is_filled_up_where_the_edit_says_so(
    edit: PadLengths, lengths: list[int]
) -> None:
    for_trial = StepSettings(model(), (edit,)).validation_feed(Feed(rows())).dataset
    assert [x.shape[1] for x, _ in for_trial] == lengths
    planned = PlannedStep(model(), (edit,))
    given = planned.validation_arguments({"x": rows(), "validation_data": rows(), "epochs": 1})
    assert bool(given) is edit.has_validation
    assert not given or [x.shape[1] for x, _ in given["validation_data"]] == lengths


def test_nothing_else_is_validated_on() -> None:
    planned = PlannedStep(model(), (VALIDATION,))
    assert planned.validation_arguments({"x": rows(), "validation_data": None, "epochs": 1}) == {}
    arrays = (tf.zeros((4, 3), tf.int32), tf.zeros(4))
    with pytest.raises(EditRefused, match="in the validation data: the data is not"):
        planned.validation_arguments({"x": rows(), "validation_data": arrays, "epochs": 1})


def test_batches_of_other_parts_or_fills_are_not_alike() -> None:
    labelled = tf.data.Dataset.from_tensor_slices((ROWS, ROWS)).map(lambda x, y: (x, y))
    others = [
        labelled.padded_batch(2),
        labelled.padded_batch(2, padding_values=(0, -1)),
        rows().map(lambda x, y: {"x": x, "y": y}),
        rows().map(lambda x, y: (x, tf.cast(y, tf.int64))),
        rows().map(lambda x, y: (x, y[:, None])),
    ]
    assert has_same_padding(read_pipeline(rows()), read_pipeline(rows().take(1).prefetch(1)))
    assert not any(has_same_padding(read_pipeline(rows()), read_pipeline(each)) for each in others)
    assert not has_same_padding(read_pipeline(rows()), None)


def test_batches_that_are_held_are_filled_up_too() -> None:
    held = Feed(None).with_resident_batches(list(rows()))
    found = StepSettings(model(), (LENGTHS,)).training_feed(held)
    assert found.resident_batch_count == 2
    assert [x.shape[1] for x, _ in found.dataset.take(3)] == [4, 8, 4]


@pytest.mark.parametrize("compiled", [{"jit_compile": False}, {"run_eagerly": True}])
def test_a_step_without_xla_compiles_nothing_for_a_length(compiled: dict[str, Any]) -> None:
    made = model(**{"jit_compile": False} | compiled)
    with pytest.raises(EditRefused):
        StepSettings(made, (LENGTHS,))


@pytest.mark.parametrize(
    "other", [LayersInInput(layer_names=("a",)), MapOnDevice(expected_digest="")]
)
def test_what_the_step_is_given_must_be_the_batch(other: Any) -> None:
    with pytest.raises(EditRefused):
        StepSettings(model(), (other, LENGTHS))


@pytest.mark.parametrize(
    ("data", "axes"),
    [
        (rows(padded_shapes=([6], [])), LENGTHS.axes),
        (rows(), (VaryingAxis(tensor_index=1, axis=1, max_length=64),)),
        (rows(), (VaryingAxis(tensor_index=5, axis=1, max_length=64),)),
    ],
    ids=["of one length", "no such axis", "no such tensor"],
)
def test_other_data_is_refused(data: Any, axes: tuple[VaryingAxis, ...]) -> None:
    with pytest.raises(EditRefused, match="axis"):
        fed(PadLengths(multiple=4, axes=axes), data)


def test_arrays_have_one_length() -> None:
    with pytest.raises(EditRefused, match="is not a tf"):
        StepSettings(model(), (LENGTHS,)).training_feed(Feed(ROWS.to_tensor().numpy()))
