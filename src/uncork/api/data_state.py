"""Data of a living process are read, and what reading moves on is given back, or told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from uncork.compat.keras3.saving import noting_pickled
from uncork.pipeline.equivalence.seeded_twin import preserve_state, python_state_digest
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pycode.purity.reachability import state_digest


@contextmanager
def preserve_data_state(data: Any) -> Iterator[None]:
    """What can be given back is; where Python code of the data keeps anything else, it is said."""
    is_dataset = isinstance(data, tf.data.Dataset)
    before = _python_state(data)
    with preserve_state(read_pipeline(data)) if is_dataset else nullcontext():
        yield
    if before and _python_state(data) != before:
        sys.stderr.write(
            "uncork: reading the data has changed the state of its Python code: create the "
            "data again before you train on it\n"
        )


def _python_state(data: Any) -> str:
    """Digest of all that the Python code of the data can get at; ``""`` where nobody can tell.

    What Keras pickles of its layers has the time of day in it.
    """
    met: list[Any] = []
    with noting_pickled(met.append):
        if isinstance(data, tf.data.Dataset):
            found = python_state_digest(read_pipeline(data))
        elif isinstance(data, keras.utils.PyDataset):
            _ = data.workers, data.max_queue_size  # Keras sets them where the loader has not
            found = state_digest(data)
        else:
            found = ""
    return "" if met else found
