from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf.eager_tensors import reading_through


def test_a_value_is_read_through_another_function():
    reads = []

    def counting(read):
        return lambda tensor: reads.append(tensor) or read(tensor)

    tensor = tf.constant(2.0)
    with reading_through(counting):
        assert (float(tensor), tensor.numpy(), bool(tensor)) == (2.0, 2.0, True)
    assert len(reads) == 3
    assert tensor.numpy() == 2.0
    assert len(reads) == 3
