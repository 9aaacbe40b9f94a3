"""How a model's step is run: the settings that step edits change, switched on and off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    JitCompile,
    JitCompileOff,
    MapsAtOnce,
    ReuseIterator,
    StepEdit,
    StepsPerExecution,
    is_graph,
)
from uncork.training.input.feed import Feed
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.memory.micro_batches import in_parts_of
from uncork.training.memory.recompute import recomputed_of
from uncork.training.optimizer.flat_updates import FlatGroup
from uncork.training.optimizer.fused_updates import fused
from uncork.training.optimizer.learning_rate import rescaled
from uncork.training.optimizer.row_updates import by_rows
from uncork.training.precision.dtype_policies import set_policy, switch_policy
from uncork.training.precision.loss_scaling import ScaledLoss, scales_loss
from uncork.training.run.edit_checks import check
from uncork.training.tracing.map_fn import Maps
from uncork.training.transforms.device_maps import map_in_step_of
from uncork.training.transforms.input_layers import compiled_apart, first_layers_of
from uncork.training.transforms.pad_lengths import pad_lengths_of

# In this order: what was traced belongs to the settings before it.
_FLAGS: Final = ("jit_compile", "steps_per_execution", "train_function", "test_function")


class StepSettings:
    """One way to run a model's training step, with the function compiled for it.

    Entering it sets the model up; leaving it gives back what was there. The traced function is
    kept between entries, so that blocks measured in turn do not compile again.

    Args:
        model: Built and compiled.
        edits: Applied in order on top of the user's own settings.
        compiled: Run a model that its user runs eagerly as a ``tf.function``.
        metrics: Compute the metrics that were given to ``compile``.

    Attributes:
        iterators: What arrays are read through, where an edit has it kept.

    Raises:
        EditRefused: An edit does not apply to this model.
    """

    def __init__(
        self,
        model: Any,
        edits: tuple[StepEdit, ...] = (),
        *,
        compiled: bool = False,
        metrics: bool = True,
    ) -> None:
        self.model = model
        self.edits = edits
        self._compiled = compiled
        self._metrics = metrics
        self._train_function: Any = None
        self._test_function: Any = None
        check(model, edits)
        self._flat_group = flat_group_of(model, edits)
        self._scaled_loss = scaled_loss_of(model, edits)
        self._maps = maps_of(edits, _refuse_maps)
        self._first = first_layers_of(model, edits)
        self._last_map = map_in_step_of(model, edits, keeps=True)
        self._lengths = pad_lengths_of(model, edits)
        self._in_parts = in_parts_of(model, edits)
        self._recomputed = recomputed_of(model, edits)
        self.iterators = iterators_of(edits)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the model this way inside the block."""
        model = self.model
        if self._last_map is not None:
            self._last_map.fill()
        flags = {name: getattr(model, name) for name in _FLAGS}
        policies = [(layer, layer.dtype_policy) for layer in self._layers()]
        eagerly = model.run_eagerly
        # Keras would count what is set as an attribute among the layers of the model.
        held, metrics = vars(model), vars(model).get("_compile_metrics")
        model.test_function = self._test_function
        try:
            if not self._metrics:
                held["_compile_metrics"] = None
            apply(model, self.edits)
            if self._compiled or is_graph(self.edits):
                model.run_eagerly = False
            model.train_function = self._train_function
            with self._tracing():
                model.make_train_function()
            self._train_function = model.train_function
            if self._scaled_loss is not None:
                self._scaled_loss.start()
            with self._updating(), self._reusing():
                yield
        finally:
            self._test_function = model.test_function
            for layer, policy in policies:
                set_policy(layer, policy)
            if not self._metrics:
                held["_compile_metrics"] = metrics
            model.run_eagerly = eagerly
            for name, value in flags.items():
                setattr(model, name, value)

    def fed(self, feed: Feed) -> Feed:
        """What a training that is run this way is to read, instead of the user's data."""
        for each in (self._first, self._last_map, self._lengths):
            feed = each.fed(feed) if each else feed
        return feed

    def validated(self, feed: Feed) -> Feed:
        """What is validated on, where the step is run this way."""
        return self._lengths.validated(feed) if self._lengths else feed

    def let_go(self) -> None:
        """Give memory back that only this way of running the step needs; it is taken again."""
        if self._last_map is not None:
            self._last_map.let_go()

    def in_two(self, feed: Feed) -> Any | None:
        """Pairs of batches, as this step is to be given them and as the user's own is.

        Returns:
            None where both are the same.

        Raises:
            EditRefused: As :meth:`fed`.
        """
        other = self._last_map or self._lengths
        return other.in_two(feed) if other else None

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._maps is not None:
                stack.enter_context(self._maps.of_model(self.model))
            # In this order: what the last map of the input makes in the step is cut in parts.
            for each in (self._first, self._last_map, self._in_parts, self._recomputed):
                if each is not None:
                    stack.enter_context(each.of_model())
            yield

    def _updating(self) -> AbstractContextManager[None]:
        return updating(self.model, self.edits, self._flat_group, self._scaled_loss)

    def _reusing(self) -> AbstractContextManager[None]:
        return self.iterators.in_force() if self.iterators else nullcontext()

    def _layers(self) -> list[Any]:
        touched = any(isinstance(edit, DtypePolicy) for edit in self.edits)
        return list(self.model._flatten_layers()) if touched else []


