"""What a built model's layers compute in: switched, and switched back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from uncork.compat.keras3.layers import flatten_layers
from uncork.core.edits.step import DtypePolicy
from uncork.training.precision.float32_layers import (
    find_precision_sensitive_layers,
    find_random_layers,
)

# Under these the weights are float32, so a model that is built needs no other ones.
MIXED_POLICIES = ("mixed_bfloat16", "mixed_float16")
_SWITCHABLE = ("float32", *MIXED_POLICIES)


def dtype_policies(model: Any) -> tuple[str, ...]:
    """Names of the dtype policies in use, in order of first appearance."""
    return tuple(dict.fromkeys(layer.dtype_policy.name for layer in flatten_layers(model)))


@contextmanager
def compute_in_float32(model: Any) -> Iterator[None]:
    """Without mixed precision inside the block; what is traced there stays without it.

    Args:
        model: Built.
    """
    written = [(layer, layer.dtype_policy) for layer in flatten_layers(model)]
    try:
        switch_policy(model, DtypePolicy(policy="float32"))
        yield
    finally:
        for layer, own in written:
            set_policy(layer, own)


def switch_policy(model: Any, edit: DtypePolicy) -> None:
    """Compute in another dtype on a model that is built already.

    Weights stay float32 under a mixed policy, so nothing has to be converted, and a switched model
    is bit for bit the model that would have been built under the policy. Before Keras 3.10, one
    built under a mixed policy has casts between its layers, which stay.
    """
    kept = unchanged_layer_ids(
        model, edit.float32_layers, is_precision_conservative=edit.is_precision_conservative
    )
    for layer in flatten_layers(model):
        if id(layer) not in kept and is_switched(layer, edit.policy):
            set_policy(layer, edit.policy)


def unchanged_layer_ids(
    model: Any, float32_layers: tuple[str, ...], *, is_precision_conservative: bool = False
) -> set[int]:
    """Which layers stay as they are, by ``id``.

    Args:
        model: Or a layer.
        float32_layers: Their names, as Keras counted them. In a second model of a script they have
            others: where one of these is not found, all that only draw are meant, too.
        is_precision_conservative: Names do not count: all that only draw are meant, and all that
            are sensitive. Which these are shows only of a model that is built; of any other one
            names do count.
    """
    if is_precision_conservative and model.built:
        return set(map(id, (*find_random_layers(model), *find_precision_sensitive_layers(model))))
    layers = [layer for layer in flatten_layers(model) if layer.name in float32_layers]
    missing = set(float32_layers) - {layer.name for layer in layers}
    return set(map(id, [*layers, *(find_random_layers(model) if missing else ())]))


def is_switched(layer: Any, policy: str) -> bool:
    """Whether a layer computes in another dtype where the policy is to be this one.

    One that holds its weights in another dtype, or is quantized, stays as it is.
    """
    own = layer.dtype_policy
    if isinstance(layer, keras.layers.InputLayer) or getattr(own, "quantization_mode", None):
        return False
    return own.name in _SWITCHABLE and own.name != policy


def set_policy(layer: Any, policy: Any) -> None:
    """Let a layer compute in another dtype from now on.

    Args:
        layer: Built or not.
        policy: Or its name.
    """
    layer.dtype_policy = policy
    if isinstance(layer, keras.layers.Normalization) and layer.built:
        layer.finalize_state()  # its cached mean and variance were cast to the old compute dtype
