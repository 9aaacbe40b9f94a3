"""Keras's layers in another dtype policy while a step of a user's own is traced.

A graph keeps the dtypes that its layers had when it was traced. So a loop's step can compute in
another precision while its layers, for whoever calls, saves or clones them elsewhere, stay as their
author made them. Weights are float32 under either policy, so none has to be converted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from uncork.compat.keras3.backend import get_keras_mask, set_keras_mask
from uncork.compat.keras3.layers import flatten_layers
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.precision.dtype_policies import (
    MIXED_POLICIES,
    dtype_policies,
    is_switched,
    set_policy,
    unchanged_layer_ids,
)
from uncork.training.precision.float32_layers import (
    precision_sensitive_layer_names,
    random_layer_names,
)
from uncork.training.tracing.scoped_override import wrap_traced
from uncork.training.tracing.step_info import find_op_types

# Calls of functions that are traced, and kept, by themselves.
_OTHER_FUNCTIONS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def wrap_with_policy(
    policy: str,
    python: Callable[..., Any],
    float32_layers: tuple[str, ...] = (),
    *,
    is_precision_conservative: bool = False,
) -> Callable[..., Any]:
    """A Python function whose layers compute in another policy whenever it is traced.

    Args:
        policy: A name, as Keras knows it; ``""`` for the layers' own.
        python: What a ``tf.function`` is made of. TensorFlow converts its branches as before.
        float32_layers: Names of layers that stay as they are.
        is_precision_conservative: Names do not count: all that only draw stay so, and all that are
            sensitive.

    Example:
        >>> dense = keras.layers.Dense(1)
        >>> dense.build((None, 2))
        >>> low = tf.function(wrap_with_policy("mixed_bfloat16", lambda x: dense(x)))
        >>> ops = low.get_concrete_function(tf.ones((3, 2))).graph.get_operations()
        >>> any(op.type == "MatMul" and op.outputs[0].dtype == tf.bfloat16 for op in ops)
        True
        >>> low(tf.ones((3, 2))).dtype, dense.compute_dtype
        (tf.float32, 'float32')
    """
    if not policy:
        return python

    return wrap_traced(
        python, lambda: _computing_in(policy, float32_layers, careful=is_precision_conservative)
    )


def layer_name_fields(layers: LayerRegistry | None) -> dict[str, tuple[str, ...]]:
    """What a loop's workload says of the layers that were called in graphs of the script's.

    Names of the dtype policies of all of them; of the layers that only draw; and of those that a
    low precision harms first.
    """
    called = [layer for layer, _ in layers.outermost_calls()] if layers is not None else []
    asked = {
        "layer_dtype_policies": dtype_policies,
        "random_layers": random_layer_names,
        "precision_sensitive_layers": precision_sensitive_layer_names,
    }
    return {
        field: tuple(dict.fromkeys(name for layer in called for name in ask(layer)))
        for field, ask in asked.items()
    }


def retrace_refusal(original: Any) -> str:
    """Why a step must not be traced in a modified form; ``""`` if it may.

    Args:
        original: A concrete function, traced so.
    """
    if find_op_types(original) & _OTHER_FUNCTIONS:
        return "the step calls another tf.function, which other code may call as well"
    return ""


def precision_refusal(original: Any, alternative: Any) -> str:
    """Why a step must not run in another precision, as part of a sentence; ``""`` if it may.

    Args:
        original: A concrete function, traced as its author wrote it.
        alternative: The same in another policy.
    """
    calls = retrace_refusal(original)
    if calls:
        return calls
    before, after = (
        [getattr(leaf, "dtype", None) for leaf in tf.nest.flatten(traced.structured_outputs)]
        for traced in (original, alternative)
    )
    if before != after:
        return "the dtype of the step's result would change"
    return ""


@contextmanager
def _computing_in(policy: str, keep: tuple[str, ...], *, careful: bool) -> Iterator[None]:
    """Each layer that is called from outside of any other, with all that it holds."""
    call = keras.layers.Layer.__call__
    own: dict[int, tuple[Any, Any]] = {}
    inside = False

    @functools.wraps(call)
    def called(layer: Any, /, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return call(layer, *args, **kwargs)
        with tf.init_scope():  # a layer may keep numbers of its own, and keeps them longer
            kept = unchanged_layer_ids(layer, keep, is_precision_conservative=careful)
            for each in flatten_layers(layer):
                if id(each) not in own and id(each) not in kept and is_switched(each, policy):
                    own[id(each)] = (each, each.dtype_policy)
                    set_policy(each, policy)
        inside = True
        try:
            found = call(layer, *args, **kwargs)
        finally:
            inside = False
        return tf.nest.map_structure(_in_full, found) if policy in MIXED_POLICIES else found

    keras.layers.Layer.__call__ = called
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = call
        with tf.init_scope():
            for layer, written in own.values():
                set_policy(layer, written)


def _in_full(leaf: Any) -> Any:
    """As the code around the layers, which is the user's own, was written for."""
    if not tf.is_tensor(leaf) or leaf.dtype not in (tf.bfloat16, tf.float16):
        return leaf
    full, mask = tf.cast(leaf, tf.float32), get_keras_mask(leaf)
    if mask is not None:  # which Keras keeps on the tensor: the next layer, or a loss, asks for it
        set_keras_mask(full, mask)
    return full
