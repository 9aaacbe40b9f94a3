"""Vectorizes ``tf.map_fn``, only while a step is traced.

A graph keeps what ``tf.map_fn`` answered when it was traced. So TensorFlow's own function stands in
its place again as soon as that is done, and other threads, code that runs op by op and functions of
datasets never meet another.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.autograph import mark_as_artifact
from uncork.pycode.frames.stack import format_location, is_user_file
from uncork.training.tracing.model_attribute import override_attribute
from uncork.training.tracing.scoped_override import ScopedOverride, wrap_traced
from uncork.training.tracing.vectorized_map import NotVectorizedError, call_vectorized_map

# What TensorFlow names the functions of datasets.
_OF_DATASETS: Final = "Dataset"
_NONE: Final = "the step calls no tf.map_fn"


class MapVectorizer:
    """Vectorizes calls of ``tf.map_fn`` by one step, and records which stay loops.

    Args:
        on_refusal: Of a model's step: told why, once, if no call was answered at once.

    Attributes:
        vectorized_count: How many were.

    Example:
        >>> maps = MapVectorizer()
        >>> step = tf.function(maps.wrap_function(lambda x: tf.map_fn(tf.norm, x)))
        >>> step(tf.constant([[3.0, 4.0], [6.0, 8.0]])).numpy().tolist(), maps.vectorized_count
        ([5.0, 10.0], 1)
    """

    def __init__(self, on_refusal: Callable[[str], None] = lambda _why: None) -> None:
        self.vectorized_count = 0
        self._on_none: Callable[[str], None] | None = on_refusal
        self._traced = False
        self._kept: dict[str, None] = {}

    @property
    def refusal_reason(self) -> str:
        """Why no call was vectorized, as part of a sentence; ``""`` where one was.

        And as long as nothing was traced.
        """
        return "" if self.vectorized_count or not self._traced else "; ".join(self._kept) or _NONE

    def wrap_function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function whose calls of ``tf.map_fn`` are vectorized when it is traced.

        Args:
            python: What a ``tf.function`` is made of. TensorFlow converts its branches as before.
        """
        return wrap_traced(python, self.active)

    @contextmanager
    def active(self) -> Iterator[None]:
        """On this thread, inside the block."""
        with _place.use_handler(self):
            yield
        self._traced = True

    @contextmanager
    def patch_model(self, model: Any) -> Iterator[None]:
        """Where Keras makes what it trains a model with, inside the block, it is of such a step."""
        make = model.make_train_function

        def make_train_function(force: bool = False) -> Any:
            step = model.train_step

            def traced(data: Any) -> Any:
                with self.active():
                    return step(data)

            if model.train_function is None or force:
                with override_attribute(model, "train_step", traced):
                    make(force=force)
                if model.train_function is not None:
                    model.train_function = self._telling(model.train_function)
            return model.train_function

        with override_attribute(model, "make_train_function", make_train_function):
            yield

    def _telling(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Tells after the first steps; errors of a trace keep its variables from being set."""

        def train_function(iterator: Any) -> Any:
            found = function(iterator)
            if self.refusal_reason and self._on_none is not None:
                self._on_none(self.refusal_reason)
                self._on_none = None
            return found

        return train_function

    def call_map_fn(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """In the place of a call of ``tf.map_fn``."""
        try:
            given = inspect.signature(original).bind(*args, **kwargs).arguments
        except TypeError:
            return original(*args, **kwargs)  # which says what is wrong
        try:
            found = call_vectorized_map(**given)
        except NotVectorizedError as reason:
            self._kept[f"tf.map_fn{_at()} stays a loop: {reason}"] = None
            return original(*args, **kwargs)
        self.vectorized_count += 1
        return found


def _map_fn(*args: Any, **kwargs: Any) -> Any:
    maps: MapVectorizer | None = _place.handler
    if maps is None or tf.executing_eagerly() or _is_of_dataset():
        return _place.original(*args, **kwargs)
    return maps.call_map_fn(_place.original, *args, **kwargs)


mark_as_artifact(_map_fn)  # called as it is, like TensorFlow's own
_place = ScopedOverride(lambda: tf, "map_fn", _map_fn)


def _is_of_dataset() -> bool:
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if getattr(graph, "name", "").startswith(_OF_DATASETS):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _at() -> str:
    """Where the user calls it: an op knows that, also through TensorFlow's conversion of code."""
    with tf.Graph().as_default():
        frames = list(tf.compat.v1.placeholder(tf.float32).op.traceback)
    users = [frame for frame in frames if is_user_file(frame.filename)]
    return f" at {format_location(users[-1].filename, users[-1].lineno)}" if users else ""
