from __future__ import annotations

import sys

import keras
import numpy as np
import pytest

from uncork.compat.keras3.data_adapters import (
    GET_INDEX,
    ArrayDataAdapter,
    layout_of,
    to_sliceable,
    train_validation_split,
)
from uncork.core.base.errors import MissingPrivateApi


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_layout_is_what_the_batches_of_the_adapter_are(shuffle):
    arrays = np.arange(7, dtype=np.float32), np.arange(7)
    adapter = ArrayDataAdapter(*arrays, batch_size=3, shuffle=shuffle)
    layout = layout_of(adapter)
    sizes = [len(batch[0]) for batch in adapter.get_tf_dataset()]
    assert sizes == [layout.batch_size, layout.batch_size, layout.last_batch]
    assert layout.samples == sum(sizes)
    assert layout.shuffle is shuffle
    assert [np.array_equal(*pair) for pair in zip(layout.arrays, arrays, strict=True)] == [True] * 2


def test_arrays_are_sliceable_in_the_dtype_of_keras():
    assert to_sliceable(np.zeros(3)).dtype == keras.config.floatx()


def test_a_split_is_what_fit_validates_on():
    (x, y, weights), (x_val, y_val, _) = train_validation_split(
        (np.arange(10), np.arange(10), None), 0.3
    )
    assert x.tolist() == y.tolist() == list(range(7))
    assert x_val.tolist() == y_val.tolist() == [7, 8, 9]
    assert weights is None


def test_threads_of_keras_read_a_loader_in_get_index():
    callers = []

    class Loader(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            frame = sys._getframe(1)
            callers.extend(each.f_code for each in (frame, frame.f_back))
            return np.zeros((1, 1)), np.zeros((1, 1))

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(Loader(workers=2), verbose=0)
    assert GET_INDEX is not None
    assert GET_INDEX in callers


def test_a_missing_field_is_reported():
    with pytest.raises(MissingPrivateApi, match=r"object\._inputs'"):
        layout_of(object())
