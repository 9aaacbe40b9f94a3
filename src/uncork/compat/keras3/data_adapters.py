"""The adapters through which ``fit`` reads arrays and ``PyDataset`` loaders.

Borrowed: ``ArrayDataAdapter`` and its fields, ``array_slicing``, ``py_dataset_adapter.get_index``.
Why: nothing public says how ``fit`` cuts arrays into batches, which rows it sets aside for the
    validation, or that a batch of a loader is read for it.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call;
    ``get_index`` may be missing: no loader is then given to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, Final, NamedTuple

from uncork.compat.borrow import borrow, borrow_attribute

_ADAPTERS: Final = "keras.src.trainers.data_adapters"
_SLICING: Final = f"{_ADAPTERS}.array_slicing"

# Reads arrays; ``get_tf_dataset()`` returns the pipeline that ``fit`` makes of them.
ArrayDataAdapter: Final[Any] = borrow(f"{_ADAPTERS}.array_data_adapter", "ArrayDataAdapter")
# Of arrays and a fraction: arrays to train on, and arrays to validate on.
train_validation_split: Final[Callable[[Any, float], tuple[Any, Any]]] = borrow(
    _SLICING, "train_validation_split"
)
_convert_to_sliceable: Final[Callable[..., Any]] = borrow(_SLICING, "convert_to_sliceable")


class ArrayLayout(NamedTuple):
    """How an ``ArrayDataAdapter`` cuts its arrays.

    Attributes:
        arrays: As they are given.
        shuffle: True, False or ``"batch"``.
        samples: How many rows the arrays have.
        batch_size: Rows of a batch.
        last_batch: Rows of the last batch where it is smaller; 0 where it is not.
    """

    arrays: Any
    shuffle: Any
    samples: int
    batch_size: int
    last_batch: int


_FIELDS: Final = ("_inputs", "_shuffle", "_num_samples", "_batch_size", "_partial_batch_size")


def layout_of(adapter: Any) -> ArrayLayout:
    """How an adapter cuts its arrays.

    Example:
        >>> import numpy as np
        >>> layout_of(ArrayDataAdapter(np.zeros((5, 2)), batch_size=3))[1:]
        (False, 5, 3, 2)
    """
    return ArrayLayout(*(borrow_attribute(adapter, name) for name in _FIELDS))


def to_sliceable(arrays: Any) -> Any:
    """Arrays as Keras cuts them for TensorFlow: floating-point numbers in Keras's own dtype."""
    return _convert_to_sliceable(arrays, target_backend="tensorflow")


# The function in which a thread of Keras reads a batch of a ``PyDataset``; None where there is none
# of this name.
GET_INDEX: Final[CodeType | None] = getattr(
    getattr(borrow(f"{_ADAPTERS}.py_dataset_adapter"), "get_index", None), "__code__", None
)
