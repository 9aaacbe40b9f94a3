"""Keras's loss scaling around an optimizer that stays the user's.

In float16 small gradients vanish and large losses overflow, so a loss is multiplied before its
gradients are taken, and these are divided again. Keras wraps the optimizer for that when a model is
compiled under ``mixed_float16``. A model that is compiled already keeps the optimizer it has: only
what is traced of its step scales, skips what is not finite, and hands over to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import DtypePolicy, LargerBatch, StepEdit
from uncork.training.state.snapshot import find_optimizers


def needs_loss_scaling(edits: Sequence[StepEdit]) -> bool:
    """Whether a step with these edits needs loss scaling.

    Example:
        >>> needs_loss_scaling([DtypePolicy(policy="mixed_float16")])
        True
        >>> needs_loss_scaling([DtypePolicy(policy="mixed_bfloat16")])
        False
    """
    return any(isinstance(edit, DtypePolicy) and edit.policy == "mixed_float16" for edit in edits)


def loss_scaling_refusal(model: Any, edits: Sequence[StepEdit]) -> str | None:
    """Why Uncork cannot scale a model's loss; None where it can."""
    optimizer = model.optimizer
    if find_optimizers(model) != [optimizer]:
        return "the model's own train_step uses other optimizers, and does not scale their loss"
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return "the optimizer already scales the loss"
    if optimizer.loss_scale_factor is not None:
        return "the optimizer already scales the loss: loss_scale_factor is set"
    if optimizer.gradient_accumulation_steps:
        return "the optimizer accumulates gradients, and one infinite gradient would spoil the sum"
    if any(isinstance(edit, LargerBatch) for edit in edits):
        return "a larger batch counts the optimizer's steps, and loss scaling skips some of them"
    return None


class LossScaler:
    """Lets a model's step scale its loss while it is traced, and its optimizer be called as ever.

    The scale goes on from one call of ``fit`` to the next. It is nothing to save: whoever saves the
    optimizer meanwhile finds it as its user made it.

    Args:
        model: Compiled.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._optimizer = model.optimizer
        factor = self._optimizer.loss_scale_factor
        self._scaling = keras.optimizers.LossScaleOptimizer(self._optimizer)
        self._optimizer.loss_scale_factor = factor  # which it takes off
        self._is_scaled = False

    def reset(self) -> None:
        """Begin at the first scale again."""
        if self._scaling.built:
            self._scaling.dynamic_scale.assign(self._scaling.initial_scale)
            self._scaling.step_counter.assign(0)

    @contextmanager
    def active(self) -> Iterator[None]:
        """What is traced inside scales its loss."""
        if not self._scaling.built:
            with self._not_built_again():
                self._scaling.build(self._model.trainable_variables)
        with self._instead(scale_loss=self._scale_loss, apply=self._apply):
            yield

    def _scale_loss(self, loss: Any) -> Any:
        self._is_scaled = True
        return self._scaling.scale_loss(loss)

    def _apply(self, grads: Any, trainable_variables: Any = None) -> None:
        if not self._is_scaled:
            raise EditRefused(
                "the model's own train_step does not scale its loss, and small gradients "
                "would become zero in float16",
                "a train_step that calls optimizer.scale_loss(loss) before it computes gradients",
                "call optimizer.scale_loss(loss) in train_step; in float32 it returns the "
                "loss unchanged",
            )
        self._is_scaled = False
        with self._as_ever():
            self._scaling.apply(grads, trainable_variables)

    @contextmanager
    def _not_built_again(self) -> Iterator[None]:
        """Keras's wrapper asks it to; one of the user's own need not know that it has been."""
        if not self._optimizer.built:
            yield
            return
        with self._instead(build=lambda *_: None):
            yield

    @contextmanager
    def _instead(self, **methods: Any) -> Iterator[None]:
        """Past Keras's tracking: no attribute is there to be saved."""
        found = {name: vars(self._optimizer).get(name) for name in methods}
        for name, method in methods.items():
            object.__setattr__(self._optimizer, name, method)
        try:
            yield
        finally:
            for name, before in found.items():
                if before is None:
                    object.__delattr__(self._optimizer, name)
                else:
                    object.__setattr__(self._optimizer, name, before)

    @contextmanager
    def _as_ever(self) -> Iterator[None]:
        """The optimizer's own ``apply``, for the wrapper that hands over to it."""
        ours = vars(self._optimizer).pop("apply")
        try:
            yield
        finally:
            object.__setattr__(self._optimizer, "apply", ours)
