"""An accelerator's manner, without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import tensorflow as tf
from tensorflow.python.eager import context, executor


@pytest.fixture
def asynchronous() -> Iterator[None]:
    """As on an accelerator: Python goes on while ops run.

    An op that fails there spoils all that its executor is given afterwards, so this one is the
    test's own, and is left with its failures.
    """
    ours, before = executor.new_executor(enable_async=True), context.context().executor
    context.context().executor = ours
    yield
    context.context().executor = before
    with suppress(tf.errors.OpError):
        ours.wait()
    ours.clear_error()
