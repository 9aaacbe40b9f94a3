"""Python values that the script's code reads, recorded so that changes can be detected.

A traced function keeps what Python told it while it was traced: a number, a flag, which layers were
trainable. Code that runs op by op sees each change at its next call. With guards a traced one still
does: they are looked at before each call, and where one no longer holds, it is traced anew. The
same guards, before and after a call, show what the call itself changes in Python.

What is read by name counts: globals, closures, defaults, attributes, entries of small containers.
The values of TensorFlow's variables do not; a traced function reads them as they are.
"""

from __future__ import annotations

import collections
import datetime
import functools
import inspect
import pathlib
import random
import re
import sys
import time
from itertools import chain
from types import (
    BuiltinFunctionType,
    CellType,
    DynamicClassAttribute,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.keras3.layers import READ_IN_STEPS, flatten_layers
from uncork.core.base.record import digest
from uncork.pycode.frames.stack import is_user_file
from uncork.pycode.purity.code_objects import (
    attribute_names,
    code_bytes,
    functions_of_entry,
    global_names,
    handles_errors,
    imported_names,
    is_user_class,
    is_user_module,
    iterate_code,
)

# Entries of a container that are compared at each call, and bytes of an array: some microseconds.
_MOST_ENTRIES: Final = 256
_MOST_BYTES: Final = 1 << 12
# What a field of a named tuple is.
_Field: Final = type(vars(collections.namedtuple("_", "a"))["a"])
_PLAIN: Final = (
    _Field,
    type(None), bool, int, float, complex, str, bytes, np.generic, tf.DType, np.dtype, range,
    slice, re.Pattern, pathlib.PurePath, datetime.date, datetime.timedelta, tf.TensorShape,
)  # fmt: skip
# Modules whose functions answer otherwise at each call: in a traced function they answer once.
_CHANGING: Final = (random, time, datetime, np.random)
_GENERATORS: Final = (random.Random, np.random.Generator, np.random.RandomState)
_FRAMEWORKS: Final = ("tensorflow", "keras", "numpy")
# Methods that Keras calls in a step, whether the user's code names them or not.
_CALLED_BY_KERAS: Final = frozenset({
    "build", "call", "compute_loss", "compute_loss_and_updates", "compute_metrics", "result",
    "train_step", "update_state", "update_step",
})  # fmt: skip
_SET_BY_FIT: Final = frozenset({
    "history", "predict_function", "stop_training", "test_function", "train_function",
})  # fmt: skip
# By these an object answers with what stands under other names.
_ANSWERING: Final = ("__call__", "__getattr__", "__getitem__")
_GONE: Final = object()


class UnguardedError(Exception):
    """Something is read that cannot be watched; the message says what, as part of a sentence."""


class StateGuards:
    """The Python values that the script's code reads, with their current state.

    Args:
        roots: Functions, and objects that they receive or whose methods they call.

    Raises:
        UnguardedError: It reads values that Uncork cannot observe, or that differ at each call.

    Example:
        >>> settings = {"scale": 2.0}
        >>> guards = StateGuards(settings)
        >>> print(guards.find_change())
        None
        >>> settings["scale"] = 4.0
        >>> guards.find_change()
        'dict'
    """

    def __init__(self, *roots: Any) -> None:
        self._attributes: set[str] = set()
        self._read: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._cells: dict[int, tuple[str, CellType, Any]] = {}
        self._containers: dict[int, tuple[str, Any, tuple[Any, ...]]] = {}
        self._arrays: dict[int, tuple[str, Any, bytes]] = {}
        self._codes: set[bytes] = set()
        self._met: dict[int, Any] = {}
        try:
            self._follow(roots)
        except UnguardedError:
            raise
        except Exception as error:  # an object that minds being looked at
            raise UnguardedError(f"Uncork cannot observe it: {type(error).__name__}") from error

    @property
    def code_digest(self) -> str:
        """Digest of all code of the user's that may run."""
        return digest(*sorted(self._codes))

    def find_change(self) -> str | None:
        """The name of something that is no longer as it was; None where all is."""
        for held, key, then in self._read.values():
            if not _same(held.get(key, _GONE), then):
                return key
        for name, cell, then in self._cells.values():
            if not _same(_content(cell), then):
                return name
        for name, container, entries in self._containers.values():
            now = _entries(container)
            if len(now) != len(entries) or not all(map(_same, now, entries)):
                return name
        for name, array, data in self._arrays.values():
            if array.tobytes() != data:
                return name
        return None

    def _follow(self, roots: tuple[Any, ...]) -> None:
        known = -1
        while known != len(self._attributes):  # a name met late may be of what was met early
            known = len(self._attributes)
            self._met.clear()
            for root in roots:
                self._walk(getattr(root, "__name__", type(root).__name__), root)
        self._met.clear()

    def _walk(self, name: str, value: Any) -> None:
        if value is _GONE or isinstance(value, _PLAIN) or id(value) in self._met:
            return
        self._met[id(value)] = value
        if isinstance(value, (tuple, frozenset, list, dict, set)):
            self._walk_entries(name, value)
            self._walk_own(value)
        elif isinstance(value, np.ndarray):
            self._note_array(name, value)
        elif isinstance(value, ModuleType):
            self._walk_module(name, value)
        elif isinstance(value, MethodType):
            self._walk(name, value.__func__)
            self._walk(name, value.__self__)
        elif isinstance(value, functools.partial):
            self._walk(name, (value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, FunctionType):
            self._walk_function(value)
        elif isinstance(value, BuiltinFunctionType):
            self._walk(name, value.__self__)
        elif isinstance(value, type):
            self._walk_class(value)
        else:
            self._walk_object(name, value)

    def _walk_entries(self, name: str, container: Any) -> None:
        if len(container) > _MOST_ENTRIES:
            raise UnguardedError(f"'{name}' has {len(container)} entries")
        entries = _entries(container)
        if not isinstance(container, (tuple, frozenset)):
            self._containers[id(container)] = (name, container, entries)
        for entry in entries:
            self._walk(name, entry)

    def _walk_own(self, container: Any) -> None:
        """What a container of another class has beside its entries."""
        if getattr(container, "__dict__", None):
            self._note(vars(container), self._attributes, absent=True)
        if is_user_class(type(container)):
            self._walk_class(type(container), made=True)

    def _note_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        if array.nbytes > _MOST_BYTES or array.dtype.hasobject:
            raise UnguardedError(
                f"'{name}' is a NumPy array, which a graph would treat as a constant"
            )
        self._arrays[id(array)] = (name, array, array.tobytes())

    def _walk_module(self, name: str, module: ModuleType) -> None:
        if module in _CHANGING:
            raise UnguardedError(f"'{name}' returns a different value at each call")
        if is_user_module(module):
            self._note(vars(module), self._attributes)

    def _walk_function(self, function: FunctionType) -> None:
        self._note(vars(function), self._attributes)
        if not is_user_file(function.__code__.co_filename):
            # A library's wrapper counts as what it was put around.
            for cell in function.__closure__ or ():
                if isinstance(_content(cell), (FunctionType, MethodType)):
                    self._walk(function.__name__, _content(cell))
            return
        for code in iterate_code(function.__code__):
            if handles_errors(code):
                name = function.__name__
                raise UnguardedError(
                    f"'{name}' catches errors, but a graph raises them outside of '{name}'"
                )
            self._codes.add(code_bytes(code))
            self._attributes |= attribute_names(code)
            self._note(function.__globals__, global_names(code))
            for module in imported_names(code):
                self._walk(module, sys.modules.get(module))
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._cells[id(cell)] = (name, cell, _content(cell))
            self._walk(name, _content(cell))
        defaults = function.__defaults__ or (), (function.__kwdefaults__ or {}).values()
        for default in chain(*defaults):
            self._walk(f"{function.__name__}=", default)

    def _walk_class(self, class_: type, *, made: bool = False) -> None:
        """Its functions; of an object that is made already, those that may be called."""
        for base in filter(is_user_class, class_.__mro__):
            own = vars(base)
            for key, value in list(own.items()):
                if not made or self._may_be_called(key):
                    for function in functions_of_entry(value):
                        self._walk(key, function)
            self._note(
                own,
                {k for k in self._attributes if not functions_of_entry(own.get(k))},
                absent=True,
            )

    def _may_be_called(self, key: str) -> bool:
        special = key.startswith("__") and key not in ("__init__", "__new__")
        return special or key in self._attributes or key in _CALLED_BY_KERAS

    def _walk_object(self, name: str, value: Any) -> None:
        framework = type(value).__module__.partition(".")[0] in _FRAMEWORKS
        inner = value.python_function if framework and _is_tf_function(value) else None
        inner = value.__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else inner
        if isinstance(inner, (FunctionType, MethodType)):
            self._walk(name, inner)
            return
        if isinstance(value, keras.callbacks.Callback):
            raise UnguardedError(f"'{name}' is a callback, or calls one")
        if isinstance(value, _GENERATORS):
            raise UnguardedError(f"'{name}' samples random numbers in Python")
        if isinstance(value, keras.layers.Layer):
            for layer in flatten_layers(value, include_self=False):
                self._walk(layer.name, layer)
        if isinstance(value, (keras.layers.Layer, *_keras_parts())):
            self._note_keras(value)
        if framework:
            return
        held = inspect.getattr_static(value, "__dict__", None)
        if held is None or any(vars(c).get("__slots__") for c in type(value).__mro__):
            raise UnguardedError(f"'{name}' is a '{type(value).__name__}'")
        if not any(map(is_user_class, type(value).__mro__)):
            self._must_be_passive(name, value)
        self._walk_class(type(value), made=True)
        self._note(vars(value), self._attributes, absent=True)

    def _must_be_passive(self, name: str, value: Any) -> None:
        """Refuse a library's object whose methods or computed attributes may hide changes."""
        kind, own = type(value), isinstance(value, (keras.layers.Layer, *_keras_parts()))
        computed = (inspect.getattr_static(kind, each, None) for each in self._attributes)
        looks_up = (
            isinstance(inspect.getattr_static(kind, "__getattribute__"), FunctionType)
            or any(each in vars(base) for base in kind.__mro__ for each in _ANSWERING)
            or any(map(_computes, computed))
        )
        if looks_up and not own:
            raise UnguardedError(
                f"'{name}' is a '{kind.__name__}', which computes its attributes when they are read"
            )
        for key in self._attributes:
            if callable(inspect.getattr_static(type(value), key, None)):
                raise UnguardedError(
                    f"'{name}' is a '{type(value).__name__}', whose {key} may be used"
                )

    def _note_keras(self, value: Any) -> None:
        held = vars(value)
        self._note(held, self._attributes - _SET_BY_FIT)
        for key, now in list(held.items()):
            if key in _SET_BY_FIT or (key.startswith("_") and key not in READ_IN_STEPS):
                continue
            if isinstance(now, (keras.Variable, tf.Variable)):
                continue
            code = isinstance(now, (FunctionType, MethodType, functools.partial))
            if isinstance(now, _PLAIN) or code or isinstance(now, _keras_parts()):
                self._read[id(held), key] = (held, key, now)
                self._walk(key, now)  # a loss, an activation, a schedule, a regularizer
            elif key == "_layers":
                self._containers[id(now)] = (key, now, _entries(now))

    def _note(self, held: Any, names: set[str], *, absent: bool = False) -> None:
        """What stands under these names, and all that can be reached from there.

        Args:
            held: Globals, or attributes.
            names: That the code reads.
            absent: Also that there is nothing yet under some of them.
        """
        for key in list(names) if absent else names & held.keys():  # more are met on the way
            value = held.get(key, _GONE)
            self._read[id(held), key] = (held, key, value)
            self._walk(key, value)


@functools.cache
def _keras_parts() -> tuple[type, ...]:
    """Of what one of Keras's objects holds; layers are met by themselves.

    Asked for late: this module may be imported while Keras is.
    """
    return (
        keras.optimizers.Optimizer,
        keras.losses.Loss,
        keras.metrics.Metric,
        keras.optimizers.schedules.LearningRateSchedule,
        keras.regularizers.Regularizer,
        keras.constraints.Constraint,
    )


def _computes(value: Any) -> bool:
    """What a class has in the place of an attribute: its answer lies elsewhere, or nowhere."""
    kept = (functools.cached_property, DynamicClassAttribute)  # among attributes; an enum's own
    return hasattr(type(value), "__get__") and not callable(value) and not isinstance(value, kept)


def _is_tf_function(value: Any) -> bool:
    return isinstance(value, tf.types.experimental.GenericFunction)


def _same(now: Any, then: Any) -> bool:
    if now is then:
        return True
    return type(now) is type(then) and isinstance(then, _PLAIN) and bool(now == then)


def _entries(container: Any) -> tuple[Any, ...]:
    if isinstance(container, dict):
        return (*container.keys(), *container.values())
    return tuple(container)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return _GONE
