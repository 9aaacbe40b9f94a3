"""Runs the first layers of a model in the input pipeline instead of the training step.

Text is cut up and looked up, images are turned and cropped, numbers scaled: ops of the batch alone,
often without kernels for an accelerator, and each waited for inside the step. The pipeline gives
each batch as it was, and what these layers make of it. In the graph of the training step, and
nowhere else, the model goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from uncork.compat.keras3.functional import (
    Functional,
    functional_in,
    inputs_structure,
    nodes_of,
    operation_fn,
    outputs_structure,
    standardize_inputs,
)
from uncork.compat.keras3.layers import (
    flatten_layers,
    own_non_trainable_variables,
    own_trainable_variables,
    seed_generators,
    takes_training,
)
from uncork.compat.keras3.model_state import (
    jit_compile_setting,
    set_jit_compile_setting,
    strategy_of,
)
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import JitCompile, LayersInInput, StepEdit
from uncork.pipeline.functions.effects import has_python_calls
from uncork.training.input.feed import Feed
from uncork.training.tracing.model_attribute import override_attribute
from uncork.training.tracing.xla_support import xla_refusal

# Their variables are set by ``adapt``, and by no step.
_ADAPTED: Final = (
    keras.layers.Normalization,
    keras.layers.Discretization,
    keras.layers.IntegerLookup,
    keras.layers.StringLookup,
    keras.layers.TextVectorization,
)


class PreprocessedBatch(NamedTuple):
    """A batch that the model's first layers have seen.

    Attributes:
        batch: As the training's data gave it.
        layer_outputs: By the last of these layers.
    """

    batch: Any
    layer_outputs: Any


def find_preprocessing_layers(model: Any) -> tuple[Any, ...]:
    """The leading layers of a model that have nothing to train, in their order.

    Args:
        model: Built. One with a ``call`` or a ``train_step`` of its own, or with several inputs,
            has none: what it does before and between its layers is not known.

    Example:
        >>> scaled = [keras.Input((3,)), keras.layers.Rescaling(1 / 255, name="scale")]
        >>> model = keras.Sequential([*scaled, keras.layers.Dense(2)])
        >>> [layer.name for layer in find_preprocessing_layers(model)]
        ['scale']
    """
    graph = _graph_of(model)
    if graph is None or type(model).train_step is not keras.Model.train_step:
        return ()
    return tuple(layer for layer, _ in _chain(graph))


def has_random_layers(layers: tuple[Any, ...]) -> bool:
    """Whether some of these layers use random numbers."""
    return any(seed_generators(each) for layer in layers for each in flatten_layers(layer))


class LayersInPipeline:
    """What an edit does to a model's training and to its data.

    Args:
        model: The user's.
        edit: Names the layers.
        is_compiled: XLA compiles the training step, and nothing else of the model.

    Attributes:
        layers: Those that the pipeline runs.

    Raises:
        EditRefused: The model does not begin with them.
    """

    def __init__(self, model: Any, edit: LayersInInput, *, is_compiled: bool = False) -> None:
        self._model, self._draws, self.compiled = model, edit.is_random, is_compiled
        self._graph = _graph_of(model)
        chain = list(_chain(self._graph)) if self._graph is not None else []
        found = tuple(layer.name for layer, _ in chain)[: len(edit.layer_names)]
        if (
            not found
            or list(map(_uncounted, found)) != list(map(_uncounted, edit.layer_names))
            or model.run_eagerly
            or strategy_of(model) is not None
        ):
            raise EditRefused(
                f"the model starts with {', '.join(found) or 'a trainable layer'}",
                f"a compiled model that starts with {', '.join(edit.layer_names)}",
                "run 'uncork tune' again to make a plan for this model",
            )
        self.layers = [layer for layer, _ in chain[: len(edit.layer_names)]]
        self._at = chain[len(found) - 1][1]

    def training_feed(self, feed: Feed) -> Feed:
        """The same data, with what these layers make of it.

        Raises:
            EditRefused: It is neither arrays nor a tf.data pipeline of inputs and targets; or a
                pipeline that is weighted by class.
        """
        if feed.kind == "numpy":
            return feed.with_array_rewrite(
                lambda pipeline: self.preprocess_dataset(pipeline.dataset)
            )
        if feed.dataset is None or feed.class_weight is not None:
            raise EditRefused(
                "the data is neither arrays nor a tf.data pipeline, or class_weight is set",
                "data whose batches reach the training step unchanged",
                "keep the layers in the model",
            )
        if feed.resident_batch_count:
            held = [self._begun(*batch) for batch in feed.dataset.take(feed.resident_batch_count)]
            return feed.with_resident_batches(held)
        return feed.with_dataset(self.preprocess_dataset(feed.dataset))

    def preprocess_dataset(self, dataset: Any) -> Any:
        """What these layers make of its batches; random numbers are drawn in the batches' order.

        Raises:
            EditRefused: Its elements are not inputs and targets, or the layers run Python or read
                what the training may set.
        """
        spec = dataset.element_spec
        if not (isinstance(spec, tuple) and len(spec) in (2, 3)) or tf.nest.is_nested(spec[0]):
            raise EditRefused(
                f"the elements of the data are {spec}",
                "pairs of one input and its targets",
                "keep the layers in the model",
            )
        calls = None if self._draws else tf.data.AUTOTUNE
        begun = dataset.map(self._begun, num_parallel_calls=calls)
        self._check(parameter(begun, "map_func").function)
        return begun.prefetch(tf.data.AUTOTUNE)

    def _check(self, function: Any) -> None:
        """Run ahead of the training, they must neither see what it sets nor call into Python."""
        inner = [each for layer in self.layers for each in flatten_layers(layer)]
        seeds = [generator.state for each in inner for generator in seed_generators(each)]
        adapted = [v for each in inner if isinstance(each, _ADAPTED) for v in each.variables]
        known = {id(variable.value) for variable in (*seeds, *adapted)}
        others = [v.name for v in function.variables if id(v) not in known]
        if others or has_python_calls(function):
            what = f"read {', '.join(others)}" if others else "run Python"
            raise EditRefused(
                f"the first layers {what}",
                "layers that depend on the batch alone",
                "keep the layers in the model",
            )

    @contextmanager
    def patch_model(self) -> Iterator[None]:
        """Where Keras makes what it trains the model with, inside the block, it goes on from there.

        A batch that was not prepared is trained on as ever.
        """
        model = self._model
        make = model.make_train_function

        def make_train_function(force: bool = False) -> Any:
            step = model.train_step

            def train_step(data: Any) -> Any:
                if not isinstance(data, PreprocessedBatch):
                    return step(data)
                with override_attribute(model, "call", self._call(data.layer_outputs)):
                    return step(data.batch)

            if model.train_function is None or force:
                with override_attribute(model, "train_step", train_step), self._with_xla():
                    make(force=force)
            return model.train_function

        with override_attribute(model, "make_train_function", make_train_function):
            yield

    @contextmanager
    def disable_xla(self) -> Iterator[None]:
        """What is made inside is not compiled, as the script has it."""
        compiled, self.compiled = self.compiled, False
        try:
            yield
        finally:
            self.compiled = compiled

    @contextmanager
    def _with_xla(self) -> Iterator[None]:
        """Where it compiles the step alone, Keras's own setting would warn, and leave it off."""
        written = jit_compile_setting(self._model)
        if self.compiled:
            set_jit_compile_setting(self._model, True)
        try:
            yield
        finally:
            set_jit_compile_setting(self._model, written)

    def _begun(self, *batch: Any) -> PreprocessedBatch:
        assert self._graph is not None
        (made,) = standardize_inputs(self._graph, batch[0])
        for layer in self.layers:
            made = layer(made, training=True) if takes_training(layer) else layer(made)
        return PreprocessedBatch(batch, made)

    def _call(self, made: Any) -> Any:
        """Of the model, from there on."""

        def call(_inputs: Any, training: Any = None, **_given: Any) -> Any:
            return _run_from(self._graph, {id(self._at): made}, training)

        return call


