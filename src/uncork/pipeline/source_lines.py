"""Which line of the user's source made a dataset, as far as somebody was recording."""

from __future__ import annotations

from typing import Any

from uncork.core.made_at import MADE_AT, remember_lines
from uncork.core.stack import place


def record_source_lines() -> None:
    """From now on every new dataset remembers its line. Safe to call more than once.

    Example:
        >>> record_source_lines()
    """
    from tensorflow.python.data.ops import dataset_ops  # noqa: PLC0415 - may be called by a hook

    remember_lines(dataset_ops)


def source_line(dataset: Any) -> str | None:
    """Where a dataset was made, e.g. ``train.py:25``; None when nobody was recording."""
    made_at = dataset.__dict__.get(MADE_AT)
    if made_at is None:
        return None
    return place(*made_at)


def same_line(dataset: Any) -> dict[str, Any]:
    """The fields that make another dataset claim the same line."""
    made_at = dataset.__dict__.get(MADE_AT)
    return {} if made_at is None else {MADE_AT: made_at}
