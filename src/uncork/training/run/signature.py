"""What a plan remembers of a model, to notice when it is another one."""

from __future__ import annotations

import inspect
import json
from typing import Any

import keras

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import compile_loss, given_loss, given_metrics
from uncork.core.base.record import digest
from uncork.core.documents.workload import ModelSignature
from uncork.pycode.purity.reachability import named_code_digest
from uncork.training.precision.dtype_policies import dtype_policies
from uncork.training.state.architecture import architecture_digest, read_settings, remove_addresses


def model_signature(model: Any) -> ModelSignature:
    """Describe a compiled model; trained values play no part, nor weights it does not have yet.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> model_signature(model).parameter_count
        3
    """
    shapes = [f"{tuple(v.shape)} {v.dtype} {v.trainable}" for v in model.weights]
    return ModelSignature(
        name=type(model).__name__,
        parameter_count=int(model.count_params()) if model.built else 0,
        variables_digest=digest(*shapes) if shapes else "",
        optimizer=_optimizer(model.optimizer),
        loss=_loss(model),
        dtype_policies=dtype_policies(model),
        train_step_digest=_own_train_step(model),
        code_digest=_own_code(model),
        architecture_digest=architecture_digest(model),
    )


def _optimizer(optimizer: Any) -> str:
    if optimizer is None:
        return ""
    text = json.dumps(_without_rates(read_settings(optimizer)), sort_keys=True, default=repr)
    return f"{type(optimizer).__name__} {remove_addresses(text)}"


def _without_rates(config: dict[str, Any]) -> dict[str, Any]:
    """Of an optimizer that scales the loss, without those of the one inside, too."""
    return {
        name: _without_rates(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in ("learning_rate", "name")
    }


def _loss(model: Any) -> str:
    return "" if compile_loss(model) is None else _names(given_loss(model))


def _names(loss: Any) -> str:
    """Losses by name, never by address: the text must be equal in the next process."""
    if isinstance(loss, dict):
        return json.dumps({k: _names(v) for k, v in loss.items()}, sort_keys=True)
    if isinstance(loss, list | tuple):
        return json.dumps([_names(v) for v in loss])
    if isinstance(loss, keras.losses.Loss):
        text = json.dumps(read_settings(loss), sort_keys=True, default=str)
        return f"{type(loss).__name__} {remove_addresses(text)}"
    return remove_addresses(str(getattr(loss, "__name__", loss)))


def _own_code(model: Any) -> str:
    """Digest of the layers' classes, and of functions that they, losses and metrics are made of."""
    found: list[Any] = [type(model)]
    for layer in flatten_layers(model):
        held = (value for value in vars(layer).values() if inspect.isfunction(value))
        found += [type(layer), *held]
    for given in (given_loss(model), given_metrics(model)):
        asked = keras.tree.flatten(given)
        found += [each if inspect.isfunction(each) else type(each) for each in asked if each]
    code = named_code_digest(*dict.fromkeys(found))
    return "" if code == named_code_digest() else code


def _own_train_step(model: Any) -> str:
    """Digest of an overridden ``train_step``: source where there is some, else its bytecode."""
    step = type(model).train_step
    if step.__module__.startswith("keras."):
        return ""
    try:
        return digest(inspect.getsource(step))
    except (OSError, TypeError):
        return digest(step.__code__.co_code)
