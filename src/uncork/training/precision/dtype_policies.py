"""What a built model's layers compute in: switched, and switched back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from uncork.core.edits.step import DtypePolicy
from uncork.training.precision.float32_layers import only_drawing, sensitive

# Under these the weights are float32, so a model that is built needs no other ones.
MIXED = ("mixed_bfloat16", "mixed_float16")
_SWITCHABLE = ("float32", *MIXED)


def dtype_policies(model: Any) -> tuple[str, ...]:
    """Names of the dtype policies in use, in order of first appearance."""
    return tuple(dict.fromkeys(layer.dtype_policy.name for layer in model._flatten_layers()))


@contextmanager
def computing_in_float32(model: Any) -> Iterator[None]:
    """Without mixed precision inside the block; what is traced there stays without it.

    Args:
        model: Built.
    """
    written = [(layer, layer.dtype_policy) for layer in model._flatten_layers()]
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
    kept = left_alone(model, edit.keep, careful=edit.careful)
    for layer in model._flatten_layers():
        if id(layer) not in kept and switched(layer, edit.policy):
            set_policy(layer, edit.policy)


def left_alone(model: Any, keep: tuple[str, ...], *, careful: bool = False) -> set[int]:
    """Which layers stay as they are, by ``id``.

    Args:
        model: Or a layer.
        keep: Their names, as Keras counted them. In a second model of a script they have others:
            where one of these is not found, all that only draw are meant, too.
        careful: Names do not count: all that only draw are meant, and all that are sensitive. Which
            these are shows only of a model that is built; of any other one names do count.
    """
    if careful and model.built:
        return set(map(id, (*only_drawing(model), *sensitive(model))))
    layers = [layer for layer in model._flatten_layers() if layer.name in keep]
    missing = set(keep) - {layer.name for layer in layers}
    return set(map(id, [*layers, *(only_drawing(model) if missing else ())]))


def switched(layer: Any, policy: str) -> bool:
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
