"""What ``compile`` leaves on a model, and the parts of ``fit`` that build and compute losses.

Borrowed: fields of ``Trainer`` and ``CompileLoss``, ``CompileMetrics``, ``MeanMetricWrapper``;
    ``Model._compute_loss``, ``Model._symbolic_build``.
Why: the public API neither returns the losses and metrics that ``compile`` was given, nor says
    whether there is a strategy, nor builds metrics without running them.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.compat.hook_targets import KERAS_TF_TRAINER, KERAS_TRAINER

_LOSS: Final = "_compile_loss"
_METRICS: Final = "_compile_metrics"
_Trainer: Final[Any] = borrow(KERAS_TRAINER, "Trainer")
_TFTrainer: Final[Any] = borrow(KERAS_TF_TRAINER, "TensorFlowTrainer")
_MeanMetricWrapper: Final[Any] = borrow("keras.src.metrics.reduction_metrics", "MeanMetricWrapper")


def compile_config(model: Any) -> Any | None:
    """An object that each ``compile`` creates again; None before the first one."""
    return vars(model).get("_compile_config")


def compile_loss(model: Any) -> Any | None:
    """The ``CompileLoss`` of a model; None where it was given no loss, and of a plain layer."""
    return borrow_attribute(model, _LOSS) if isinstance(model, _Trainer) else None


def compile_metrics(model: Any) -> Any | None:
    """The ``CompileMetrics`` of a model; None where it was given none, and of a plain layer."""
    return borrow_attribute(model, _METRICS) if isinstance(model, _Trainer) else None


def exchange_compile_metrics(model: Any, metrics: Any | None) -> Any | None:
    """Put another ``CompileMetrics`` in place, or none, which Keras then counts as no layer.

    Returns:
        What was there.
    """
    before = compile_metrics(model)
    vars(model)[_METRICS] = metrics
    return before


def given_loss(model: Any) -> Any | None:
    """The argument ``loss`` of ``compile``.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(loss="mse", metrics=["mae"])
        >>> given_loss(model), given_metrics(model), given_weighted_metrics(model)
        ('mse', ['mae'], None)
    """
    return _given(compile_loss(model), "_user_loss")


def given_metrics(model: Any) -> Any | None:
    """The argument ``metrics`` of ``compile``."""
    return _given(compile_metrics(model), "_user_metrics")


def given_weighted_metrics(model: Any) -> Any | None:
    """The argument ``weighted_metrics`` of ``compile``."""
    return _given(compile_metrics(model), "_user_weighted_metrics")


def _given(compiled: Any | None, name: str) -> Any | None:
    return None if compiled is None else borrow_attribute(compiled, name)


def losses_of(model: Any) -> list[Any]:
    """The losses of all outputs, which ``compile`` was given; none before the first step."""
    compiled = compile_loss(model)
    losses = None if compiled is None else borrow_attribute(compiled, "_flat_losses")
    return [each.loss for each in losses or ()]


def loss_arguments(loss: Any) -> dict[str, Any]:
    """Arguments that a loss hands to the function that it wraps; none where it wraps none."""
    return getattr(loss, "_fn_kwargs", None) or {}


def metric_function(metric: Any) -> Any:
    """The function that a metric averages; for any other metric its class.

    Example:
        >>> import keras
        >>> metric_function(keras.metrics.MeanSquaredError()).__name__
        'mean_squared_error'
    """
    is_mean = isinstance(metric, _MeanMetricWrapper)
    return borrow_attribute(metric, "_fn") if is_mean else type(metric)


def loss_tracker(model: Any) -> Any:
    """The metric in which a compiled model averages its loss."""
    return borrow_attribute(model, "_loss_tracker")


def compute_loss(model: Any, **batch: Any) -> Any:
    """The loss of a batch, by ``compute_loss`` in whichever form the model has it."""
    return borrow_attribute(model, "_compute_loss")(**batch)


def build_symbolically(model: Any, batch: Any) -> None:
    """Build a model, its losses and metrics from the shapes of a batch; no weight changes."""
    borrow_attribute(model, "_symbolic_build")(data_batch=batch)


def jit_compile_setting(model: Any) -> bool | None:
    """The setting ``jit_compile`` as it is; None where Keras has not decided yet."""
    setting: bool | None = borrow_attribute(model, "_jit_compile")
    return setting


def set_jit_compile_setting(model: Any, setting: bool | None) -> None:
    """Set ``jit_compile``, also where Keras would warn and leave it off."""
    borrow_attribute(model, "_jit_compile")
    model._jit_compile = setting


def strategy_of(model: Any) -> Any | None:
    """The ``tf.distribute`` strategy that a model was created under; None without one.

    Args:
        model: Or anything else, which has none.

    Example:
        >>> import keras
        >>> strategy_of(keras.Sequential()) is None
        True
    """
    is_on_tensorflow = isinstance(model, _TFTrainer)
    return borrow_attribute(model, "_distribute_strategy") if is_on_tensorflow else None
