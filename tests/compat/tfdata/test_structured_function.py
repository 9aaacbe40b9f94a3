from __future__ import annotations

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields
from uncork.compat.tfdata.structured_function import (
    derive_map_function,
    python_function_of,
    variables_of,
)


def test_a_dataset_calls_a_derived_function():
    weight = tf.Variable(3, dtype=tf.int64)

    def triple(x):
        return weight * x

    data = tf.data.Dataset.range(3).map(triple)
    wrapper = parameter(data, "map_func")
    assert variables_of(wrapper) == (weight,)
    square = tf.function(lambda x: [x * x], input_signature=[tf.TensorSpec([], tf.int64)])
    derived = derive_map_function(wrapper, square.get_concrete_function())
    assert python_function_of(derived) is triple
    assert variables_of(derived) == (weight,)
    copy = copy_with_fields(
        data, [parameter(data, "input_dataset")], kind_of(data), map_func=derived
    )
    assert [int(each) for each in copy] == [0, 1, 4]
    assert repr(copy) == repr(data)
