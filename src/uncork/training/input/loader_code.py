"""The code of a Python loader, the arrays that it reaches, and a copy that reads other ones."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import CellType, FunctionType
from typing import Any, Final

import numpy as np

# Smaller arrays cost nothing; larger ones are not copied just to see what they cost.
_LEAST_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 1 << 30


def user_getitem(dataset: Any) -> FunctionType | None:
    """The user's ``__getitem__``, without what may have been put around it."""
    method = inspect.unwrap(getattr(type(dataset), "__getitem__", None) or len)
    return method if isinstance(method, FunctionType) else None


def reachable_arrays(dataset: Any) -> list[Any]:
    """Large NumPy arrays that a loader reads from: its module's, its own, those it closes over."""
    method = user_getitem(dataset)
    groups = _groups(dataset, method) if method is not None else ()
    return [value for group in groups for value in group.values() if _is_large(value)]


def create_float32_loader(dataset: Any) -> Callable[[int], Any] | None:
    """What makes a batch, with the float64 arrays that it reads from in float32.

    The user's dataset, its arrays and its module stay as they are: the method runs as a copy, on a
    copy of the dataset whose own dictionaries, lists and sets are copies too.

    Args:
        dataset: With a ``__getitem__`` written in Python.

    Returns:
        None where it reads from no such arrays, or from more than a gigabyte of them.
    """
    method = user_getitem(dataset)
    wide = {id(array): array for array in reachable_arrays(dataset) if array.dtype == np.float64}
    if method is None or not wide or sum(a.nbytes for a in wide.values()) > _MOST_BYTES:
        return None
    with suppress(Exception), np.errstate(all="ignore"):  # an object that cannot be copied
        single = {key: array.astype(np.float32) for key, array in wide.items()}
        named, cells, owned = (
            {key: single.get(id(value), value) for key, value in group.items()}
            for group in _groups(dataset, method)
        )
        other = copy.copy(dataset)
        vars(other).update({key: _own(value) for key, value in owned.items()})
        return _function(method, named, cells).__get__(other)
    return None


def _groups(dataset: Any, method: FunctionType) -> tuple[dict[Any, Any], ...]:
    """What the method can reach by name: globals, cells, attributes of the dataset."""
    known = method.__globals__
    named = {name: known[name] for name in method.__code__.co_names if name in known}
    cells = dict(enumerate(_contents(cell) for cell in method.__closure__ or ()))
    owned = dict(vars(dataset)) if hasattr(dataset, "__dict__") else {}
    return named, cells, owned


def _function(
    method: FunctionType, named: Mapping[str, Any], cells: Mapping[int, Any]
) -> FunctionType:
    closure = tuple(
        cell if cells[i] is _contents(cell) else CellType(cells[i])
        for i, cell in enumerate(method.__closure__ or ())
    )
    names = {**method.__globals__, **named}
    found = FunctionType(method.__code__, names, method.__name__, method.__defaults__, closure)
    found.__kwdefaults__ = method.__kwdefaults__
    return found


def _own(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, (dict, list, set)) else value


def _contents(cell: CellType) -> Any:
    with suppress(ValueError):  # one that is still empty
        return cell.cell_contents
    return None


def _is_large(value: Any) -> bool:
    """In memory, in one piece: of a file or a view, reading would cost what copying it spares."""
    return type(value) is np.ndarray and value.nbytes >= _LEAST_BYTES and value.flags.forc
