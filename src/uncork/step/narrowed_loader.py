"""A loader that reads from arrays in single precision, to see what double precision costs."""

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


def narrowed_loader(dataset: Any) -> Callable[[int], Any] | None:
    """What makes a batch, with the float64 arrays that it reads from in float32.

    The user's dataset, its arrays and its module stay as they are: the method runs as a copy, on a
    shallow copy of the dataset.

    Args:
        dataset: With a ``__getitem__`` written in Python.

    Returns:
        None where it reads from no such arrays, or from more than a gigabyte of them.
    """
    method = loading_method(dataset)
    if method is None:
        return None
    named = {name: method.__globals__.get(name) for name in method.__code__.co_names}
    cells = dict(enumerate(_contents(cell) for cell in method.__closure__ or ()))
    owned = dict(vars(dataset)) if hasattr(dataset, "__dict__") else {}
    values = [value for group in (named, cells, owned) for value in group.values()]
    wide: dict[int, Any] = {id(value): value for value in values if _is_wide(value)}
    if not wide or sum(array.nbytes for array in wide.values()) > _MOST_BYTES:
        return None
    single = {key: array.astype(np.float32) for key, array in wide.items()}

    def narrow(group: Mapping[Any, Any]) -> dict[Any, Any]:
        return {key: single.get(id(value), value) for key, value in group.items()}

    with suppress(Exception):  # an object that cannot be copied
        other = copy.copy(dataset)
        vars(other).update(narrow(owned))
        return _function(method, narrow(named), narrow(cells)).__get__(other)
    return None


def loading_method(dataset: Any) -> FunctionType | None:
    """The user's ``__getitem__``, without what may have been put around it."""
    method = inspect.unwrap(getattr(type(dataset), "__getitem__", None) or len)
    return method if isinstance(method, FunctionType) else None


def _function(
    method: FunctionType, named: Mapping[str, Any], cells: Mapping[int, Any]
) -> FunctionType:
    names = {**method.__globals__, **{k: v for k, v in named.items() if k in method.__globals__}}
    closure = tuple(
        CellType(cells[i]) if _is_single(cells[i]) else cell
        for i, cell in enumerate(method.__closure__ or ())
    )
    found = FunctionType(method.__code__, names, method.__name__, method.__defaults__, closure)
    found.__kwdefaults__ = method.__kwdefaults__
    return found


def _contents(cell: CellType) -> Any:
    with suppress(ValueError):  # one that is still empty
        return cell.cell_contents
    return None


def _is_wide(value: Any) -> bool:
    large = isinstance(value, np.ndarray) and value.nbytes >= _LEAST_BYTES
    return bool(large and value.dtype == np.float64)


def _is_single(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32
