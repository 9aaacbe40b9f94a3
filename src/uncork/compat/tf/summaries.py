"""Which summaries ``tf.summary`` writes at this moment.

Borrowed: ``summary_ops_v2._summary_state`` and its fields, one set for each thread.
Why: the public API returns the step, but neither the writer nor what ``record_if`` was called with.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.ops.summary_ops_v2"

# The default ``writer``, None where nothing is written; the ``step``, None where none was set; and
# ``is_recording``, what ``tf.summary.record_if`` was called with, with the same of a strategy.
summary_state: Final[Any] = borrow(_MODULE, "_summary_state")
borrow(_MODULE, "_summary_state.writer")
borrow(_MODULE, "_summary_state.step")
borrow(_MODULE, "_summary_state.is_recording")
borrow(_MODULE, "_summary_state.is_recording_distribution_strategy")
