"""Checks whether step edits fit a model, and refuses those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from uncork.compat.keras3.layers import flatten_layers
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    LargerBatch,
    MicroBatches,
    RecomputeActivations,
    RowUpdates,
    StepEdit,
    StepsPerExecution,
    TfFunction,
    VectorizedMapFn,
)
from uncork.pycode.purity.guards import UnguardedError
from uncork.training.memory.micro_batches import create_micro_batched_step
from uncork.training.memory.recompute import create_recomputed_step
from uncork.training.optimizer.flat_updates import flat_update_refusal
from uncork.training.optimizer.fused_updates import fused_update_refusal
from uncork.training.optimizer.learning_rate import larger_batch_refusal
from uncork.training.optimizer.row_updates import row_update_refusal
from uncork.training.precision.dtype_policies import MIXED_POLICIES, dtype_policies
from uncork.training.precision.float32_layers import (
    precision_sensitive_layer_names,
    random_layer_names,
)
from uncork.training.precision.loss_scaling import loss_scaling_refusal, needs_loss_scaling
from uncork.training.tracing.xla_support import xla_refusal
from uncork.training.transforms.device_maps import create_map_in_step
from uncork.training.transforms.eager_model import create_guards
from uncork.training.transforms.input_layers import LayersInPipeline, create_layers_in_pipeline
from uncork.training.transforms.pad_lengths import create_padded_feed

# What Keras itself puts on a model.
_OF_KERAS: Final = frozenset({"train_function", "test_function", "predict_function"})


def check_edits(model: Any, edits: tuple[StepEdit, ...]) -> None:
    """Refuse edits whose preconditions this model does not meet.

    Raises:
        EditRefused: With what was found and what was expected.
    """
    graph = next((edit for edit in edits if isinstance(edit, TfFunction)), None)
    if graph is not None:
        _check_eager(model, graph.code_digest)
        if any(isinstance(edit, StepsPerExecution) for edit in edits):
            raise EditRefused(
                "the model runs eagerly, and its validation stays eager",
                "a compiled model",
                "compile the model without run_eagerly=True",
            )
    elif edits and model.run_eagerly:
        raise EditRefused(
            "the model runs eagerly (run_eagerly=True)",
            "a compiled step",
            "compile the model without run_eagerly=True",
        )
    first = create_layers_in_pipeline(model, edits)
    create_map_in_step(model, edits)
    create_padded_feed(model, edits)
    if any(isinstance(edit, MicroBatches | RecomputeActivations) for edit in edits):
        _check_built(model)
        create_micro_batched_step(model, edits)
        create_recomputed_step(model, edits)
    for edit in edits:
        for check in _CHECKS.get(type(edit), ()):
            check(model, edit, first)
    if needs_loss_scaling(edits):
        _check_built(model)
        reason = loss_scaling_refusal(model, edits)
        if reason is not None:
            raise EditRefused(
                reason, "a loss that Keras can scale for float16", "keep the precision unchanged"
            )


def _check_eager(model: Any, code: str) -> None:
    if not model.run_eagerly:
        raise EditRefused(
            "the model does not run eagerly", "run_eagerly=True", "keep the model compiled"
        )
    try:
        found = create_guards(model).code_digest
    except UnguardedError as reason:
        raise EditRefused(
            str(reason), "Python code that Uncork can observe", "run 'uncork tune' again"
        ) from None
    if found != code:
        raise EditRefused(
            "the Python code of the model's step has changed",
            "the code for which the plan was made",
            "run 'uncork tune' again to make a plan for this code",
        )


def _check_steps_per_execution(model: Any, _edit: StepsPerExecution, _first: object) -> None:
    if model.steps_per_execution != 1:
        raise EditRefused(
            f"steps_per_execution is already {model.steps_per_execution}",
            "1",
            "keep this value",
        )


def _check_xla(model: Any, _edit: JitCompile, first: LayersInPipeline | None) -> None:
    reason = xla_refusal(model, first.layers if first else ())
    if reason is not None:
        raise EditRefused(
            reason, "layers whose supports_jit is true", "move these layers into the input pipeline"
        )


def _check_xla_off(model: Any, _edit: JitCompileOff, _first: object) -> None:
    if not model.jit_compile:
        raise EditRefused(
            "the model runs without XLA", "jit_compile=True", "run 'uncork tune' again"
        )


def _check_no_function_inside(model: Any, _edit: StepEdit, _first: object) -> None:
    """Refuse layers that keep their own traces: later callers would get them, too."""
    compiled = tf.types.experimental.GenericFunction
    for layer in flatten_layers(model):
        for held in (layer, *type(layer).__mro__):
            for name, value in vars(held).items():
                if isinstance(value, compiled) and name not in _OF_KERAS:
                    raise EditRefused(
                        f"'{name}' of '{layer.name}' is a tf.function, which keeps its own traces",
                        "layers that TensorFlow traces together with the step",
                        "remove @tf.function from functions that the model calls: fit "
                        "compiles them",
                    )


def _check_flat_updates(model: Any, _edit: FlatUpdates, _first: object) -> None:
    reason = flat_update_refusal(model.optimizer)
    if reason is not None:
        raise EditRefused(
            reason,
            "an optimizer that updates each element independently",
            "run 'uncork tune' again with this optimizer",
        )
    _check_built(model)


def _check_built(model: Any) -> None:
    if not model.built:
        raise EditRefused(
            "the model has no weights yet when fit is called",
            "a built model",
            "start the model with keras.Input, or call model.build(input_shape)",
        )


def _check_policy(model: Any, edit: DtypePolicy, _first: object) -> None:
    others = sorted({policy for policy in dtype_policies(model) if policy != "float32"})
    found = f"layers with dtype policy {', '.join(others or ('float32',))}"
    if edit.policy == "float32":
        if not others or any(policy not in MIXED_POLICIES for policy in others):
            raise EditRefused(found, f"{' or '.join(MIXED_POLICIES)}", "keep these dtype policies")
    elif others:
        raise EditRefused(found, "float32 in all layers", "keep these dtype policies")


def _check_float32_layers(model: Any, edit: DtypePolicy, _first: object) -> None:
    missing = set(edit.float32_layers) - {layer.name for layer in flatten_layers(model)}
    if edit.is_precision_conservative and not model.built and missing:
        raise EditRefused(
            "the model has no weights yet when fit is called, so its output layers are "
            f"unknown, and no layer has the name {', '.join(sorted(missing))}",
            "a built model, or layers with these names",
            "start the model with keras.Input, or call model.build(input_shape)",
        )
    if edit.is_precision_conservative and model.built:
        kept = dict.fromkeys((*random_layer_names(model), *precision_sensitive_layer_names(model)))
        if len(kept) != len(edit.float32_layers):
            raise EditRefused(
                f"{len(kept)} layers of the model would stay in float32: random layers, "
                "output layers and normalization layers",
                f"{len(edit.float32_layers)} such layers, as when the plan was made",
                "run 'uncork tune' again to make a plan for this model",
            )
        return
    if missing and len(random_layer_names(model)) != len(edit.float32_layers):
        raise EditRefused(
            f"the model has no layer with the name {', '.join(sorted(missing))}",
            "the layers that the plan keeps in float32",
            "run 'uncork tune' again to make a plan for this model",
        )


def _check_optimizer(
    refusal: Callable[[Any], str | None], expected: str
) -> Callable[[Any, StepEdit, object], None]:
    """A check for edits that only some optimizers take."""

    def check(model: Any, _edit: StepEdit, _first: object) -> None:
        reason = refusal(model)
        if reason is not None:
            raise EditRefused(reason, expected, "run 'uncork tune' again")

    return check


# The checks of each edit, in order: called with the model, the edit, and the layers that the input
# pipeline runs.
_CHECKS: Final[dict[type[Any], tuple[Callable[..., None], ...]]] = {
    StepsPerExecution: (_check_steps_per_execution,),
    JitCompile: (_check_xla,),
    JitCompileOff: (_check_xla_off,),
    FlatUpdates: (_check_flat_updates,),
    VectorizedMapFn: (_check_no_function_inside,),
    DtypePolicy: (_check_no_function_inside, _check_policy, _check_float32_layers),
    FusedUpdates: (
        _check_optimizer(
            lambda model: fused_update_refusal(model.optimizer),
            "an optimizer for which TensorFlow has an update kernel",
        ),
    ),
    RowUpdates: (
        _check_optimizer(
            row_update_refusal,
            "Adagrad or plain SGD, and trainable Embedding tables without a regularizer or "
            "constraint",
        ),
    ),
    LargerBatch: (
        _check_optimizer(larger_batch_refusal, "an optimizer that updates weights at each step"),
    ),
}
