"""How a model's step is run: the settings that step edits change, switched on and off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import compile_metrics, exchange_compile_metrics
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    JitCompile,
    JitCompileOff,
    ReuseIterator,
    StepEdit,
    StepsPerExecution,
    VectorizedMapFn,
    has_tf_function,
)
from uncork.training.input.feed import Feed
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.memory.micro_batches import create_micro_batched_step
from uncork.training.memory.recompute import create_recomputed_step
from uncork.training.optimizer.flat_updates import FlatGroup
from uncork.training.optimizer.fused_updates import fuse_updates
from uncork.training.optimizer.learning_rate import rescale_learning_rate
from uncork.training.optimizer.row_updates import apply_row_updates
from uncork.training.precision.dtype_policies import set_policy, switch_policy
from uncork.training.precision.loss_scaling import LossScaler, needs_loss_scaling
from uncork.training.run.edit_checks import check_edits
from uncork.training.tracing.map_fn import MapVectorizer
from uncork.training.transforms.device_maps import create_map_in_step
from uncork.training.transforms.input_layers import (
    create_layers_in_pipeline,
    is_compiled_separately,
)
from uncork.training.transforms.pad_lengths import create_padded_feed

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
        self._flat_group = create_flat_group(model, edits)
        self._scaled_loss = create_loss_scaler(model, edits)
        self._maps = create_map_vectorizer(edits, _refuse_maps)
        self._first = create_layers_in_pipeline(model, edits)
        self._last_map = create_map_in_step(model, edits, has_constant_arrays=True)
        self._lengths = create_padded_feed(model, edits)
        self._in_parts = create_micro_batched_step(model, edits)
        self._recomputed = create_recomputed_step(model, edits)
        self.reused_iterators = create_reused_iterators(edits)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the model this way inside the block."""
        model = self.model
        if self._last_map is not None:
            self._last_map.load_device_data()
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
            with self._tracing():
                model.make_train_function()
            self._train_function = model.train_function
            if self._scaled_loss is not None:
                self._scaled_loss.reset()
            with self._updating(), self._reusing():
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
        for each in (self._first, self._last_map, self._lengths):
            feed = each.training_feed(feed) if each else feed
        return feed

    def validation_feed(self, feed: Feed) -> Feed:
        """The validation feed with these settings."""
        return self._lengths.validation_feed(feed) if self._lengths else feed

    def release_memory(self) -> None:
        """Give memory back that only this way of running the step needs; it is taken again."""
        if self._last_map is not None:
            self._last_map.release_memory()

    def batch_pairs(self, feed: Feed) -> Any | None:
        """Pairs of batches, as this step is to be given them and as the user's own is.

        Returns:
            None where both are the same.

        Raises:
            EditRefused: As :meth:`training_feed`.
        """
        other = self._last_map or self._lengths
        return other.batch_pairs(feed) if other else None

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._maps is not None:
                stack.enter_context(self._maps.patch_model(self.model))
            # In this order: what the last map of the input makes in the step is cut in parts.
            for each in (self._first, self._last_map, self._in_parts, self._recomputed):
                if each is not None:
                    stack.enter_context(each.patch_model())
            yield

    def _updating(self) -> AbstractContextManager[None]:
        return apply_update_edits(self.model, self.edits, self._flat_group, self._scaled_loss)

    def _reusing(self) -> AbstractContextManager[None]:
        return self.reused_iterators.active() if self.reused_iterators else nullcontext()

    def _layers(self) -> list[Any]:
        touched = any(isinstance(edit, DtypePolicy) for edit in self.edits)
        return flatten_layers(self.model) if touched else []


def apply_step_edits(model: Any, edits: tuple[StepEdit, ...]) -> None:
    """Set a model up as the edits say, for good. The next step compiles anew.

    What is no setting of Keras's others see to: that its step is to be a graph
    :func:`graph_training`, that small weights are updated as one :func:`create_flat_group`, that
    the loss is scaled :func:`create_loss_scaler`, that maps are answered at once
    :func:`create_map_vectorizer`, that its first layers are run in the input
    :func:`~uncork.training.transforms.input_layers.create_layers_in_pipeline`, and the last map of
    the input in the step :func:`~uncork.training.transforms.device_maps.create_map_in_step`, that
    batches are filled up :func:`~uncork.training.transforms.pad_lengths.create_padded_feed`, that
    its batch is cut in parts
    :func:`~uncork.training.memory.micro_batches.create_micro_batched_step`, and that activations
    are made again :func:`~uncork.training.memory.recompute.create_recomputed_step`.
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


@contextmanager
def apply_update_edits(
    model: Any,
    edits: tuple[StepEdit, ...],
    flat_group: FlatGroup | None,
    loss_scaler: LossScaler | None,
    *,
    start_step: int | None = None,
) -> Iterator[None]:
    """The optimizer updates as the edits say in what is traced inside the block.

    Args:
        model: Set up as the edits say.
        edits: All that are in force.
        flat_group: From :func:`create_flat_group`.
        loss_scaler: From :func:`create_loss_scaler`.
        start_step: Where the optimizer's count was before the first of these steps
            (:func:`rescale_learning_rate`).
    """
    with ExitStack() as stack:
        stack.enter_context(rescale_learning_rate(model.optimizer, edits, start_step=start_step))
        stack.enter_context(fuse_updates(model.optimizer, edits))
        stack.enter_context(apply_row_updates(model, edits))
        if flat_group is not None:
            stack.enter_context(flat_group.active())
        if loss_scaler is not None:
            stack.enter_context(loss_scaler.active())
        yield


def create_flat_group(model: Any, edits: tuple[StepEdit, ...]) -> FlatGroup | None:
    """What updates the model's small weights as one; None where no edit asks for it."""
    wanted = any(isinstance(edit, FlatUpdates) for edit in edits)
    return FlatGroup(model) if wanted else None


def create_loss_scaler(model: Any, edits: tuple[StepEdit, ...]) -> LossScaler | None:
    """What scales the model's loss; None where no edit asks for it."""
    return LossScaler(model) if needs_loss_scaling(edits) else None


def create_map_vectorizer(
    edits: tuple[StepEdit, ...], on_refusal: Callable[[str], None]
) -> MapVectorizer | None:
    """Vectorizes ``tf.map_fn`` while the step is traced; None where no edit requests it.

    Args:
        edits: Of the step.
        on_refusal: Told why no call is answered otherwise, after the first steps.
    """
    wanted = any(isinstance(edit, VectorizedMapFn) for edit in edits)
    return MapVectorizer(on_refusal) if wanted else None


def create_reused_iterators(edits: tuple[StepEdit, ...]) -> ReusedIterators | None:
    """What small arrays are read through; None where no edit asks for it."""
    wanted = any(isinstance(edit, ReuseIterator) for edit in edits)
    return ReusedIterators() if wanted else None


def _refuse_maps(why: str) -> None:
    raise EditRefused(why, "a tf.map_fn that can be vectorized", "keep the tf.map_fn unchanged")