def _uncounted(name: str) -> str:
    """A layer's name without Keras's count of such layers: a second model has others."""
    return re.sub(r"_\d+$", "", name)


def _run_from(graph: Any, values: dict[int, Any], training: Any) -> Any:
    """What a functional model gives, begun at some tensors inside it: by their ``id``, in place."""
    for node in nodes_of(graph):
        if node.is_input or any(id(x) not in values for x in node.arguments.keras_tensors):
            continue
        args, kwargs = node.arguments.fill_in(values)
        found = operation_fn(node.operation, training=training)(*args, **kwargs)
        values |= zip(map(id, node.outputs), keras.tree.flatten(found), strict=True)
    outputs = [values[id(x)] for x in graph.outputs]
    packed = keras.tree.pack_sequence_as(outputs_structure(graph), outputs)
    is_single = isinstance(packed, list | tuple) and len(packed) == 1
    return packed[0] if is_single else packed  # as Keras gives it


def create_layers_in_pipeline(model: Any, edits: tuple[StepEdit, ...]) -> LayersInPipeline | None:
    """Runs the model's first layers in its input pipeline; None where no edit requests it.

    Raises:
        EditRefused: The model does not begin with them.
    """
    edit = next((edit for edit in edits if isinstance(edit, LayersInInput)), None)
    return (
        LayersInPipeline(model, edit, is_compiled=is_compiled_separately(model, edits))
        if edit
        else None
    )


