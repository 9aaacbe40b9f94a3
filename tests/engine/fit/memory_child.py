"""A training for which there is no memory, as written or on larger batches. A process of its own.

What TensorFlow asks for is refused by the system itself, where the process may map no more.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

from uncork.core.base.journal import Journal
from uncork.core.documents.plan import Policy
from uncork.engine.fit import larger_batches
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.tune.memory_model import is_out_of_memory, out_of_memory_message
from uncork.engine.tune.memory_strategies import MicroBatchStrategy
from uncork.training.state.snapshot import read_weights

ROOM = 850_000_000
ROWS, TOKENS, WIDTH, BATCH = 128, 2000, 1024, 64  # half a gigabyte for what one layer gives


def subject(folder: str, batch: int = BATCH) -> FitSubject:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    body = [layers.Dense(WIDTH, "relu"), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    model = keras.Sequential([keras.Input((TOKENS, 16)), *body])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(ROWS, TOKENS, 16)).astype("float32")
    given = {"x": x, "y": x[:, 0, :1], "batch_size": batch, "epochs": 2}
    return FitSubject(model, given, 0, "train.py:9", folder)


def state(tried: FitSubject) -> list[bytes]:
    policy = tried.model.dtype_policy.name, keras.config.dtype_policy().name
    return [*(each.tobytes() for each in read_weights(tried.model)), repr(policy).encode()]


def limited() -> None:
    """From here on the process may map so much more."""
    tf.matmul(tf.zeros((2, 2)), tf.zeros((2, 2)))  # threads and libraries are there by now
    most = psutil.Process().memory_info().vms + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def in_parts(folder: str) -> dict[str, object]:
    """Half a gigabyte several times over does not fit."""
    tried = subject(folder)
    before = state(tried)
    with pytest.raises((tf.errors.OpError, MemoryError)) as error:
        tried.runner(tried.original).prime()
    assert is_out_of_memory(error.value), error.value
    said = out_of_memory_message(error.value)
    tried.restore()
    untouched = state(tried) == before
    journal = Journal(Path(folder, "journal"))
    found, step = MicroBatchStrategy(tried, 2, said, Policy(), journal).apply()
    tried.restore()
    return {
        "said": said,
        "untouched": untouched and state(tried) == before,
        "parts": found.parts,
        "outcome": step.outcome,
        "trained": tried.runner(tried.original).block(0.1).steps,
    }


def larger(folder: str) -> dict[str, object]:
    """Half of that does; twice as much, which is looked at first, does not.

    That would be foreseen: here it is let through, to see what happens then.
    """
    larger_batches._MARGIN = 100.0
    tried = subject(folder, BATCH // 2)
    before = state(tried)
    trained = tried.runner(tried.original).block(0.1).steps
    tried.restore()
    sizes = tried.measure_batch_sizes(tried.original, 10.0)
    return {"trained": trained, "sizes": len(sizes), "untouched": state(tried) == before}


if __name__ == "__main__":
    limited()
    with tempfile.TemporaryDirectory() as own:
        print(json.dumps({"parts": in_parts, "larger": larger}[sys.argv[1]](own)))
