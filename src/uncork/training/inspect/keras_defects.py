"""Defects of Keras that silently harm a training, where a training encounters them.

Each was reproduced with Keras 3.15; of a later one nothing is known, and nothing said.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.distillation import runs_student_for_features
from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import strategy_of
from uncork.compat.keras3.optimizer import rate_setting
from uncork.core.evidence.correctness import KerasDefect
from uncork.pycode.frames.value_origin import find_only_call

_LAST_KNOWN: Final = (3, 15)
_FLOAT16: Final = "mixed_float16"


def is_known_keras() -> bool:
    """Whether this is a Keras whose defects are known."""
    return tuple(int(part) for part in keras.__version__.split(".")[:2]) <= _LAST_KNOWN


def find_fit_defects(
    model: Any, arguments: Mapping[str, Any], steps: int | None, batch: Any = None
) -> tuple[KerasDefect, ...]:
    """The defects that a ``fit`` call encounters.

    Args:
        model: Built and compiled.
        arguments: Of the call.
        steps: Of an epoch, where that is known.
        batch: One, as the step is given it.

    Example:
        >>> layer = keras.layers.Dense(1, dtype="mixed_float16")
        >>> model = keras.Sequential([keras.Input((2,)), layer])
        >>> model.compile("adam", "mse")
        >>> [defect.name for defect in find_fit_defects(model, {}, 10)]
        ['loss_scaling_lost']
    """
    if not is_known_keras():
        return ()
    epochs = int(arguments.get("epochs") or 1) - int(arguments.get("initial_epoch") or 0)
    found = [check(model) for check in _OF_MODELS]
    found.append(_schedule_ahead(model, steps, int(arguments.get("epochs") or 1)))
    found.append(_left_over(model, steps, epochs))
    found.append(_weights_dropped(model, arguments, batch))
    return (*(defect for defect in found if defect is not None), *find_loss_defects())


def find_loss_defects() -> tuple[KerasDefect, ...]:
    """The defects of loss objects that exist in the process."""
    distillation = getattr(keras, "distillation", None)
    if distillation is None or not is_known_keras():
        return ()
    kind = distillation.LogitsDistillation
    alive = [each for each in gc.get_objects() if type(each) is kind]
    if not any(leaf is keras.losses.kl_divergence for leaf in _losses(alive)):
        return ()
    return (
        KerasDefect(
            name="divergence_of_logits",
            at=find_only_call("LogitsDistillation"),
            evidence=(
                "LogitsDistillation computes the divergence of raw logits. Keras clips "
                "negative logits, and most of the gradient is lost"
            ),
            remedy=(
                "LogitsDistillation(..., loss=keras.losses.KLDivergence()), which applies softmax"
            ),
        ),
    )


def _losses(alive: list[Any]) -> Iterator[Any]:
    for each in alive:
        yield from tf.nest.flatten(each.loss)


def _scaling_lost(model: Any) -> KerasDefect | None:
    optimizer = model.optimizer
    if optimizer is None or model.dtype_policy.name == _FLOAT16 or optimizer.loss_scale_factor:
        return None
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return None
    half = [layer for layer in flatten_layers(model) if layer.dtype_policy.name == _FLOAT16]
    if not half:
        return None
    return KerasDefect(
        name="loss_scaling_lost",
        evidence=(
            f"{len(half)} layers compute in float16, and Keras does not scale the loss. "
            "Keras scales the loss only where the model itself has the policy "
            f"mixed_float16, and this model has {model.dtype_policy.name}. A model that is "
            "loaded under another global policy loses its scaling in this way"
        ),
        remedy="compile with keras.optimizers.LossScaleOptimizer(optimizer), or set the global "
        "policy to mixed_float16 before loading",
    )


def _scaled_on_replicas(model: Any) -> KerasDefect | None:
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    if not (scaled and _replicas(model) > 1):
        return None
    return KerasDefect(
        name="loss_scale_of_one_replica",
        evidence=(
            f"Keras scales the loss on {_replicas(model)} replicas, but checks only the "
            "gradients of the first for infinite values. Infinite gradients of another "
            "replica are applied"
        ),
        remedy="mixed_bfloat16, which needs no loss scaling",
    )


def _clipped_on_replicas(model: Any) -> KerasDefect | None:
    optimizer = _updating(model)
    norm = getattr(optimizer, "clipnorm", None) or getattr(optimizer, "global_clipnorm", None)
    if not (norm and _replicas(model) > 1):
        return None
    return KerasDefect(
        name="clipped_on_each_replica",
        evidence=(
            f"Keras clips gradients to a norm of {norm:g} on each of {_replicas(model)} "
            "replicas and then adds them up. So the norm of the applied gradients is "
            "another one"
        ),
        remedy=(
            "remove clipnorm, and clip in your own train_step after gradients are summed; "
            "divide by the number of replicas, as apply sums again"
        ),
    )


def _schedule_ahead(model: Any, steps: int | None, epochs: int) -> KerasDefect | None:
    optimizer = _updating(model)
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    schedule = rate_setting(optimizer)
    if not every or not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return None
    batches = (steps or 0) * epochs
    if _is_sized_in(batches, batches / every, schedule):
        return None  # its author knows, or never thought of updates: it ends with the training
    return KerasDefect(
        name="schedule_runs_ahead",
        evidence=(
            f"Keras accumulates the gradients of {every} batches, but "
            f"{type(schedule).__name__} counts batches, not updates. So the schedule runs "
            f"{every} times too fast"
        ),
        remedy=f"make the schedule {every} times as long",
    )


def _is_sized_in(batches: int, updates: float, schedule: Any) -> bool:
    """A schedule's own length is nearer to the one number than to the other, as a ratio."""
    length = 0.0
    with suppress(TypeError, ValueError):  # a schedule of the user's has what it likes
        length = _length(schedule)
    if not (length > 0 and batches > 0):
        return False
    return abs(math.log(length / batches)) < abs(math.log(length / updates))


