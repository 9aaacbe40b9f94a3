"""A training step that recomputes activations for the backward pass.

Of each segment of the model only what goes into it is held. In the backward pass it is run again,
once the gradient of what it gives is there, and gone through backwards. Both runs are functions of
tensors alone, in Keras's own ``StatelessScope``: weights go in as arguments; what layers set
(statistics, seeds of what is drawn) goes in as it was before the first run, and is set by that run
alone. So a dropout drops the same numbers twice, and an average is moved once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from uncork.compat.keras3.backend import (
    AutocastScope,
    get_autocast_scope,
    get_keras_mask,
    set_keras_mask,
)
from uncork.compat.keras3.functional import RUN_NODES, outputs_structure
from uncork.compat.keras3.layers import ADDED_LOSSES
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import LayersInInput, MicroBatches, RecomputeActivations, StepEdit
from uncork.training.memory.segments import (
    Segment,
    cut_into_segments,
    nested_layers_of,
    recompute_refusal,
)
from uncork.training.tracing.model_attribute import override_attribute

_KEPT = "use a smaller batch without recomputing activations"


class RecomputedStep:
    """What an edit does to a model's training step.

    Args:
        model: The user's, built and compiled.
        edit: Says in how many segments.

    Raises:
        EditRefused: It would be another training, or nobody knows.
    """

    def __init__(self, model: Any, edit: RecomputeActivations) -> None:
        _check(recompute_refusal(model))
        self._model = model
        self._cut = cut_into_segments(model, edit.segments)
        if not self._cut.recomputed_count:
            _check("with so few segments, no part of the model is recomputed")

    @contextmanager
    def patch_model(self) -> Iterator[None]:
        """Where Keras makes what it trains the model with, inside the block, it is run so."""
        model = self._model
        make = model.make_train_function

        def make_train_function(force: bool = False) -> Any:
            step = model.train_step

            def train_step(data: Any) -> Any:
                try:
                    with self._in_segments():
                        return step(data)
                except EditRefused as refusal:
                    raise _as_said(refusal) from None

            if model.train_function is None or force:
                with override_attribute(model, "train_step", train_step):
                    make(force=force)
            return model.train_function

        with override_attribute(model, "make_train_function", make_train_function):
            yield

    @contextmanager
    def _in_segments(self) -> Iterator[None]:
        compiled = bool(self._model.jit_compile)
        with ExitStack() as stack:
            for function, segments in self._cut.segmented_functions:
                run = _runs(function, segments, compiled)
                stack.enter_context(override_attribute(function, RUN_NODES, run))
            yield


def create_recomputed_step(model: Any, edits: tuple[StepEdit, ...]) -> RecomputedStep | None:
    """The recomputed step of a model; None where no edit requests it.

    Raises:
        EditRefused: It cannot be done with this model's step.
    """
    edit = next((e for e in reversed(edits) if isinstance(e, RecomputeActivations)), None)
    if edit is not None and any(isinstance(other, MicroBatches) for other in edits):
        _check("the step runs in micro-batches")
    if edit is not None and any(isinstance(other, LayersInInput) for other in edits):
        _check("the input pipeline runs the first layers of the model")
    return RecomputedStep(model, edit) if edit else None


def _runs(function: Any, segments: list[Segment], compiled: bool) -> Any:
    """In the place of Keras's own method, which runs all nodes of a model."""
    written = getattr(function, RUN_NODES)

    def run(inputs: Any, operation_fn: Any = lambda op: op, call_fn: Any = None) -> Any:
        if call_fn is not None:
            return written(inputs, operation_fn=operation_fn, call_fn=call_fn)
        known = dict(zip(map(id, function.inputs), keras.tree.flatten(inputs), strict=True))
        for each in segments:
            if each.is_recomputed:
                _Twice(each, operation_fn, compiled).run(known)
            else:
                _run(each.nodes, known, operation_fn)
        outputs = [known[id(each)] for each in function.outputs]
        return keras.tree.pack_sequence_as(outputs_structure(function), outputs)

    return run


