"""Functions and data of the script that the code of a Python loader can reach.

By name, and through whatever holds something: attributes, containers, defaults, closures, classes,
modules. What a library keeps for itself is out of sight.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pickle
import random
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from uncork.core.base.record import digest
from uncork.pycode.frames.stack import is_user_file
from uncork.pycode.purity.code_objects import (
    closure_cells,
    code_bytes,
    functions_of_entry,
    imported_names,
    is_user_class,
    is_user_module,
    iterate_code,
)

# More data than this is not digested: it would take seconds, and several times so.
_MOST_BYTES: Final = 512 << 20
# Of containers with more entries, only the kind is part of what a plan expects.
_FEW: Final = 8
_DEPTH: Final = 3
# Whose module has no file where the script is typed in.
_NOTEBOOK: Final = "__main__"
# Keras's class of loaders.
_LOADER: Final = "PyDataset"
_GENERATORS: Final = (random.Random, np.random.Generator, np.random.RandomState)


@dataclass
class ReachableCode:
    """What a loader's code can get at.

    Attributes:
        functions: The user's.
        named_values: Data, each with the name that it was found by.
        generators: Of random numbers, Python's and NumPy's.
        digest: Of the data, without the states of the generators; ``""`` where it cannot be
            digested.
        has_own_state: A function among it keeps what it has returned (``functools.lru_cache``).
    """

    functions: list[FunctionType] = field(default_factory=list)
    named_values: list[tuple[str, Any]] = field(default_factory=list)
    generators: list[Any] = field(default_factory=list)
    digest: str = ""
    has_own_state: bool = False
    _known: set[tuple[str, int]] = field(default_factory=set)
    # Which name means which code: part of the digest. Held, so that no other gets its number.
    _bound: dict[tuple[str, int], Any] = field(default_factory=dict)
    _modules: list[ModuleType] = field(default_factory=list)

    @property
    def code_objects(self) -> list[CodeType]:
        """Of the functions, and of what is defined inside them."""
        return [code for function in self.functions for code in iterate_code(function.__code__)]

    @property
    def names(self) -> frozenset[str]:
        """All that the code calls something."""
        return frozenset(name for code in self.code_objects for name in code.co_names)

    @property
    def library_names(self) -> frozenset[str]:
        """Names of the packages that are not the user's, of all code and data that was met.

        Those that a function imports when it runs are among them.

        Example:
            >>> import fractions, keras
            >>> dataset = keras.utils.PyDataset()
            >>> dataset.share = fractions.Fraction(1, 3)
            >>> "fractions" in find_reachable(dataset).library_names
            True
        """
        inside = (name for code in self.code_objects for name in imported_names(code))
        found = {_package(name) for name in inside if not _is_users(name)}
        return frozenset(found.union(*map(_libraries, self._bound.values())) - {_NOTEBOOK})

    def add(self, name: str, value: Any) -> None:
        """A value, and what can be reached from it if it is code."""
        is_code = isinstance(value, (MethodType, FunctionType, type, ModuleType))
        if is_code or isinstance(value, (BuiltinFunctionType, np.ufunc)):
            meant = value.__func__ if isinstance(value, MethodType) else value
            self._bound[name, id(meant)] = meant
        key = ("" if is_code else name, id(value))
        if key in self._known:
            return
        self._known.add(key)
        if isinstance(value, (MethodType, BuiltinFunctionType)):
            self.add(name, getattr(value, "__func__", None))
            self.add(name, value.__self__)  # of a module's own functions, the module
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, ModuleType):
            if is_user_module(value):
                self._modules.append(value)
        elif not isinstance(value, np.ufunc):
            self.named_values.append((name, value))
            self.add(name, type(value))

    def add_named(self) -> None:
        """Attributes of the user's modules that the code may mean by its names."""
        names = self.names
        for module in (sys.modules.get(name) for name in names):
            # Imported by a function of the user's; a library's own name says nothing of it.
            if isinstance(module, ModuleType) and is_user_module(module):
                self.add(module.__name__, module)
        for module in tuple(self._modules):
            for name in names & vars(module).keys():
                self.add(name, vars(module)[name])

    def _add_function(self, function: FunctionType) -> None:
        held = dict(closure_cells(function)) | vars(function)
        if not is_user_file(function.__code__.co_filename):
            # A library's wrapper: it counts as what it was put around.
            for name, value in held.items():
                if isinstance(value, (FunctionType, MethodType)):
                    self.add(name, value)
            return
        self.functions.append(function)
        known = function.__globals__
        names = {name for code in iterate_code(function.__code__) for name in code.co_names}
        for name in sorted(names & known.keys()):
            self.add(name, known[name])
        for name, value in held.items():
            self.add(name, value)
        self.add("defaults", (function.__defaults__, function.__kwdefaults__))

    def _add_class(self, class_: type) -> None:
        for base in class_.__mro__:
            own = [f for v in vars(base).values() for f in functions_of_entry(v)]
            if any(is_user_file(f.__code__.co_filename) for f in own) or is_user_class(base):
                for function in own:
                    self.add(function.__name__, function)
                for name, value in vars(base).items():
                    if not name.startswith("__") and not functions_of_entry(value):
                        self.add(name, value)


