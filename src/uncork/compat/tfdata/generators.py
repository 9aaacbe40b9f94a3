"""What ``Dataset.from_generator`` keeps of the user's generator.

Borrowed: ``DatasetV2._GeneratorState`` and its fields; the function that asks for the next element.
Why: a dataset does not return the generator that it was made from, nor its iterators.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported; for a field of
    a state, when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

_GeneratorState: Final[Any] = borrow(
    "tensorflow.python.data.ops.dataset_ops", "DatasetV2._GeneratorState"
)
# What TensorFlow calls for the next element of a generator whose elements are arrays.
_NEXT_ELEMENT: Final = "generator_py_func"


def state_behind(function: Any) -> Any:
    """The state that a registered Python function is a method of; None for any other function."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, _GeneratorState) else None


def returns_next_element(function: Any) -> bool:
    """Whether a registered Python function returns the next element for an iterator's number."""
    return bool(getattr(function, "__name__", "") == _NEXT_ELEMENT)


def generator_of(state: Any) -> Callable[[], Any]:
    """The function that ``from_generator`` was called with."""
    generator: Callable[[], Any] = borrow_attribute(state, "_generator")
    return generator


def iterators_of(state: Any) -> dict[int, Iterator[Any]]:
    """Iterators over the generator that are open, by their numbers; changes of it count."""
    iterators: dict[int, Iterator[Any]] = borrow_attribute(state, "_iterators")
    return iterators


def new_number(state: Any) -> int:
    """A number for an iterator that TensorFlow does not create itself."""
    number = int(state.get_next_id())
    borrow_attribute(state, "_args").pop(number, None)
    return number
