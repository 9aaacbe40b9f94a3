from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf import pfor


def convert(op):
    (tensor,) = pfor.create_like(op, [op.stacked_input(0), *map(op.unstacked_input, range(1, 1))])
    return [pfor.wrap_tensor(tensor, True)]


def test_a_converter_is_used_as_long_as_it_is_registered():
    lengths = tf.function(
        lambda s: tf.vectorized_map(tf.strings.length, s, fallback_to_while_loop=False)
    )
    assert "MatMul" in pfor.converters
    assert "StringLength" not in pfor.converters
    pfor.converters["StringLength"] = convert
    try:
        assert lengths(tf.constant(["a", "bcd"])).numpy().tolist() == [1, 3]
    finally:
        del pfor.converters["StringLength"]


def test_what_a_converter_raises_is_an_exception():
    assert issubclass(pfor.ConversionNotImplementedError, Exception)