def _run(nodes: list[Any], known: dict[int, Any], operation_fn: Any) -> None:
    """As Keras does it."""
    for node in nodes:
        if any(id(each) not in known for each in node.input_tensors):
            continue  # of an input that was not given
        args, kwargs = node.arguments.fill_in(known)
        outputs = operation_fn(node.operation)(*args, **kwargs)
        for each, value in zip(node.outputs, keras.tree.flatten(outputs), strict=True):
            known[id(each)] = value


class _Given(NamedTuple):
    """To a segment.

    Attributes:
        tensors: By Keras's own.
        moving: Those that may have a gradient.
        masks: Of these, as they were: attention takes them off.
        state: What its layers may set, as it was.
        scope: What variables are cast to.
    """

    tensors: dict[int, Any]
    moving: list[int]
    masks: list[Any]
    state: list[Any]
    scope: AbstractContextManager[None]


class _Made(NamedTuple):
    """Of one run of a segment."""

    targets: list[Any]
    losses: list[Any]
    scope: Any


class _Twice:
    """A segment that is run now, and again when its gradient is asked for."""

    def __init__(self, segment: Segment, operation_fn: Any, compiled: bool) -> None:
        self._segment = segment
        self._operation_fn = operation_fn
        self._compiled = compiled
        layers = {id(each): each for n in segment.nodes for each in nested_layers_of(n.operation)}
        self._layers = list(layers.values())
        found = [v for each in self._layers for v in (*each.variables, *each.metrics_variables)]
        variables = list({id(each): each for each in found}.values())
        self._weights = [each for each in variables if each.trainable]
        self._state = [each for each in variables if not each.trainable]

    def run(self, known: dict[int, Any]) -> None:
        """Put what the segment gives to what is known."""
        tensors = {id(each): known[id(each)] for each in self._segment.sources if id(each) in known}
        _check_dense([each for each in tensors.values() if each is not None])
        moving = [at for at, value in tensors.items() if _is_float(value)]
        with AutocastScope(None):
            weights = [tf.convert_to_tensor(each.value) for each in self._weights]
            state = [tf.identity(tf.convert_to_tensor(each.value)) for each in self._state]
        if not moving and not weights:  # it has no gradient
            _run(self._segment.nodes, known, self._operation_fn)
            return
        masks = [get_keras_mask(tensors[at]) for at in moving]
        given = _Given(tensors, moving, masks, state, _casting())
        first: list[_Made] = []

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def run(*moved: Any) -> Any:
            made = self._made(moved, given)
            first.append(made)

            def gradient(*arrived: Any, variables: Any = None) -> Any:
                if variables:
                    _check(
                        "a layer reads a variable that belongs to another object: "
                        f"{variables[0].name}"
                    )
                return self._gradient(moved, arrived, given)

            return [*made.targets, *made.losses], gradient

        passed = run(*(tensors[at] for at in moving), *weights)
        self._tell(first[0], passed, known, state)

    def _tell(
        self, made: _Made, passed: list[Any], known: dict[int, Any], state: list[Any]
    ) -> None:
        """What the first run gives, sets and adds to the loss, outside of it."""
        targets, losses = passed[: len(made.targets)], passed[len(made.targets) :]
        for each, inner, value in zip(self._segment.targets, made.targets, targets, strict=True):
            mask = get_keras_mask(inner)
            if mask is not None:
                set_keras_mask(value, mask)
            known[id(each)] = value
        for each, before in zip(self._state, state, strict=True):
            after = made.scope.get_current_value(each)
            if after is not before:
                each.assign(after)
        for loss in losses:
            self._layers[0].add_loss(loss)

    def _made(self, moved: tuple[Any, ...], given: _Given) -> _Made:
        """What the segment makes of inputs and weights, as a function of them alone."""
        count = len(given.moving)
        inner = {**given.tensors, **dict(zip(given.moving, moved[:count], strict=True))}
        for at, mask in zip(given.moving, given.masks, strict=True):
            if mask is not None:
                set_keras_mask(inner[at], mask)
        weights = zip(self._weights, moved[count:], strict=True)
        state = zip(self._state, given.state, strict=True)
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with AutocastScope(None):
            scope = keras.StatelessScope(state_mapping=[*weights, *state], collect_losses=True)
        with given.scope, scope:
            _run(self._segment.nodes, inner, self._operation_fn)
        self._check(scope, moved[count:], graph.get_operations()[before:])
        targets = [inner[id(each)] for each in self._segment.targets]
        _check_dense(targets)
        return _Made(targets, list(scope.losses), scope)

    def _gradient(
        self, moved: tuple[Any, ...], arrived: tuple[Any, ...], given: _Given
    ) -> list[Any]:
        """Of what goes in, by what it gives when it is made again."""
        again = _behind(list(moved), list(arrived), self._compiled)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(again)
            made = self._made(tuple(again), given)
        if len(made.targets) + len(made.losses) != len(arrived):
            _check("the model calls a layer several times, and the layer adds a loss")
        pairs = [
            (value, above)
            for value, above in zip([*made.targets, *made.losses], arrived, strict=True)
            if _is_float(value) and above is not None
        ]
        values, above = [value for value, _ in pairs], [above for _, above in pairs]
        found = tape.gradient(values, again, output_gradients=above)
        if any(isinstance(each, tf.IndexedSlices) for each in found):
            _check(
                "the gradient of an embedding table inside another layer is sparse "
                "(tf.IndexedSlices)"
            )
        return list(found)

    def _check(self, scope: Any, weights: tuple[Any, ...], operations: list[Any]) -> None:
        """That the run was a function of tensors alone."""
        for each, given in zip(self._weights, weights, strict=True):
            if scope.get_current_value(each) is not given:
                _check(f"a layer assigns to its own trainable weight: {each.path}")
        if len(scope.state_mapping) > len(self._weights) + len(self._state):
            _check(
                "a layer assigns to a variable of another object, or uses random numbers "
                "without a seed"
            )
        for each in operations:
            if each.type == "ReadVariableOp":
                _check("a layer reads a variable that belongs to another object")
            if each.op_def is not None and each.op_def.is_stateful:
                _check(f"a layer has side effects: {each.type} in {each.name}"[:200])
        for layer in self._layers:
            for name, value in vars(layer).items():
                if name != ADDED_LOSSES and any(map(_is_symbolic, keras.tree.flatten(value))):
                    _check(
                        f"the layer '{layer.name}' stores a tensor of its call in the "
                        f"attribute {name}"
                    )


