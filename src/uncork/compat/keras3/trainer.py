"""The trainer of the TensorFlow backend, and the iterator through which it reads an epoch.

Borrowed: ``TensorFlowTrainer``, ``TFEpochIterator`` and its fields, ``EpochIterator``.
Why: nothing public reads batches as ``fit`` reads them, lets ``fit`` read them in another way, or
    tells the validation of a ``fit`` from another call of ``evaluate``.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call;
    ``_enumerate_iterator`` may be missing: no iterator is then used again.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.compat.hook_targets import KERAS_TF_TRAINER

_MODULE: Final[Any] = borrow(KERAS_TF_TRAINER)
_ITERATOR: Final = "TFEpochIterator"

# The base class of ``keras.Model`` that has ``fit``, ``evaluate`` and ``predict``.
TensorFlowTrainer: Final[Any] = borrow(KERAS_TF_TRAINER, "TensorFlowTrainer")
# Reads one epoch after the other: iterating over it returns first step, last step, data iterator.
TFEpochIterator: Final[Any] = borrow(KERAS_TF_TRAINER, _ITERATOR)
# Its base class, which makes no dataset yet.
EpochIterator: Final[Any] = borrow("keras.src.trainers.epoch_iterator", "EpochIterator")
# Whether a subclass may replace the generator of the steps of an epoch.
HAS_STEP_GENERATOR: Final = hasattr(EpochIterator, "_enumerate_iterator")
# The argument of ``evaluate`` by which ``fit`` keeps the data of its validations.
IN_FIT: Final = "_use_cached_eval_dataset"


def epoch_iterator_class() -> Any:
    """The class with which ``fit``, ``evaluate`` and ``predict`` read data at present."""
    return getattr(_MODULE, _ITERATOR)


def use_epoch_iterator(kind: Any) -> None:
    """Let ``fit``, ``evaluate`` and ``predict`` read data through this class from now on.

    Args:
        kind: A subclass of :data:`TFEpochIterator`, or this itself.
    """
    setattr(_MODULE, _ITERATOR, kind)


def distributed_dataset(epochs: Any) -> Any:
    """The dataset of a :data:`TFEpochIterator`, which a strategy has spread over its devices."""
    return borrow_attribute(epochs, "_distributed_dataset")


def release_iterators(epochs: Any) -> None:
    """Drop the data iterators of a :data:`TFEpochIterator`; their threads end."""
    for name in ("_epoch_iterator", "_current_iterator"):
        borrow_attribute(epochs, name)
        setattr(epochs, name, None)
