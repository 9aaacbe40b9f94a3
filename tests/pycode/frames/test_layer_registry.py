from __future__ import annotations

import gc

from uncork.pycode.frames.layer_registry import Layers


class Layer:
    pass


def test_the_innermost_scope_tells():
    layers, outer, inner = Layers(), Layer(), Layer()
    layers.entered(outer, "model_1")
    layers.entered(inner, "model_1/dense_1")
    assert layers.of("model_1/dense_1/MatMul") is inner
    assert layers.of("model_1/Cast") is outer
    assert layers.of("Cast") is None


def test_a_layer_that_is_gone_is_not_kept():
    layers, layer = Layers(), Layer()
    layers.made(layer, "train.py:3")
    layers.entered(layer, "dense")
    assert layers.known() == [layer]
    del layer
    gc.collect()
    assert layers.known() == []
    assert layers.of("dense/MatMul") is None


def test_of_what_was_not_seen_no_line_is_known():
    assert Layers().at(Layer()) is None
    assert Layers().at(None) is None


def test_what_a_class_takes_for_equal_is_not_asked():
    class Strange:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    layers, one, other = Layers(), Strange(), Strange()
    layers.made(one, "train.py:3")
    layers.entered(one, "strange")
    assert layers.at(one) == "train.py:3"
    assert layers.at(other) is None
    assert layers.of("strange/MatMul") is one
