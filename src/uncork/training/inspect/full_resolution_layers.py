"""Layers that compute at every position of what a network reads: the price of its architecture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import keras

from uncork.compat.keras3.layers import built_shapes
from uncork.core.evidence.model import FullResolutionLayer
from uncork.pycode.frames.layer_registry import LayerRegistry

_layers: Final[Any] = keras.layers
_CONVOLUTIONS: Final = (
    *(_layers.Conv1D, _layers.Conv2D, _layers.Conv3D),
    *(_layers.SeparableConv1D, _layers.SeparableConv2D),
    *(_layers.DepthwiseConv1D, _layers.DepthwiseConv2D),
)
# A network with one of them gives back a picture, or a sound, and may need all of its positions.
_GIVING_BACK: Final = (
    *(_layers.Conv1DTranspose, _layers.Conv2DTranspose, _layers.Conv3DTranspose),
    *(_layers.UpSampling1D, _layers.UpSampling2D, _layers.UpSampling3D),
)
# Channels of what is measured, not computed: grey, colours, and one more.
_MOST_CHANNELS: Final = 4
# Of the positions along an axis: what convolutions without padding leave is still the full size.
_STILL_FULL: Final = 0.75
# Steps of a sequence, and by how much wider a state must be than what it reads of it in each, so
# that as many of them read together cost no more.
_LONG: Final = 64
_WIDER: Final = 2


def find_full_resolution_layers(layers: LayerRegistry) -> Iterator[FullResolutionLayer]:
    """Convolutions and recurrent layers before which nothing has made the input coarser.

    Each line once. Kernels are told by line, so of one that makes coarser layers as well, in a loop
    over the depth of a network, nobody knows what its full-sized ones take: it is left out.

    Args:
        layers: Of the script.
    """
    known = layers.live_layers()
    found: dict[int, FullResolutionLayer] = {}
    for layer, size in _convolutions(known):
        found[id(layer)] = _told(layer, layers, size, "strides", 2 ** len(size))
    for layer, steps, together in _recurrent(known):
        found[id(layer)] = _told(layer, layers, (steps,), "stacking", together)
    others = {_place(layer, layers) for layer in known if id(layer) not in found}
    lines: dict[tuple[str, str | None], FullResolutionLayer] = {}
    for each in sorted(found.values(), key=lambda each: each.position_counts, reverse=True):
        lines.setdefault((each.layer, each.at), each)
    yield from (each for line, each in lines.items() if line not in others)


def _told(
    layer: Any, layers: LayerRegistry, size: tuple[int, ...], by: Any, fewer: int
) -> FullResolutionLayer:
    name, at = _place(layer, layers)
    return FullResolutionLayer(
        layer=name, at=at, position_counts=size, reduced_by=by, reduction_factor=fewer
    )


def _place(layer: Any, layers: LayerRegistry) -> tuple[str, str | None]:
    """By which kernels know it."""
    return type(layer).__name__, layers.creation_location(layer)


def _convolutions(known: Sequence[Any]) -> Iterator[tuple[Any, tuple[int, ...]]]:
    if any(isinstance(layer, _GIVING_BACK) for layer in known):
        return
    sized = [(layer, *read) for layer in known if (read := _read(layer))]
    first = max(
        (size for layer, size, channels in sized if channels <= _MOST_CHANNELS and _steps(layer)),
        default=None,
    )
    if first is None:
        return
    for layer, size, _ in sized:
        ratios = [n / full for n, full in zip(size, first, strict=False)]
        if len(size) == len(first) and min(ratios) >= _STILL_FULL and _steps(layer):
            yield layer, size


def _read(layer: Any) -> tuple[tuple[int, ...], int] | None:
    """Positions along each axis, and channels, of what a convolution reads."""
    if not isinstance(layer, _CONVOLUTIONS):
        return None
    with suppress(AttributeError, TypeError, ValueError):  # never built, or for any size
        (shape,) = built_shapes(layer).values()
        first = layer.data_format == "channels_first"
        size, channels = (shape[2:], shape[1]) if first else (shape[1:-1], shape[-1])
        return tuple(int(n) for n in size), int(channels)
    return None


def _steps(layer: Any) -> bool:
    """It goes on by one position at a time."""
    return all(step == 1 for step in layer.strides)


def _recurrent(known: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    words = {layer.output_dim for layer in known if isinstance(layer, _layers.Embedding)}
    for layer in known:
        # A layer of the user's own may know neither.
        with suppress(AttributeError, TypeError, ValueError):
            if isinstance(layer, _layers.RNN):
                ((_, steps, features),) = built_shapes(layer).values()
                together = layer.units // features
                if features not in words and steps >= _LONG and together >= _WIDER:
                    yield layer, steps, together
