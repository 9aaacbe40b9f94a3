"""Hooks on TensorFlow and Keras that report training calls to a listener.

Classes are patched, not names in modules that a script imports: ``from keras import Model`` cannot
escape. All of it waits for the script's own imports and is gone afterwards.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from uncork.capture.base.listener import CallSites, FitCall, Listener
from uncork.capture.base.patches import PatchSet
from uncork.capture.base.stop import ScriptStopper
from uncork.capture.hooks.dataset_arguments import Arguments, find_datasets, replace_datasets
from uncork.capture.hooks.dataset_loops import DatasetLoops
from uncork.capture.hooks.layer_hooks import record_layers
from uncork.capture.hooks.step_loops import StepLoops
from uncork.capture.hooks.training_evidence import TrainingEvidence
from uncork.compat.hook_targets import (
    KERAS_2_TRAINER,
    KERAS_BASE_OPTIMIZER,
    KERAS_GLOBAL_STATE,
    KERAS_JAX_TRAINER,
    KERAS_TF_TRAINER,
    KERAS_TORCH_TRAINER,
    KERAS_TRAINER,
    TF_DATASETS,
    TF_FUNCTIONS,
    TF_TAPES,
)
from uncork.core.base.errors import WrongUse
from uncork.pycode.frames.training_line import (
    UNKNOWN_LINE,
    iterating_line,
    stepping_line,
    user_codes,
    user_line,
)

# Trainers whose training Uncork knows nothing about: module, class, what to call it.
_FOREIGN: Final = (
    (KERAS_JAX_TRAINER, "JAXTrainer", "Keras's jax backend"),
    (KERAS_TORCH_TRAINER, "TorchTrainer", "Keras's torch backend"),
    (KERAS_2_TRAINER, "Model", "Keras 2 (tf_keras)"),
)


@contextmanager
def report_training_calls(listener: Listener) -> Iterator[None]:
    """Report training calls to ``listener`` while the block runs.

    A stop raised by the listener ends the block without an error, and so does whatever the script
    makes of it; only Ctrl-C and Uncork's own errors come through.

    Example:
        >>> from uncork.capture.base.listener import PassThroughListener
        >>> with report_training_calls(PassThroughListener()):
        ...     pass  # the user's code
    """
    hooks = _Hooks(listener)
    try:
        hooks.install()
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not hooks.stops.is_pending:
            raise
    finally:
        hooks.remove()
    if hooks.stops.cause is not None:
        raise hooks.stops.cause


class _Hooks:
    def __init__(self, listener: Listener) -> None:
        self.patches = PatchSet()
        self.stops = ScriptStopper()
        self._listener = listener
        listener.run_guarded = self.stops.run_guarded
        self._sites = CallSites()
        self._evidence = TrainingEvidence()
        self._compiled_at: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._loops = DatasetLoops(listener, self.stops, self._sites, self._evidence)
        self._steps = StepLoops(listener, self.stops, self._sites, self._evidence, self._loops)
        self._loops.on_recognised = self._steps.discard_candidates
        self._process = os.getpid()
        self._inside = threading.local()

    def install(self) -> None:
        """Patch what is imported already, and the rest as it comes."""
        when_imported = self.patches.when_imported
        when_imported(TF_DATASETS, self._on_datasets)
        when_imported(TF_TAPES, self._on_tapes)
        if self._listener.wants_loops:
            when_imported(TF_FUNCTIONS, self._on_functions)
        when_imported(KERAS_TF_TRAINER, self._on_trainer)
        when_imported(KERAS_TRAINER, self._on_compile)
        when_imported(KERAS_GLOBAL_STATE, self._on_settings)
        when_imported(KERAS_BASE_OPTIMIZER, self._on_optimizers)
        if self._listener.accepts_jax:
            when_imported(KERAS_JAX_TRAINER, self._on_jax_trainer)
        for module, name, what in _FOREIGN if self._listener.refuses_foreign else ():
            if self._listener.accepts_jax and module == KERAS_JAX_TRAINER:
                continue
            when_imported(module, functools.partial(self._on_foreign, name=name, what=what))
        if self._listener.wants_source_lines:
            # The pipeline engine needs all of TensorFlow, and no dataset can be older than that.
            when_imported("tensorflow", _record_source_lines)
            record_layers(self.patches, self._evidence.layers)
            self._evidence.startup_times.start()

    def remove(self) -> None:
        """Leave TensorFlow and Keras as they were, and no iterator watched."""
        self.patches.restore()
        self._loops.close()
        self._evidence.startup_times.stop()

    def _on_datasets(self, module: Any) -> None:
        eager = module.context.executing_eagerly

        def make(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
            @functools.wraps(original)
            def iterate(dataset: Any) -> Any:
                at = None
                if self._is_ours() and eager():
                    at = iterating_line(sys._getframe(1))
                if at is None:
                    return original(dataset)
                return self._loops.watch_loop(dataset, at, original, eager)

            return iterate

        self.patches.replace(module.DatasetV2, "__iter__", make)

    def _on_functions(self, module: Any) -> None:
        eager, steps, listener = module.context.executing_eagerly, self._steps, self._listener
        evidence = self._evidence

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
                evidence.note_activity()
                wanted = listener.wants_steps or find_datasets(args, kwargs)
                if wanted and eager() and self._is_ours():
                    args, kwargs = self._before(function, args, kwargs, sys._getframe(1))
                if not steps.is_candidate(function) or not eager() or not self._is_ours():
                    return original(function, *args, **kwargs)
                run = functools.partial(original, function)
                return steps.run_call(function, sys._getframe(1), run, args, kwargs)

            return call

        self.patches.replace(module.Function, "__call__", make)

    def _before(self, function: Any, args: Any, kwargs: Any, frame: FrameType) -> Arguments:
        """Arguments of a compiled function, with the listener's datasets for the user's."""
        at, listener = stepping_line(frame), self._listener
        if at is None:  # Keras's own, or one that a listener calls in the place of the user's
            return args, kwargs
        if listener.wants_steps:
            self.stops.run_guarded(lambda: listener.step(function))
        give = listener.dataset
        return replace_datasets(args, kwargs, lambda d: self.stops.run_guarded(lambda: give(d, at)))

    def _on_tapes(self, module: Any) -> None:
        eager, evidence = module.context.executing_eagerly, self._evidence

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def gradient(*args: Any, **kwargs: Any) -> Any:
                evidence.note_activity()
                if eager():
                    frame = sys._getframe(1)
                    evidence.note_eager_gradients(lambda: user_codes(frame))
                else:
                    evidence.traced_gradients += 1
                return original(*args, **kwargs)

            return gradient

        self.patches.replace(module.GradientTape, "gradient", make)

    def _on_optimizers(self, module: Any) -> None:
        eager, steps = _executing_eagerly, self._steps

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
                # Called while the step is traced, too: from then on its counter tells.
                self._evidence.add_optimizer(optimizer)
                self._evidence.note_activity()
                self._evidence.traced_updates += not eager()
                if not steps.is_candidate(optimizer) or not eager() or not self._is_ours():
                    return original(optimizer, *args, **kwargs)
                run = functools.partial(original, optimizer)
                return steps.run_call(optimizer, sys._getframe(1), run, args, kwargs, is_eager=True)

            return apply

        self.patches.replace(module.BaseOptimizer, "apply", make)

    def _on_trainer(self, module: Any) -> None:
        self.patches.replace(module.TensorFlowTrainer, "fit", self._make_fit)
        self.patches.replace(module.TensorFlowTrainer, "train_on_batch", self._make_train_on_batch)

    def _on_jax_trainer(self, module: Any) -> None:
        self.patches.replace(module.JAXTrainer, "fit", self._make_fit)

    def _on_compile(self, module: Any) -> None:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def compile(model: Any, /, *args: Any, **kwargs: Any) -> Any:
                self._compiled_at[model] = user_line(sys._getframe(1))
                return original(model, *args, **kwargs)

            return compile

        self.patches.replace(module.Trainer, "compile", make)

    def _on_settings(self, module: Any) -> None:
        """All names under which Keras sets a dtype policy for new layers end here."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def set_global_attribute(name: str, value: Any) -> Any:
                if name == "dtype_policy":  # Keras sets float32 itself when it is first asked
                    at = user_line(sys._getframe(1))
                    name_of = getattr(value, "name", "float32")
                    self._evidence.policy_at = (
                        None if name_of == "float32" or at == UNKNOWN_LINE else at
                    )
                return original(name, value)

            return set_global_attribute

        self.patches.replace(module, "set_global_attribute", make)

    def _on_foreign(self, module: Any, *, name: str, what: str) -> None:
        self.patches.replace(
            getattr(module, name), "fit", functools.partial(self._make_refusal, what=what)
        )

    def _make_fit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(model: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(model, *args, **kwargs)
            except TypeError:
                bound = None  # Keras says it better
            if bound is None or not self._is_ours():
                return original(model, *args, **kwargs)
            bound.apply_defaults()
            _, *arguments = bound.arguments.items()
            at = user_line(sys._getframe(1))
            self._evidence.startup_times.stop()
            return self._fit(
                FitCall(
                    index=self._sites.index(at),
                    at=at,
                    step_setup_at=self._compiled_at.get(model),
                    policy_at=self._evidence.policy_at,
                    model=model,
                    arguments=dict(arguments),
                    original=functools.partial(original, model),
                    layers=self._evidence.layers,
                    startup_lines=self._evidence.startup_times.lines,
                )
            )

        return fit

    def _fit(self, call: FitCall) -> Any:
        """Hand a ``fit`` to the listener; what happens inside it is no training of its own."""
        self._evidence.fit_calls += 1
        self._inside.fit = True
        try:
            return self.stops.run_guarded(lambda: self._listener.fit(call))
        finally:
            self._inside.fit = False

    def _make_train_on_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def train_on_batch(*args: Any, **kwargs: Any) -> Any:
            self._evidence.train_on_batch_calls += 1
            self._evidence.note_activity()
            model, *batch = args
            if not self._steps.is_candidate(model) or not self._is_ours():
                return original(*args, **kwargs)
            run = functools.partial(original, model)
            return self._steps.run_call(model, sys._getframe(1), run, tuple(batch), kwargs)

        return train_on_batch

    def _make_refusal(self, original: Callable[..., Any], *, what: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def fit(*args: Any, **kwargs: Any) -> Any:
            del args, kwargs
            at = user_line(sys._getframe(1))
            return self.stops.run_guarded(lambda: _refuse(at, what))

        return fit

    def _is_ours(self) -> bool:
        """Not in a forked worker, and not inside a ``fit`` that a listener already has."""
        return os.getpid() == self._process and not getattr(self._inside, "fit", False)


def _executing_eagerly() -> bool:
    """Keras's optimizers may be imported, but not called, before TensorFlow is."""
    from tensorflow import executing_eagerly  # noqa: PLC0415

    return bool(executing_eagerly())


def _refuse(at: str, what: str) -> None:
    raise WrongUse(
        f"the training at {at} runs on {what}",
        "Keras 3 on the TensorFlow backend",
        "unset KERAS_BACKEND and TF_USE_LEGACY_KERAS, and import keras or tf.keras",
    )


def _record_source_lines(module: Any) -> None:
    from uncork.pycode.frames.dataset_lines import record_source_lines  # noqa: PLC0415

    del module
    record_source_lines()
