"""What a Python loader reads and changes besides the index that it is given.

Threads may share what nobody changes. Whether a loader changes anything is not derived from its
code, which may call whatever it likes: it is seen. All data that its code can reach by name is
digested before and after some batches are made, each of them twice. Generators of random numbers
are another matter: they are made for being shared.
"""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal

import numpy as np

from uncork.core.stack import is_users
from uncork.step.snapshot import random_state, set_random_state

# More data than this is not digested: it would take seconds, and twice so.
_MOST_BYTES: Final = 512 << 20
# Of containers with more entries, only the kind is part of what a plan expects.
_FEW: Final = 8
_DEPTH: Final = 3
_GENERATORS: Final = (random.Random, np.random.Generator, np.random.RandomState)

Dependence = Literal["index", "draws", "more"]


def dependence(dataset: Any, most: int = 4) -> Dependence:
    """What the batches of a loader depend on.

    Args:
        dataset: A ``PyDataset``; some of its batches are made, twice. Its generators of random
            numbers, and the global ones, get their states back.
        most: How many of them.

    Returns:
        ``"index"`` where a batch is the same whenever it is asked for, and making it changes
        nothing; ``"draws"`` where that holds but for random numbers of Python's or NumPy's;
        ``"more"`` for anything else, and where it cannot be seen: an open file, a lock, a gigabyte
        of data.
    """
    with suppress(Exception):  # the user's code, or an object that cannot be digested
        before, draws = _state(dataset)
        batches = dataset.num_batches or 2 * _FEW
        indices = list(dict.fromkeys((0, batches - 1, batches // 2, min(1, batches - 1))))[:most]
        try:
            made, drew = zip(*(_made(dataset, index, draws) for index in indices), strict=True)
            between, _ = _state(dataset)  # after the last index; at the end it is after the first
            again, _ = zip(*(_made(dataset, i, draws) for i in reversed(indices)), strict=True)
        finally:
            draws.give_back()
        if made == again[::-1] and before == between == _state(dataset)[0]:
            return "draws" if any(drew) else "index"
    return "more"


def drawn_alike(dataset: Any) -> Any:
    """A copy whose batches are made one at a time, all from the random states of this moment.

    Which thread makes a batch, and when, no longer tells what it draws.
    """
    class_, (_, draws), lock = type(dataset), _state(dataset), threading.Lock()

    def __getitem__(self: Any, index: int) -> Any:  # noqa: N807 - of the class made here
        with lock:
            draws.give_back()
            return class_.__getitem__(self, index)

    other = copy.copy(dataset)
    other.__class__ = type(class_.__name__, (class_,), {"__getitem__": __getitem__})
    return other


def _made(dataset: Any, index: int, draws: _Draws) -> tuple[str, bool]:
    """Digest of a batch made from equal random states, and whether it drew."""
    draws.give_back()
    made = _digest(dataset[index])
    return made, draws.are_other()


def state_digest(dataset: Any) -> str:
    """Of all that a loader can reach but random states.

    Raises:
        Exception: Something of it cannot be digested, or it is too much.
    """
    return _state(dataset)[0]


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
    found = _reached(dataset)
    codes = [code for function in found.functions for code in _codes(function.__code__)]
    names = frozenset(name for code in codes for name in code.co_names)
    state = hashlib.blake2b(digest_size=8)
    for code in codes:
        constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
        state.update(f"{code.co_name}{code.co_names}{constants}".encode() + code.co_code)
    for name, value in found.values:
        state.update(f"{name}={_said(value, names, _DEPTH)};".encode())
    return state.hexdigest()


@dataclass
class _Reached:
    """What a loader's code can get at by name.

    Attributes:
        functions: The user's.
        values: Data, each with the name that it was found by.
    """

    functions: list[FunctionType] = field(default_factory=list)
    values: list[tuple[str, Any]] = field(default_factory=list)
    _known: set[tuple[str, int]] = field(default_factory=set)

    def add(self, name: str, value: Any) -> None:
        """A value, and what can be reached from it if it is code of the user's."""
        is_code = isinstance(value, (MethodType, FunctionType, type))
        key = ("" if is_code else name, id(value))
        if key in self._known:
            return
        self._known.add(key)
        if isinstance(value, MethodType):
            self.add(name, value.__func__)
            self.add(name, value.__self__)
        elif isinstance(value, BuiltinFunctionType):
            self.add(name, value.__self__)  # of a module's own functions, the module
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif not isinstance(value, (ModuleType, np.ufunc)):
            self.values.append((name, value))
            self.add(name, type(value))

    def _add_function(self, function: FunctionType) -> None:
        if not is_users(function.__code__.co_filename):
            return
        self.functions.append(function)
        for name, value in _named(function):
            self.add(name, value)

    def _add_class(self, class_: type) -> None:
        for base in class_.__mro__:
            own = [f for v in vars(base).values() for f in _functions(v)]
            if any(is_users(f.__code__.co_filename) for f in own):
                for function in own:
                    self.add(function.__name__, function)
                for name, value in vars(base).items():
                    if not name.startswith("__") and not _functions(value):
                        self.add(name, value)


def _reached(dataset: Any) -> _Reached:
    found = _Reached()
    found.add("self", type(dataset))
    found.add("self", dict(vars(dataset)))
    return found


def _state(dataset: Any) -> tuple[str, _Draws]:
    """Digest of all that the loader can reach but random states, and those.

    Raises:
        Exception: Something of it cannot be digested, or it is too much.
    """
    found = _reached(dataset)
    while True:
        pickler = _Digesting()
        pickler.dump([value for _, value in found.values])
        before = len(found.functions)
        for class_ in pickler.classes:
            found.add(class_.__name__, class_)
        if len(found.functions) == before:
            return pickler.digest(), _Draws(pickler.generators)


def _digest(value: Any) -> str:
    pickler = _Digesting()
    pickler.dump(value)
    return pickler.digest()


class _Draws:
    """Random states: the global ones, and those of some generators.

    Args:
        generators: Python's and NumPy's.
    """

    def __init__(self, generators: list[Any]) -> None:
        self._generators = generators
        self._global, self._own = self._now()

    def give_back(self) -> None:
        """To all the state that they had."""
        set_random_state(self._global)
        for generator, state in zip(self._generators, self._own, strict=True):
            if isinstance(generator, random.Random):
                generator.setstate(state)
            else:
                _bits(generator).state = state

    def are_other(self) -> bool:
        """Some state is another one by now."""
        (python, numpy, ops, _, seed), own = self._now()
        (python_was, numpy_was, ops_was, _, seed_was), own_was = self._global, self._own
        now, was = (
            (python, numpy, ops, seed, own),
            (python_was, numpy_was, ops_was, seed_was, own_was),
        )
        return pickle.dumps(now) != pickle.dumps(was)

    def _now(self) -> tuple[tuple[Any, ...], list[Any]]:
        own = [
            g.getstate() if isinstance(g, random.Random) else _bits(g).state
            for g in self._generators
        ]
        return random_state(), own


def _bits(generator: Any) -> Any:
    """What a generator of NumPy's draws from."""
    return getattr(generator, "_bit_generator", None) or generator.bit_generator


class _Digesting(pickle.Pickler):
    """Digests what it would write; code counts as the same as long as it is the same object.

    Attributes:
        classes: Those whose instances were met.
        generators: Of random numbers, that were met; their states are left out.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self.classes: list[type] = []
        self.generators: list[Any] = []
        super().__init__(self, protocol=5, buffer_callback=lambda held: self.write(held.raw()))

    def write(self, data: Any) -> None:
        """Take some of what is pickled."""
        self._bytes += memoryview(data).nbytes
        if self._bytes > _MOST_BYTES:
            raise ValueError("more data than is digested")
        self._hash.update(data)

    def persistent_id(self, value: Any) -> str | None:
        """Stand-in for what is no data."""
        if isinstance(value, _GENERATORS):
            self.generators.append(value)
        elif isinstance(value, type):
            self.classes.append(value)
        elif not isinstance(value, (FunctionType, BuiltinFunctionType, ModuleType, np.ufunc)):
            return None
        return f"{id(value)}"

    def digest(self) -> str:
        """Of all that was taken so far."""
        return self._hash.hexdigest()


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's names stand for: globals, attributes of the user's modules, cells."""
    known = function.__globals__
    names = dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names)
    found = [(name, known[name]) for name in names if name in known]
    yield from found
    for _, module in found:
        if isinstance(module, ModuleType) and is_users(getattr(module, "__file__", None) or "<"):
            yield from ((name, getattr(module, name)) for name in names if hasattr(module, name))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # one that is still empty
            yield name, _content(cell)


def _content(cell: CellType) -> Any:
    return cell.cell_contents


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of what is defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(value: Any) -> list[FunctionType]:
    """Of an entry of a class, the functions in it."""
    if isinstance(value, property):
        parts = [value.fget, value.fset]
    else:
        parts = [getattr(value, "__func__", value)]
    return [part for part in parts if isinstance(part, FunctionType)]


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
    elif depth and hasattr(value, "__dict__"):
        said = kind + _said(dict(vars(value)), names, depth - 1)
    return said