def find_reachable(dataset: Any) -> ReachableCode:
    """All that a loader's code can get at."""
    found = ReachableCode()
    with suppress(Exception):  # what holds an open file, a lock, too much, or minds being asked
        found.add("self", type(dataset))
        found.add("self", dict(vars(dataset)))
        _follow(found)
    return found


def find_reachable_from_function(function: Any) -> ReachableCode:
    """All that a function, or any other callable of the user's, can get at."""
    found = ReachableCode()
    with suppress(Exception):
        found.add("function", function)
        _follow(found)
    return found


def _follow(found: ReachableCode) -> None:
    """Until nothing new is met."""
    while True:
        before = len(found.functions), len(found.named_values)
        found.add_named()
        pickler = _Digesting()
        found.generators = pickler.generators
        pickler.dump([list(found._bound), [value for _, value in found.named_values]])
        found.has_own_state = pickler.remembers
        for code in pickler.code:
            found.add("", code)
        if before == (len(found.functions), len(found.named_values)):
            found.digest = pickler.digest()
            break


def _libraries(code: Any) -> set[str]:
    """Of a module, function or class, and of what that is derived from, but for the loader itself.

    The user's own count for nothing.
    """
    if isinstance(code, type):
        others = (each for each in code.__mro__ if not is_user_class(each))
        return {_package(each.__module__) for each in others if each.__name__ != _LOADER}
    if isinstance(code, ModuleType):
        return set() if is_user_module(code) else {_package(code.__name__)}
    if isinstance(code, FunctionType) and is_user_file(code.__code__.co_filename):
        return set()
    if getattr(code, "__qualname__", "").startswith(f"{_LOADER}."):
        return set()
    return {_package(getattr(code, "__module__", None) or type(code).__module__)}


def _is_users(module: str) -> bool:
    known = sys.modules.get(module)
    return not module or (isinstance(known, ModuleType) and is_user_module(known))


def _package(module: str) -> str:
    return module.partition(".")[0]


def state_digest(dataset: Any) -> str:
    """Of all data that a loader can get at but random states; ``""`` where that cannot be told."""
    return find_reachable(dataset).digest


def value_digest(value: Any) -> str:
    """Of data.

    Raises:
        Exception: It cannot be digested, or it is too much.
    """
    pickler = _Digesting()
    pickler.dump(value)
    return pickler.digest()


def loader_digest(dataset: Any) -> str:
    """Of a loader's code and of the settings that it reads, not of its data.

    Example:
        >>> import keras
        >>> class Numbers(keras.utils.PyDataset):
        ...     def __getitem__(self, index):
        ...         return index
        >>> loader_digest(Numbers()) == loader_digest(Numbers())
        True
    """
    return _code_digest(find_reachable(dataset))