def _length(schedule: Any) -> float:
    """In what it counts; 0 where it has none, as one that decays for ever."""
    schedules = keras.optimizers.schedules
    if isinstance(schedule, schedules.CosineDecay):
        return float(schedule.decay_steps) + float(schedule.warmup_steps or 0)
    if isinstance(schedule, schedules.PolynomialDecay):
        return float(schedule.decay_steps)
    if isinstance(schedule, schedules.PiecewiseConstantDecay):
        return float(list(schedule.boundaries)[-1])
    return 0.0


def _runs_twice(model: Any) -> KerasDefect | None:
    distiller = _distiller(model)
    if distiller is None or not runs_student_for_features(model, distiller):
        return None
    return KerasDefect(
        name="student_runs_twice",
        at=find_only_call("FeatureDistillation"),
        has_double_backward=True,
        evidence=(
            "Distiller runs the student twice in each step, forward and backward: once "
            "for its predictions and once for the features of a layer. So batch "
            "normalization updates its statistics twice"
        ),
        remedy=(
            "a subclass whose call() stores the outputs of the feature extractor, and whose "
            "_extract_all_student_features() returns them"
        ),
    )


def _regularization_dropped(model: Any) -> KerasDefect | None:
    if _distiller(model) is None:
        return None
    held = [v for v in model.student.trainable_variables if v.regularizer is not None]
    if not held:
        return None
    return KerasDefect(
        name="regularization_dropped",
        evidence=f"Distiller ignores the regularizers of {len(held)} weights of the student",
        remedy="add sum(self.student.losses) in your own compute_loss",
    )


def _weights_dropped(model: Any, arguments: Mapping[str, Any], batch: Any) -> KerasDefect | None:
    given = [k for k in ("sample_weight", "class_weight") if arguments.get(k) is not None]
    if isinstance(batch, tuple) and len(batch) > 2 and batch[2] is not None:
        given.append("the sample weights in the data")
    if _distiller(model) is None or not given:
        return None
    return KerasDefect(
        name="sample_weights_dropped",
        evidence=f"Distiller ignores {given[0]}",
        remedy="weight the losses in your own compute_loss",
    )


def _left_over(model: Any, steps: int | None, epochs: int) -> KerasDefect | None:
    every = getattr(_updating(model), "gradient_accumulation_steps", None)
    left = (steps or 0) * epochs % every if every else 0
    if not left:
        return None
    return KerasDefect(
        name="gradients_left_over",
        evidence=(
            f"Keras accumulates the gradients of {every} batches, and this training has "
            f"{steps} x {epochs} steps. Keras does not apply the gradients of the last "
            f"{left} steps, and the next fit starts with them"
        ),
        remedy=f"train for a number of steps that is a multiple of {every}",
    )


def _updating(model: Any) -> Any:
    """The optimizer that updates weights: the one inside, where another scales the loss for it."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def _replicas(model: Any) -> int:
    strategy = strategy_of(model)
    return int(strategy.num_replicas_in_sync) if strategy is not None else 1


def _distiller(model: Any) -> Any | None:
    distillation = getattr(keras, "distillation", None)
    if distillation is None or not isinstance(model, distillation.Distiller):
        return None
    return distillation.Distiller


_OF_MODELS: Final[tuple[Callable[[Any], KerasDefect | None], ...]] = (
    _scaling_lost,
    _scaled_on_replicas,
    _clipped_on_replicas,
    _runs_twice,
    _regularization_dropped,
)