def _behind(tensors: list[Any], arrived: list[Any], compiled: bool) -> list[Any]:
    """The same tensors, which are there only once all of a gradient has arrived.

    Neither TensorFlow nor XLA may take what is made of them for what was made already. XLA knows
    no order but that of data: ``tf.recompute_grad`` makes one the same way.
    """
    arrived = [each for each in arrived if _is_float(each)]
    if not compiled:
        with tf.control_dependencies(arrived):
            return [tf.identity(each) for each in tensors]
    one = tf.cast(tf.reduce_max(tf.reshape(arrived[0], [-1])[:1]), tf.bool)
    true = tf.equal(one, one)  # of an empty tensor, too, and of one that is no number
    return [tf.where(true, each, tf.zeros((), each.dtype)) for each in tensors]


def _casting() -> AbstractContextManager[None]:
    """As where this is called, which in the backward pass it is not any more."""
    scope = get_autocast_scope()
    return nullcontext() if scope is None else AutocastScope(scope.dtype)


def _check_dense(values: list[Any]) -> None:
    other = next((each for each in values if not isinstance(each, tf.Tensor)), None)
    if other is not None:
        _check(f"a layer passes on a value that is not a dense tensor: {other}"[:200])


def _as_said(refusal: BaseException) -> BaseException:
    """Keras makes an error anew, with its own words about the call that it came from."""
    before = refusal.__context__
    anew = isinstance(refusal, EditRefused) and not refusal.expected
    return _as_said(before) if anew and isinstance(before, EditRefused) else refusal


def _is_float(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and (value.dtype.is_floating or value.dtype.is_complex)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and not hasattr(value, "numpy")


def _check(reason: str | None) -> None:
    if reason is not None:
        raise EditRefused(reason, "layers that give the same result when they run again", _KEPT)
