from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

DRIVER = Path(__file__).with_name("driver.py")

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a script into an empty folder."""

    def write(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return write


@pytest.fixture
def driver() -> Path:
    """The program that runs a script under a listener."""
    return DRIVER


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python SCRIPT ARGS``."""
    return lambda *args, stdin="": _run([*args], tmp_path, stdin)


@pytest.fixture
def uncork(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same under a listener: ``uncork("tell", SCRIPT, *ARGS)``."""
    return lambda kind, *args, stdin="": _run([str(DRIVER), kind, *args], tmp_path, stdin)


def _run(args: list[str], cwd: Path, stdin: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def data():
    """Rows and their sums."""
    import numpy as np  # noqa: PLC0415 - most of these tests need no TensorFlow

    x = np.random.default_rng(0).random((24, 4), np.float32)
    return x, x.sum(1, keepdims=True)


@pytest.fixture
def dataset(data):
    """Six batches of them."""
    import tensorflow as tf  # noqa: PLC0415

    return tf.data.Dataset.from_tensor_slices(data).batch(4)


@pytest.fixture
def model():
    """The smallest that can be trained on them."""
    import keras  # noqa: PLC0415

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model