def is_compiled_separately(model: Any, edits: tuple[StepEdit, ...]) -> bool:
    """Whether XLA is for the training step alone: the rest of the model has layers it cannot take.

    They are among the first ones, or :func:`~uncork.training.run.edit_checks.check_edits` refuses
    it.
    """
    kinds = {type(edit) for edit in edits}
    return kinds >= {JitCompile, LayersInInput} and xla_refusal(model) is not None


def _graph_of(model: Any) -> Any | None:
    """The functional model in it, where nothing but its layers is run, on one input."""
    kind = type(model)
    sequential = isinstance(model, keras.Sequential) and kind.call is keras.Sequential.call
    graph = functional_in(model) if sequential else model
    if not sequential and kind.call is not Functional.call:
        return None
    single = isinstance(graph, Functional) and len(graph.inputs) == 1
    # An input with a name is taken out of a dictionary, which is no tensor to begin with.
    return graph if single and not isinstance(inputs_structure(graph), dict) else None


def _chain(graph: Any) -> Iterator[tuple[Any, Any]]:
    """Layers from the input on, each with what it gives, as long as they may leave the step."""
    nodes = [node for node in nodes_of(graph) if not node.is_input]
    at, outputs = graph.inputs[0], {id(each) for each in graph.outputs}
    while True:
        users = [n for n in nodes if any(each is at for each in n.arguments.keras_tensors)]
        if len(users) != 1 or id(at) in outputs:
            return
        (node,) = users
        if (
            not _is_plain(node.arguments)
            or len(node.outputs) != 1
            or not _may_leave(node.operation)
        ):
            return
        at = node.outputs[0]
        if id(at) in outputs:
            return
        yield node.operation, at


def _is_plain(arguments: Any) -> bool:
    """One tensor, and whether it is trained, which is told anew in each call."""
    told = {name: value for name, value in arguments.kwargs.items() if value is not None}
    return len(arguments.args) == 1 and not told.keys() - {"training"}


def _may_leave(layer: Any) -> bool:
    """It learns nothing, counts nothing and adds nothing to the loss."""
    if not isinstance(layer, keras.layers.Layer):
        return False
    inner = flatten_layers(layer)
    return not (
        any(isinstance(each, keras.layers.Masking) for each in inner)  # a mask stays behind
        or layer.trainable_weights
        or layer.metrics
        or layer.losses
        or any(getattr(each, "activity_regularizer", None) for each in inner)
        or any(_sets_variables(each) for each in inner)
    )


def _sets_variables(layer: Any) -> bool:
    """Perhaps: it has some of its own, beside the seeds that it draws from."""
    own = [*own_trainable_variables(layer), *own_non_trainable_variables(layer)]
    return bool(own) and not isinstance(layer, _ADAPTED)
