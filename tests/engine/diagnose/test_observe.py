"""What figures are to be read with."""

from __future__ import annotations

import tensorflow as tf

from records import WORKLOAD, measurement, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.engine.diagnose.observe import _notes


def test_functions_that_run_op_by_op_are_told() -> None:
    """A switch for debugging that was left on: no figure shows what the training takes without."""
    assert list(_notes(WORKLOAD, measurement(100.0), ())) == []
    tf.config.run_functions_eagerly(True)
    try:
        (note,) = _notes(WORKLOAD, measurement(100.0), ())
    finally:
        tf.config.run_functions_eagerly(False)
    assert "tf.config.run_functions_eagerly(True) is active" in note


def test_a_cache_of_what_never_ends_is_told() -> None:
    above = stage(1, "cache", at="train.py:9")
    endless, ending = replace(above, length=INFINITE_LENGTH), replace(above, length=64)
    (note,) = _notes(WORKLOAD, measurement(100.0), (endless,))
    assert note.startswith("the cache at train.py:9 stores an infinite dataset")
    assert list(_notes(WORKLOAD, measurement(100.0), (ending,))) == []
