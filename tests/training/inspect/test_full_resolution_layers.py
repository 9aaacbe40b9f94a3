from __future__ import annotations

import keras
import pytest
from keras import layers as kl

from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.full_resolution_layers import find_full_resolution_layers


def found(*made, given=(None, 64, 64, 3)):
    """What is found in a chain of layers, each at a line of its own."""
    layers = LayerRegistry()
    for line, layer in enumerate(made, 1):
        layers.note_creation(layer, f"train.py:{line}")
    keras.Sequential([keras.Input(given[1:]), *made])
    return [
        (each.at, each.position_counts, each.reduced_by, each.reduction_factor)
        for each in find_full_resolution_layers(layers)
    ]


def conv(**options):
    return kl.Conv2D(8, 3, **{"padding": "same", **options})


def test_convolutions_before_the_maps_are_halved():
    assert found(conv(), conv(), kl.MaxPooling2D(), conv()) == [
        ("train.py:1", (64, 64), "strides", 4),
        ("train.py:2", (64, 64), "strides", 4),
    ]


def test_one_without_padding_loses_no_size_worth_naming():
    pair = found(conv(padding="valid"), conv(padding="valid"), kl.MaxPooling2D(), conv())
    assert [size for _, size, *_ in pair] == [(64, 64), (62, 62)]


def test_one_that_halves_the_maps_itself_leaves_none():
    assert found(conv(strides=2), conv()) == []


def on_one_line(*made):
    layers = LayerRegistry()
    for layer in made:
        layers.note_creation(layer, "train.py:1")
    keras.Sequential([keras.Input((64, 64, 3)), *made])
    return [(each.at, each.position_counts) for each in find_full_resolution_layers(layers)]


def test_layers_of_one_line_are_told_once():
    pair = (conv(padding="valid"), conv(padding="valid"))
    assert on_one_line(*pair, kl.MaxPooling2D()) == [("train.py:1", (64, 64))]


def test_a_line_that_makes_coarser_ones_too_tells_nothing():
    assert on_one_line(conv(), kl.MaxPooling2D(), conv()) == []


def test_where_a_picture_is_given_back_its_size_may_be_needed():
    assert found(conv(), kl.MaxPooling2D(), kl.UpSampling2D(), conv()) == []


def test_of_computed_maps_nobody_says_that_they_are_large():
    assert found(conv(), given=(None, 64, 64, 32)) == []


def test_channels_may_come_first():
    layer = conv(data_format="channels_first")
    layers = LayerRegistry()
    layers.note_creation(layer, "train.py:1")
    layer.build((None, 3, 40, 30))
    assert [each.position_counts for each in find_full_resolution_layers(layers)] == [(40, 30)]


def test_a_sound_has_one_axis():
    layer = kl.Conv1D(8, 9)
    assert found(layer, given=(None, 4000, 1)) == [("train.py:1", (4000,), "strides", 2)]


@pytest.mark.parametrize("layer", [conv(), kl.Conv2D(4, 3, padding="same")])
def test_pictures_of_any_size_are_left_alone(layer):
    assert found(layer, given=(None, None, None, 3)) == []


def test_a_layer_that_was_never_built_is_left_alone():
    layers = LayerRegistry()
    layers.note_creation(kept := conv(), "train.py:1")
    assert list(find_full_resolution_layers(layers)) == []
    assert not kept.built


@pytest.mark.parametrize(("layer", "given", "expected"), [
    (kl.LSTM(128), (None, 99, 40), [("train.py:1", (99,), "stacking", 3)]),
    (kl.GRU(128), (None, 99, 128), []),  # as wide as what it reads
    (kl.GRU(128), (None, 20, 40), []),  # short
    (kl.GRU(128), (None, None, 40), []),
])  # fmt: skip
def test_a_state_much_wider_than_what_it_reads_in_each_of_many_steps(layer, given, expected):
    assert found(layer, given=given) == expected


def test_words_are_not_stacked():
    assert found(kl.Embedding(50, 16), kl.LSTM(64), given=(None, 100)) == []