def function_digest(function: Any) -> str:
    """The same of a function, or of any other callable.

    Example:
        >>> function_digest(lambda x: x + 1) == function_digest(lambda x: x + 2)
        True
    """
    return _code_digest(find_reachable_from_function(function))


def named_code_digest(*callables: Any) -> str:
    """Of all code of the user's that functions and classes name, and which that names; not of data.

    Example:
        >>> named_code_digest(len) == named_code_digest(max)  # neither is the user's
        True
    """
    found, before = ReachableCode(), -1
    with suppress(Exception):  # what minds being asked
        for each in callables:
            found.add("", each)
        while before != len(found.functions):
            before = len(found.functions)
            found.add_named()
            for name, value in tuple(found.named_values):
                if isinstance(inspect.getattr_static(value, "python_function", None), property):
                    found.add(name, value.python_function)  # of another tf.function
    return digest(*sorted({code_bytes(code) for code in found.code_objects}))


def _code_digest(found: ReachableCode) -> str:
    names = found.names
    state = hashlib.blake2b(digest_size=8)
    for code in found.code_objects:
        state.update(code_bytes(code))
    for name, value in found.named_values:
        state.update(f"{name}={_said(value, names, _DEPTH)};".encode())
    return state.hexdigest()


class _Digesting(pickle.Pickler):
    """Digests what it would write; code counts as the same as long as it is the same object.

    Attributes:
        code: Classes, functions and modules that were met.
        generators: Of random numbers, that were met; their states are left out.
        remembers: A function that keeps what it has returned was met.
    """

    def __init__(self) -> None:
        self.remembers = False
        self._bytes = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self.code: list[Any] = []
        self.generators: list[Any] = []
        super().__init__(self, protocol=5, buffer_callback=lambda held: self.write(held.raw()))

    def write(self, data: Any) -> None:
        """Take some of what is pickled."""
        self._bytes += memoryview(data).nbytes
        if self._bytes > _MOST_BYTES:
            raise ValueError("more data than Uncork hashes")
        self._hash.update(data)

    def persistent_id(self, value: Any) -> str | None:
        """Stand-in for a value that is not data.

        Raises:
            ValueError: It samples random numbers whose state cannot be restored.
        """
        if isinstance(value, random.SystemRandom):
            raise ValueError("random numbers of the operating system")
        if isinstance(value, _GENERATORS):
            self.generators.append(value)
        elif isinstance(value, (type, FunctionType, ModuleType)):
            self.code.append(value)
        elif isinstance(value, functools._lru_cache_wrapper):
            self.code.append(value.__wrapped__)
            self.remembers = True
        elif not (isinstance(value, np.ufunc) or _is_modules(value)):
            return None
        return f"{id(value)}"

    def digest(self) -> str:
        """Of all that was taken so far."""
        return self._hash.hexdigest()


def _is_modules(value: Any) -> bool:
    """A built-in function, and no method of some object."""
    own = getattr(value, "__self__", None)
    return isinstance(value, BuiltinFunctionType) and (own is None or isinstance(own, ModuleType))


def _said(value: Any, names: frozenset[str], depth: int) -> str:
    """What a plan expects of a value: of settings their own, of data only the kind."""
    said = kind = type(value).__name__
    if value is None or isinstance(value, (bool, int, float)):
        said = repr(value)
    elif isinstance(value, str):
        said = kind if os.sep in value else repr(value)
    elif isinstance(value, np.ndarray):
        said = f"{value.dtype}{value.shape[1:]}"
    elif depth and isinstance(value, dict):
        inner = {k: v for k, v in value.items() if k in names}
        said = str({k: _said(v, names, depth - 1) for k, v in inner.items()})
    elif depth and isinstance(value, (list, tuple)) and len(value) <= _FEW:
        said = f"{kind}{[_said(v, names, depth - 1) for v in value]}"
    elif isinstance(value, FunctionType):
        said = value.__qualname__
    elif depth and hasattr(value, "__dict__"):
        said = kind + _said(dict(vars(value)), names, depth - 1)
    return said
