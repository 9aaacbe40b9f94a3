"""A model under a plan: trained as the plan says, saved and given back as its user wrote it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.layers import flatten_layers, learning_setting, set_learning_setting
from uncork.compat.keras3.model_state import compile_config, compile_loss, compile_metrics
from uncork.compat.keras3.trainer import IN_FIT
from uncork.core.edits.step import JitCompile, StepEdit
from uncork.training.input.array_feed import PipelineRewrite, rewrite_array_pipeline
from uncork.training.input.feed import Feed
from uncork.training.input.validation import ValidationSetup
from uncork.training.precision.dtype_policies import set_policy
from uncork.training.run.step_settings import apply_step_edits
from uncork.training.run.step_transforms import StepTransforms
from uncork.training.tracing.dropped_checks import is_in_keras_step
from uncork.training.tracing.model_attribute import override_attribute
from uncork.training.transforms.last_step import run_original_last_step

_OTHERS: Final = ("test_function", "predict_function")
_TRAINS: Final = "train_function"
_FUNCTIONS: Final = (_TRAINS, *_OTHERS)
# What callbacks ask of a model.
_ASKED: Final = (
    *("save", "export", "evaluate", "predict"), *("test_on_batch", "predict_on_batch")
)  # fmt: skip
# In this order: what was traced belongs to the settings before it.
_SETTINGS: Final = ("jit_compile", "steps_per_execution", *_FUNCTIONS)


class PlannedStep:
    """A model's step under a plan, in one call of ``fit`` after the other.

    What was traced under the plan is kept from call to call, as Keras keeps it, and never left on
    the model: its next training may be one that no plan is for.

    Args:
        model: Built and compiled, as the user set it up.
        edits: Checked already.
        on_refusal: Told why maps are not answered at once, or arrays not put on the device, where
            the plan says so and it cannot be.

    Attributes:
        edits: As given.
        flat_group: What updates small weights as one, where the plan says so.
        schedule_start_step: What the optimizer had counted when the first step under the plan was
            made; None until then.
    """

    def __init__(
        self,
        model: Any,
        edits: tuple[StepEdit, ...],
        on_refusal: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._transforms = StepTransforms.create(model, edits, on_refusal)
        self.flat_group = self._transforms.flat_group
        self.edits = edits
        self._model = model
        self._compiled = _compiled(model)
        self._learning = _learning(model)
        self._functions: dict[str, Any] = dict.fromkeys(_FUNCTIONS)
        self._left: dict[str, Any] = {}
        self._arrays: PipelineRewrite | None = None
        self.schedule_start_step: int | None = None
        self._on_refusal = on_refusal

    def is_valid_for(self, model: Any) -> bool:
        """What was traced holds for this model still: the same, not compiled anew."""
        now = _compiled(model)
        same = len(now) == len(self._compiled)
        return same and all(a is b for a, b in zip(now, self._compiled, strict=True))

    def keep_trained_weights(self) -> AbstractContextManager[None]:
        """What the model is trained by without the plan, inside the block, learns what it did.

        Who sets ``trainable`` and does not compile the model again goes on with what was traced
        before, and Keras with him. That was traced under the plan, and is not there any more.
        """
        now = _learning(self._model)
        changed = any(a[1] != b[1] for a, b in zip(now, self._learning, strict=False))
        if not changed or self._functions[_TRAINS] is None or not self.is_valid_for(self._model):
            return nullcontext()
        step = self._model.train_step

        def train_step(data: Any) -> Any:
            now = _learning(self._model)
            _set_learning(self._learning)
            try:
                return step(data)
            finally:
                _set_learning(now)

        return override_attribute(self._model, "train_step", train_step)

    def training_x(self, arguments: Mapping[str, Any]) -> Any:
        """What ``fit`` is to read as its ``x``, of these arguments.

        Raises:
            EditRefused: It is not data that the edits can be used on.
        """
        feed = self._transforms.training_feed(Feed.from_arguments(arguments))
        self._arrays = feed.array_rewrite
        moved = self._transforms.map_in_step
        if moved is not None and moved.has_changed:
            self._functions[_TRAINS] = None  # the map is part of it
        # Keras sets a validation split aside itself: arrays are given to it whole.
        return arguments["x"] if feed.dataset is None else feed.dataset

    def validation_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What ``fit`` is to validate on, by the name of its argument; nothing where as written.

        Raises:
            EditRefused: It is not data that the edits can be used on.
        """
        padded = self._transforms.padded_feed is not None
        validation = ValidationSetup.from_arguments(arguments) if padded else None
        if validation is None:
            return {}
        feed = self._transforms.validation_feed(validation.feed)
        return {} if feed is validation.feed else {"validation_data": feed.dataset}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Train as the edits say inside the block; what is saved there is as the user wrote it."""
        model, written = self._model, _Written(self._model)
        if self._left and self._left != written.functions:  # traced anew, as the user wanted it
            self._functions = dict.fromkeys(_FUNCTIONS)
        has_xla = any(isinstance(edit, JitCompile) for edit in self.edits)
        last_step = self._last_step(written.jit_compile) if has_xla else nullcontext()
        transforms = self._transforms
        try:
            apply_step_edits(model, self.edits)
            _set(model, self._functions)
            updates = transforms.patch_optimizer(start_step=self.schedule_start_step)
            step = transforms.patch_model()
            with written.while_asked(), updates, step, last_step, self._reading():
                yield
        finally:
            transforms.release_memory()
            self._functions = {name: getattr(model, name) for name in _FUNCTIONS}
            written.give_back()
            if not self.is_valid_for(model):  # compiled anew by a callback, or built by the fit
                _set(model, dict.fromkeys(_FUNCTIONS))
            self._left = {name: getattr(model, name) for name in _FUNCTIONS}

    def _last_step(self, jit_compile: Any) -> AbstractContextManager[None]:
        model, first = self._model, self._transforms.layers_in_pipeline
        return run_original_last_step(
            model,
            jit_compile,
            lambda: bool(model.jit_compile) or (first is not None and first.compiled),
            first.disable_xla if first else nullcontext,
        )

    def _reading(self) -> AbstractContextManager[None]:
        """Arrays that cannot be put on the device are sent there, and trained on, as written."""
        if self._arrays is None:
            return nullcontext()
        return rewrite_array_pipeline(
            self._arrays, lambda refusal: self._on_refusal(refusal.received)
        )


def _compiled(model: Any) -> list[Any]:
    """What a traced step holds on to, objects that ``compile`` makes anew among them."""
    made = compile_loss(model), compile_metrics(model), compile_config(model)
    return [model, model.optimizer, *made, *model.weights]


def _learning(model: Any) -> list[tuple[Any, bool]]:
    """Layers and weights, and which of them are to learn."""
    parts = [*_layers(model), *model.weights]
    return [(part, learning_setting(part)) for part in parts]


def _set_learning(learning: list[tuple[Any, bool]]) -> None:
    for part, learns in learning:
        set_learning_setting(part, learns)


class _Written:
    """The user's settings of a model, with what was traced under them, to be put in force again."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._policies = {id(layer): (layer, layer.dtype_policy) for layer in _layers(model)}
        self._settings = {k: getattr(model, k) for k in _SETTINGS}

    @property
    def jit_compile(self) -> Any:
        return self._settings["jit_compile"]

    @property
    def functions(self) -> dict[str, Any]:
        return {name: self._settings[name] for name in _FUNCTIONS}

    def give_back(self) -> None:
        self._give_back_what_is_asked()
        _set(self._model, self._settings)

    def _give_back_what_is_asked(self) -> None:
        """All but what trains: it is the training's, which may go on in another thread."""
        for layer, policy in self._policies.values():
            if layer.dtype_policy.name != policy.name:
                with tf.init_scope():  # what it makes must not belong to a callback's graph
                    set_policy(layer, policy)
        _set(self._model, {k: v for k, v in self._settings.items() if k != _TRAINS})

    @contextmanager
    def while_asked(self) -> Iterator[None]:
        """What callbacks ask of the model, and of parts of it, is answered as it is written.

        They may save or clone the whole model or an encoder inside it, by whichever of Keras's
        functions: these ask the layers for their configuration. A layer of the user's may look up
        its own policy for that, so where a model is asked itself, all is as written. So it is for
        what they predict and evaluate: as many steps, in the precision of the layers.
        """
        configure = keras.layers.Layer.get_config

        @functools.wraps(configure)  # Keras looks for its own mark on it
        def get_config(layer: Any) -> Any:
            found = configure(layer)
            _, policy = self._policies.get(id(layer), (None, None))
            if policy is not None and "dtype" in found:
                found["dtype"] = keras.dtype_policies.serialize(policy)
            return found

        call = self._called(keras.layers.Layer.__call__)
        with ExitStack() as stack:
            stack.enter_context(_in_place(keras.layers.Layer, "get_config", get_config))
            for name in _ASKED:
                method = self._around(getattr(keras.Model, name))
                stack.enter_context(_in_place(keras.Model, name, method))
            if any(layer.dtype_policy.name != p.name for layer, p in self._policies.values()):
                stack.enter_context(_in_place(keras.layers.Layer, "__call__", call))
            yield

    def _around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of models that finds what belongs to this one as its user wrote it."""

        @functools.wraps(method)
        def asked(model: Any, /, *args: Any, **kwargs: Any) -> Any:
            of_fit = kwargs.get(IN_FIT, False)  # its own validation
            if of_fit or not any(id(layer) in self._policies for layer in _layers(model)):
                return method(model, *args, **kwargs)
            edited = _Written(self._model)
            self._give_back_what_is_asked()
            try:
                return method(model, *args, **kwargs)
            finally:
                # What was traced for it serves the next time, and stays on the model in the end.
                self._settings |= {name: getattr(self._model, name) for name in _OTHERS}
                edited._give_back_what_is_asked()

        return asked

    def _called(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A layer that is called outside of the step computes in its own precision.

        Op by op, or from a function that somebody else's graph is made of: a callback's, say.
        """
        as_written = self._around(call)

        @functools.wraps(call)
        def called(layer: Any, /, *args: Any, **kwargs: Any) -> Any:
            in_step = self._model.run_eagerly or is_in_keras_step()
            return (call if in_step else as_written)(layer, *args, **kwargs)

        return called


@contextmanager
def _in_place(owner: type, name: str, method: Any) -> Iterator[None]:
    """Another method for a while; afterwards the class has, and inherits, what it did."""
    own = vars(owner).get(name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _set(model: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(model, name, value)


def _layers(model: Any) -> list[Any]:
    return flatten_layers(model)
