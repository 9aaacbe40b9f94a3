"""What figures are to be read with."""

from __future__ import annotations

import tensorflow as tf

from records import WORKLOAD, measurement
from uncork.engine.observe import _notes


def test_functions_that_run_op_by_op_are_told() -> None:
    """A switch for debugging that was left on: no figure shows what the training takes without."""
    assert list(_notes(WORKLOAD, measurement(100.0), ())) == []
    tf.config.run_functions_eagerly(True)
    try:
        (note,) = _notes(WORKLOAD, measurement(100.0), ())
    finally:
        tf.config.run_functions_eagerly(False)
    assert "tf.config.run_functions_eagerly(True) is in force" in note
