"""How a model's step is run: the settings that step edits change, switched on and off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

import keras

from uncork.core.edit import (
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    LargerBatch,
    MapsAtOnce,
    MicroBatches,
    ReuseIterator,
    RowUpdates,
    StepEdit,
    StepsPerExecution,
    TfFunction,
    is_graph,
)
from uncork.core.errors import EditRefused
from uncork.step.eager_model import guards_of
from uncork.step.feed import Feed
from uncork.step.first_layers import FirstLayers, compiled_apart, first_layers_of
from uncork.step.flat_group import FlatGroup, why_not
from uncork.step.fused_updates import fused, why_not_fused
from uncork.step.last_maps import map_in_step_of
from uncork.step.micro_batches import in_parts_of
from uncork.step.rescaled_rate import rescaled, why_not_larger
from uncork.step.reused_iterator import ReusedIterators
from uncork.step.row_updates import by_rows, why_not_rows
from uncork.step.scaled_loss import ScaledLoss, scales_loss, why_not_scaled
from uncork.step.traced_maps import Maps
from uncork.step.xla import why_not_compiled
from uncork.watch import UnguardedError

# Under these the weights are float32, so a model that is built needs no other ones.
MIXED = ("mixed_bfloat16", "mixed_float16")
_SWITCHABLE = ("float32", *MIXED)
# For edits that are for some optimizers alone: what is against this one, and what was expected.
_OF_OPTIMIZERS: Final[dict[type[Any], tuple[Callable[[Any], str | None], str]]] = {
    FusedUpdates: (lambda model: why_not_fused(model.optimizer), "an optimizer that has one"),
    RowUpdates: (why_not_rows, "Adagrad or plain SGD, and tables that the gradient alone changes"),
    LargerBatch: (why_not_larger, "an optimizer that takes each step"),
}
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
        self._in_parts = in_parts_of(model, edits)
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
        for each in (self._first, self._last_map):
            feed = each.fed(feed) if each else feed
        return feed

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
        return self._last_map.in_two(feed) if self._last_map else None

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._maps is not None:
                stack.enter_context(self._maps.of_model(self.model))
            # In this order: what the last map of the input makes in the step is cut in parts.
            for each in (self._first, self._last_map, self._in_parts):
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
    first layers are run in the input :func:`~uncork.step.first_layers.first_layers_of`, and the
    last map of the input in the step :func:`~uncork.step.last_maps.map_in_step_of`, that its batch
    is cut in parts :func:`~uncork.step.micro_batches.in_parts_of`.
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
            _switch_policy(model, edit)
    if edits:
        model.train_function = None


@contextmanager
def updating(
    model: Any, edits: tuple[StepEdit, ...], group: FlatGroup | None, scaled: ScaledLoss | None
) -> Iterator[None]:
    """The optimizer updates as the edits say in what is traced inside the block.

    Args:
        model: Set up as the edits say.
        edits: All that are in force.
        group: From :func:`flat_group_of`.
        scaled: From :func:`scaled_loss_of`.
    """
    with ExitStack() as stack:
        stack.enter_context(rescaled(model.optimizer, edits))
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


@contextmanager
def computing_in_float32(model: Any) -> Iterator[None]:
    """Without mixed precision inside the block; what is traced there stays without it.

    Args:
        model: Built.
    """
    written = [(layer, layer.dtype_policy) for layer in model._flatten_layers()]
    try:
        _switch_policy(model, DtypePolicy(policy="float32"))
        yield
    finally:
        for layer, own in written:
            set_policy(layer, own)


def check(model: Any, edits: tuple[StepEdit, ...]) -> None:
    """Refuse edits whose preconditions this model does not meet.

    Raises:
        EditRefused: With what was found and what was expected.
    """
    graph = next((edit for edit in edits if isinstance(edit, TfFunction)), None)
    if graph is not None:
        _check_eager(model, graph.code)
        if any(isinstance(edit, StepsPerExecution) for edit in edits):
            raise EditRefused(
                "the model runs eagerly, and goes on to do so in its validation",
                "a compiled model",
                "compile the model without run_eagerly=True",
            )
    elif edits and model.run_eagerly:
        raise EditRefused(
            "the model runs eagerly (run_eagerly=True)",
            "a compiled step",
            "compile the model without run_eagerly=True",
        )
    first = first_layers_of(model, edits)
    map_in_step_of(model, edits)
    if any(isinstance(edit, MicroBatches) for edit in edits):
        _check_built(model)
        in_parts_of(model, edits)
    for edit in edits:
        _check_one(model, edit, first)
    if scales_loss(edits):
        _check_built(model)
        reason = why_not_scaled(model, edits)
        if reason is not None:
            raise EditRefused(reason, "a loss that Keras can scale for float16", "leave it so")


def _check_eager(model: Any, code: str) -> None:
    if not model.run_eagerly:
        raise EditRefused("the model is compiled already", "run_eagerly=True", "keep it so")
    try:
        found = guards_of(model).code
    except UnguardedError as reason:
        raise EditRefused(str(reason), "Python that can be watched", "tune again") from None
    if found != code:
        raise EditRefused(
            "the Python code of the model's step is another one",
            "the code that was watched",
            "run 'uncork tune' again to make a plan for this one",
        )


def _check_one(model: Any, edit: StepEdit, first: FirstLayers | None) -> None:
    if isinstance(edit, StepsPerExecution) and model.steps_per_execution != 1:
        raise EditRefused(
            f"steps_per_execution is {model.steps_per_execution} already",
            "1",
            "keep the user's value",
        )
    if isinstance(edit, JitCompile | JitCompileOff):
        _check_xla(model, edit, first)
    if isinstance(edit, FlatUpdates):
        _check_update(model)
    if isinstance(edit, DtypePolicy):
        _check_policy(dtype_policies(model), edit)
        _check_kept(model, edit)
    if type(edit) in _OF_OPTIMIZERS:
        why_not_so, expected = _OF_OPTIMIZERS[type(edit)]
        reason = why_not_so(model)
        if reason is not None:
            raise EditRefused(reason, expected, "tune again")


def _check_xla(model: Any, edit: JitCompile | JitCompileOff, first: FirstLayers | None) -> None:
    if isinstance(edit, JitCompileOff):
        if not model.jit_compile:
            raise EditRefused("the model runs without XLA", "jit_compile=True", "tune again")
        return
    reason = why_not_compiled(model, first.layers if first else ())
    if reason is not None:
        raise EditRefused(reason, "layers whose supports_jit is true", "put it into the input")


def _check_update(model: Any) -> None:
    reason = why_not(model.optimizer)
    if reason is not None:
        raise EditRefused(reason, "an optimizer that may", "tune again, with this optimizer")
    _check_built(model)


def _check_built(model: Any) -> None:
    if not model.built:
        raise EditRefused(
            "the model has no weights yet when fit is called",
            "a model that is built",
            "begin it with keras.Input, or call model.build(input_shape)",
        )


def _check_policy(policies: tuple[str, ...], edit: DtypePolicy) -> None:
    others = sorted({policy for policy in policies if policy != "float32"})
    found = f"layers with dtype policy {', '.join(others or ('float32',))}"
    if edit.policy == "float32":
        if not others or any(policy not in MIXED for policy in others):
            raise EditRefused(found, f"{' or '.join(MIXED)}", "keep them")
    elif others:
        raise EditRefused(found, "float32 throughout", "keep them")


def _check_kept(model: Any, edit: DtypePolicy) -> None:
    missing = set(edit.keep) - {layer.name for layer in model._flatten_layers()}
    if missing:
        raise EditRefused(
            f"the model has no layer called {', '.join(sorted(missing))}",
            "the layers that the plan leaves as they are",
            "run 'uncork tune' again to make a plan for this model",
        )


def dtype_policies(model: Any) -> tuple[str, ...]:
    """Names of the dtype policies in use, in order of first appearance."""
    return tuple(dict.fromkeys(layer.dtype_policy.name for layer in model._flatten_layers()))


def _switch_policy(model: Any, edit: DtypePolicy) -> None:
    """Compute in another dtype on a model that is built already.

    Weights stay float32 under a mixed policy, so nothing has to be converted, and a switched model
    is bit for bit the model that would have been built under the policy. Before Keras 3.10, one
    built under a mixed policy has casts between its layers, which stay.
    """
    for layer in model._flatten_layers():
        if layer.name not in edit.keep and switched(layer, edit.policy):
            set_policy(layer, edit.policy)


def switched(layer: Any, policy: str) -> bool:
    """Whether a layer computes in another dtype where the policy is to be this one.

    One that holds its weights in another dtype, or is quantized, stays as it is.
    """
    own = layer.dtype_policy
    if isinstance(layer, keras.layers.InputLayer) or getattr(own, "quantization_mode", None):
        return False
    return own.name in _SWITCHABLE and own.name != policy


def set_policy(layer: Any, policy: Any) -> None:
    """Let a layer compute in another dtype from now on.

    Args:
        layer: Built or not.
        policy: Or its name.
    """
    layer.dtype_policy = policy
    if isinstance(layer, keras.layers.Normalization) and layer.built:
        layer.finalize_state()  # its cached mean and variance were cast to the old compute dtype
