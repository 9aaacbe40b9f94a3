from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.training.inspect.padding import measure_padding


def rows(*lengths, longest=20, before=False):
    """Numbers from 1 on, filled up with zeros."""
    filled = np.zeros((len(lengths), longest), "int32")
    for row, length in zip(filled, lengths, strict=True):
        row[longest - length if before else 0 : None if before else length] = range(1, length + 1)
    return filled


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, tf.constant])
def test_rows_filled_up_on_either_side_are_seen(kind, before):
    found = measure_padding(kind(rows(2, 4, 6, before=before)))
    assert (found.padded_length, found.mean_length, found.is_leading) == (20, 4.0, before)
    assert found.is_significant


def test_zeros_in_the_middle_are_numbers_like_others():
    batch = rows(10, 10)
    batch[:, 3:6] = 0
    assert measure_padding(batch).mean_length == 10


def test_batches_of_like_length_have_little():
    assert not measure_padding(rows(14, 16, 19, 20)).is_significant


@pytest.mark.parametrize(
    "inputs",
    [
        rows(2, 3).astype("float32"),
        rows(2, 3)[:, :5],
        rows(2, 3)[0],
        rows(2, 3)[:, :, None],
        tf.ragged.constant([[1, 2], [3]]),
        np.array([["a", ""] * 10]),
        {},
        None,
    ],
)
def test_what_is_no_sequence_of_numbers_has_none(inputs):
    assert measure_padding(inputs) is None


def test_it_is_cut_to_what_batches_of_like_length_would_have():
    lengths = [2] * 30 + [20] * 2
    found = measure_padding(rows(*lengths))
    assert (found.mean_length, found.grouped_length) == (
        3.125,
        4.25,
    )  # eight groups of four, one as long as ever
    assert found.trim(rows(*lengths)).shape == (32, 4)


def test_rows_of_nothing_but_zeros_are_empty():
    assert measure_padding(rows(0, 4)).mean_length == 2


def test_everything_as_long_as_the_rows_is_cut():
    batch = ({"words": rows(2, 4), "size": np.ones((2, 3))}, tf.ones((2, 20, 5)), None, np.ones(2))
    x, y, none, weights = measure_padding(batch[0]).trim(batch)
    assert x["words"].shape == (2, 3)
    assert x["size"].shape == (2, 3)
    assert y.shape == (2, 3, 5)
    assert none is None
    assert weights.shape == (2,)


def test_what_stands_behind_the_zeros_is_kept():
    batch = rows(2, 4, before=True)
    assert measure_padding(batch).trim(batch).tolist() == [[0, 1, 2], [2, 3, 4]]
