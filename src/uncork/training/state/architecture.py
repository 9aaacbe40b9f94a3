"""What a model is made of, and how it is put together: equal for two models that compute alike.

Shapes of weights do not tell one activation from another, nor a layer without weights from none.
What was proved of a model, in another precision say, was proved with the layers that it had.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

import keras
import numpy as np

from uncork.compat.hook_targets import is_keras_layer_class
from uncork.compat.keras3.functional import Functional, calls_of, history_of, nodes_of
from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import compile_config, compile_loss
from uncork.core.base.record import digest

# Of a layer's settings: what says nothing of what it computes, or is compared by itself.
_ELSEWHERE: Final = frozenset({
    "name", "dtype", "trainable", "seed", "build_config", "registered_name", "module",
})  # fmt: skip
# Words of a vocabulary, say: their number is enough.
_LONGEST: Final = 100
# Of each model, what it was known by and the digest. Not on the model, where Keras would save it.
_KNOWN: Final[WeakKeyDictionary[Any, tuple[Any, set[int], str]]] = WeakKeyDictionary()


def architecture_digest(model: Any) -> str:
    """Digest of the layers of a model, their settings and their connections.

    Names play no part, as Keras counts them; trained values do not, nor where seeds begin.

    Args:
        model: Built or not.

    Example:
        >>> def model(activation):
        ...     hidden = keras.layers.Dense(4, activation=activation)
        ...     return keras.Sequential([keras.Input((2,)), hidden, keras.layers.Dense(1)])
        >>> architecture_digest(model("relu")) == architecture_digest(model("relu"))
        True
        >>> architecture_digest(model("relu")) == architecture_digest(model("exponential"))
        False
    """
    made = id(compile_config(model)), id(compile_loss(model))
    layers = set(map(id, model.layers))
    known = _KNOWN.get(model)
    # While it is built a model may make more of them: it is the same one.
    if known is None or known[0] != made or not known[1] <= layers:
        known = _KNOWN[model] = made, layers, _digest(model)
    return known[2]


def _digest(model: Any) -> str:
    layers = list(_layers(model))
    names = {layer.name: "input" for layer in flatten_layers(model)}
    names |= {layer.name: f"#{place}" for place, layer in enumerate(layers)}
    graphs = [layer for layer in layers if isinstance(layer, Functional)]
    wires = [wire for graph in graphs for wire in _wires(graph, names)]
    return digest(*(_said(layer, names) for layer in layers), *wires)


def _layers(layer: Any, *, within_keras_s: bool = False) -> Iterator[Any]:
    """A layer and those in it, as they are before any is built.

    Keras's own layers make others then, which their settings tell of, and a model gets an input.
    Models and layers of the user's in one of Keras's are told by themselves.
    """
    if isinstance(layer, keras.layers.InputLayer):
        return
    is_keras_s = is_keras_layer_class(type(layer))
    if not (within_keras_s and is_keras_s):
        yield layer
    for inner in flatten_layers(layer, include_self=False, recursive=False):
        yield from _layers(inner, within_keras_s=is_keras_s)


def read_settings(item: Any) -> dict[str, Any]:
    """As Keras would write it down; its plain settings where a part of it, a schedule, say, cannot.

    Many schedules and layers of users' own have no ``get_config``, and train as well without.
    """
    try:
        with warnings.catch_warnings():  # that a lambda cannot be saved is none of our business
            warnings.simplefilter("ignore")
            return {} if _holds_table(item) else dict(item.get_config())
    except Exception:
        public = {k: v for k, v in vars(item).items() if not k.startswith("_") and k != "built"}
        return {k: v for k, v in public.items() if isinstance(v, bool | int | float | str)}


def _holds_table(layer: Any) -> bool:
    """Weights that are given as numbers, as of words: Keras would write them down one by one."""
    values: list[Any] = [each.value for each in vars(layer).values() if _is_constant(each)]
    return any(np.size(value) > _LONGEST for value in values)


def _is_constant(value: Any) -> bool:
    return isinstance(value, keras.initializers.Constant)


def remove_addresses(text: str) -> str:
    """The same in the next process, where objects lie elsewhere."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _said(layer: Any, names: dict[str, str]) -> str:
    """Of a model inside it only what it is: its own settings are those of its layers."""
    own = {} if isinstance(layer, keras.Model) else _plain(read_settings(layer), names)
    text = json.dumps(own, sort_keys=True, default=repr)
    return f"{type(layer).__name__} {remove_addresses(text)}"


def _plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        if value.get("class_name") == "__lambda__":
            return "lambda"  # its code is compared by itself, and has the line where it stands
        kept = ((str(k), v) for k, v in value.items() if k not in _ELSEWHERE)
        return {key: _plain(each, names) for key, each in kept}
    if isinstance(value, list | tuple):
        return len(value) if len(value) > _LONGEST else [_plain(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def _wires(graph: Any, names: dict[str, str]) -> Iterator[str]:
    """Which operation reads what, and with which settings of the call, all by their places."""
    nodes = nodes_of(graph)
    places = {id(node): place for place, node in enumerate(nodes)}
    inputs = {id(tensor): f"input {place}" for place, tensor in enumerate(graph.inputs)}

    def made(tensor: Any) -> Any:
        history = history_of(tensor)
        maker = calls_of(history.operation)[history.node_index]
        return inputs.get(id(tensor), (places.get(id(maker)), history.tensor_index))

    yield f"gives {[made(tensor) for tensor in graph.outputs]}"
    for node in nodes:
        read = [made(tensor) for tensor in node.arguments.keras_tensors]
        given = keras.tree.flatten((node.arguments.args, node.arguments.kwargs))
        told = [each for each in given if isinstance(each, bool | int | float | str)]
        operation = node.operation
        is_layer = isinstance(operation, keras.layers.Layer)
        said = names.get(operation.name) if is_layer else _said(operation, names)
        yield f"{said} {read} {told}"
