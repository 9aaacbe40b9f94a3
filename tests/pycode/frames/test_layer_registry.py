from __future__ import annotations

import gc

from uncork.pycode.frames.layer_registry import LayerRegistry


class Layer:
    pass


def test_the_innermost_scope_tells():
    layers, outer, inner = LayerRegistry(), Layer(), Layer()
    layers.note_call(outer, "model_1")
    layers.note_call(inner, "model_1/dense_1")
    assert layers.layer_of_op("model_1/dense_1/MatMul") is inner
    assert layers.layer_of_op("model_1/Cast") is outer
    assert layers.layer_of_op("Cast") is None


def test_a_layer_that_is_gone_is_not_kept():
    layers, layer = LayerRegistry(), Layer()
    layers.note_creation(layer, "train.py:3")
    layers.note_call(layer, "dense")
    assert layers.live_layers() == [layer]
    del layer
    gc.collect()
    assert layers.live_layers() == []
    assert layers.layer_of_op("dense/MatMul") is None


def test_of_what_was_not_seen_no_line_is_known():
    assert LayerRegistry().creation_location(Layer()) is None
    assert LayerRegistry().creation_location(None) is None


def test_what_a_class_takes_for_equal_is_not_asked():
    class Strange:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    layers, one, other = LayerRegistry(), Strange(), Strange()
    layers.note_creation(one, "train.py:3")
    layers.note_call(one, "strange")
    assert layers.creation_location(one) == "train.py:3"
    assert layers.creation_location(other) is None
    assert layers.layer_of_op("strange/MatMul") is one
