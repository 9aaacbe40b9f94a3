"""How a model's step is run: the settings that step edits change, switched on and off again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import compile_metrics, exchange_compile_metrics
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    StepEdit,
    StepsPerExecution,
    has_tf_function,
)
from uncork.training.input.feed import Feed
from uncork.training.input.iterator_reuse import create_reused_iterators
from uncork.training.precision.dtype_policies import set_policy, switch_policy
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.step_transforms import StepTransforms
from uncork.training.transforms.input_layers import is_compiled_separately

# In this order: what was traced belongs to the settings before it.
_FLAGS: Final = ("jit_compile", "steps_per_execution", "train_function", "test_function")


class StepSettings:
    """One way to run a model's training step, with the function compiled for it.

    Entering it sets the model up; leaving it gives back what was there. The traced function is
    kept between entries, so that blocks measured in turn do not compile again.

    Args:
        model: Built and compiled.
        edits: Applied in order on top of the user's own settings.
        is_compiled: Run a model that its user runs eagerly as a ``tf.function``.
        has_metrics: Compute the metrics that were given to ``compile``.

    Attributes:
        reused_iterators: What arrays are read through, where an edit has it kept.

    Raises:
        EditRefused: An edit does not apply to this model.
    """

    def __init__(
        self,
        model: Any,
        edits: tuple[StepEdit, ...] = (),
        *,
        is_compiled: bool = False,
        has_metrics: bool = True,
    ) -> None:
        self.model = model
        self.edits = edits
        self._compiled = is_compiled
        self._metrics = has_metrics
        self._train_function: Any = None
        self._test_function: Any = None
        check_edits(model, edits)
        self._transforms = StepTransforms.create(
            model, edits, _refuse_maps, has_constant_arrays=True
        )
        self.reused_iterators = create_reused_iterators(edits)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the model this way inside the block."""
        model = self.model
        self._transforms.load_device_data()
        flags = {name: getattr(model, name) for name in _FLAGS}
        policies = [(layer, layer.dtype_policy) for layer in self._layers()]
        eagerly = model.run_eagerly
        metrics = compile_metrics(model)
        model.test_function = self._test_function
        try:
            if not self._metrics:
                exchange_compile_metrics(model, None)
            apply_step_edits(model, self.edits)
            if self._compiled or has_tf_function(self.edits):
                model.run_eagerly = False
            model.train_function = self._train_function
            with self._transforms.patch_model():
                model.make_train_function()
            self._train_function = model.train_function
            if self._transforms.loss_scaler is not None:
                self._transforms.loss_scaler.reset()
            with self._transforms.patch_optimizer(), self._reusing():
                yield
        finally:
            self._test_function = model.test_function
            for layer, policy in policies:
                set_policy(layer, policy)
            if not self._metrics:
                exchange_compile_metrics(model, metrics)
            model.run_eagerly = eagerly
            for name, value in flags.items():
                setattr(model, name, value)

    def training_feed(self, feed: Feed) -> Feed:
        """The feed of a training with these settings, instead of the user's data."""
        return self._transforms.training_feed(feed)

    def validation_feed(self, feed: Feed) -> Feed:
        """The validation feed with these settings."""
        return self._transforms.validation_feed(feed)

    def release_memory(self) -> None:
        """Give memory back that only this way of running the step needs; it is taken again."""
        self._transforms.release_memory()

    def batch_pairs(self, feed: Feed) -> Any | None:
        """Pairs of batches, as this step is to be given them and as the user's own is.

        Returns:
            None where both are the same.

        Raises:
            EditRefused: As :meth:`training_feed`.
        """
        return self._transforms.batch_pairs(feed)

    def _reusing(self) -> AbstractContextManager[None]:
        return self.reused_iterators.active() if self.reused_iterators else nullcontext()

    def _layers(self) -> list[Any]:
        touched = any(isinstance(edit, DtypePolicy) for edit in self.edits)
        return flatten_layers(self.model) if touched else []


def apply_step_edits(model: Any, edits: tuple[StepEdit, ...]) -> None:
    """Set a model up as the edits say, for good. The next step compiles anew.

    These are the edits that a setting of Keras carries out;
    :class:`~uncork.training.run.step_transforms.StepTransforms` carries out the others.
    """
    for edit in edits:
        if isinstance(edit, StepsPerExecution):
            model.steps_per_execution = edit.steps
        elif isinstance(edit, JitCompile):
            if not is_compiled_separately(model, edits):
                model.jit_compile = True
        elif isinstance(edit, JitCompileOff):
            model.jit_compile = False
        elif isinstance(edit, DtypePolicy):
            switch_policy(model, edit)
    if edits:
        model.train_function = None


def _refuse_maps(why: str) -> None:
    raise EditRefused(why, "a tf.map_fn that can be vectorized", "keep the tf.map_fn unchanged")
