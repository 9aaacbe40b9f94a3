"""Which summaries ``tf.summary`` writes at this moment.

Borrowed: ``summary_ops_v2._summary_state``, one for each thread.
Why: the public API returns the step, but neither the writer nor what ``record_if`` was called with.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported, or when the
    state is read.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from uncork.compat.borrow import borrow, missing

_MODULE: Final = "tensorflow.python.ops.summary_ops_v2"
_state: Final[Any] = borrow(_MODULE, "_summary_state")


class SummaryState(NamedTuple):
    """What decides whether and where a summary is written.

    Attributes:
        writer: The default one; None where nothing is written.
        step: A number, a variable or a tensor; None where none was set.
        conditions: What ``tf.summary.record_if`` was called with, and the same of a strategy.
    """

    writer: Any
    step: Any
    conditions: tuple[Any, Any]


def summary_state() -> SummaryState:
    """Of this thread.

    Example:
        >>> summary_state().writer is None
        True
    """
    state = _state
    try:
        conditions = state.is_recording, state.is_recording_distribution_strategy
        return SummaryState(state.writer, state.step, conditions)
    except AttributeError as error:
        raise missing(f"{_MODULE}._summary_state.{error.name}") from error