def apply(model: Any, edits: tuple[StepEdit, ...]) -> None:
    """Set a model up as the edits say, for good. The next step compiles anew.

    What is no setting of Keras's others see to: that its step is to be a graph
    :func:`graph_training`, that small weights are updated as one :func:`flat_group_of`, that the
    loss is scaled :func:`scaled_loss_of`, that maps are answered at once :func:`maps_of`, that its
    first layers are run in the input
    :func:`~uncork.training.transforms.input_layers.first_layers_of`, and the last map of the input
    in the step :func:`~uncork.training.transforms.device_maps.map_in_step_of`, that batches are
    filled up :func:`~uncork.training.transforms.pad_lengths.pad_lengths_of`, that its batch is cut
    in parts :func:`~uncork.training.memory.micro_batches.in_parts_of`, and that activations are
    made again :func:`~uncork.training.memory.recompute.recomputed_of`.
    """
    for edit in edits:
        if isinstance(edit, StepsPerExecution):
            model.steps_per_execution = edit.steps
        elif isinstance(edit, JitCompile):
            if not compiled_apart(model, edits):
                model.jit_compile = True
        elif isinstance(edit, JitCompileOff):
            model.jit_compile = False
        elif isinstance(edit, DtypePolicy):
            switch_policy(model, edit)
    if edits:
        model.train_function = None


@contextmanager
def updating(
    model: Any,
    edits: tuple[StepEdit, ...],
    group: FlatGroup | None,
    scaled: ScaledLoss | None,
    *,
    begun: int | None = None,
) -> Iterator[None]:
    """The optimizer updates as the edits say in what is traced inside the block.

    Args:
        model: Set up as the edits say.
        edits: All that are in force.
        group: From :func:`flat_group_of`.
        scaled: From :func:`scaled_loss_of`.
        begun: Where the optimizer's count was before the first of these steps (:func:`rescaled`).
    """
    with ExitStack() as stack:
        stack.enter_context(rescaled(model.optimizer, edits, begun=begun))
        stack.enter_context(fused(model.optimizer, edits))
        stack.enter_context(by_rows(model, edits))
        if group is not None:
            stack.enter_context(group.in_force())
        if scaled is not None:
            stack.enter_context(scaled.in_force())
        yield


def flat_group_of(model: Any, edits: tuple[StepEdit, ...]) -> FlatGroup | None:
    """What updates the model's small weights as one; None where no edit asks for it."""
    wanted = any(isinstance(edit, FlatUpdates) for edit in edits)
    return FlatGroup(model) if wanted else None


def scaled_loss_of(model: Any, edits: tuple[StepEdit, ...]) -> ScaledLoss | None:
    """What scales the model's loss; None where no edit asks for it."""
    return ScaledLoss(model) if scales_loss(edits) else None


def maps_of(edits: tuple[StepEdit, ...], on_none: Callable[[str], None]) -> Maps | None:
    """What answers ``tf.map_fn`` while the step is traced; None where no edit asks for it.

    Args:
        edits: Of the step.
        on_none: Told why no call is answered otherwise, after the first steps.
    """
    wanted = any(isinstance(edit, MapsAtOnce) for edit in edits)
    return Maps(on_none) if wanted else None


def iterators_of(edits: tuple[StepEdit, ...]) -> ReusedIterators | None:
    """What small arrays are read through; None where no edit asks for it."""
    wanted = any(isinstance(edit, ReuseIterator) for edit in edits)
    return ReusedIterators() if wanted else None


def _refuse_maps(why: str) -> None:
    raise EditRefused(why, "one that can be answered at once", "leave it as it is")
