"""Remember which line of the user's source made each dataset.

TensorFlow does not keep it. A hook on the base constructor of all datasets looks up the stack for
the first frame that is neither a library's nor Uncork's; it costs a few microseconds a dataset.

Which line of the user's source made a dataset, as far as somebody was recording.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

from uncork.compat.hook_targets import TF_DATASETS
from uncork.pycode.frames.stack import format_location, user_frame

SOURCE_LINE_ATTRIBUTE: Final = "_uncork_made_at"
_HOOKED: Final = "_uncork_hooked"


def _record_lines(dataset_class: Any) -> None:
    """Let every new object of the base class of datasets remember its line.

    Args:
        dataset_class: ``tf.data.Dataset``, from TensorFlow as somebody else imported it.
    """
    original = dataset_class.__init__
    if getattr(original, _HOOKED, False):
        return

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # A rebuilt dataset carries the line of the one it stands for.
        if SOURCE_LINE_ATTRIBUTE not in self.__dict__:
            self.__dict__[SOURCE_LINE_ATTRIBUTE] = _caller()
        original(self, *args, **kwargs)

    setattr(init, _HOOKED, True)
    dataset_class.__init__ = init


def record_lines_if_imported() -> None:
    """The same where TensorFlow was imported before; it is not imported for that."""
    module = sys.modules.get(TF_DATASETS)
    if module is not None and hasattr(module, "DatasetV2"):
        _record_lines(module.DatasetV2)


def _caller() -> tuple[str, int] | None:
    frame = user_frame(sys._getframe(2))
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def record_source_lines() -> None:
    """From now on every new dataset remembers its line. Safe to call more than once.

    Example:
        >>> record_source_lines()
    """
    from tensorflow import data  # noqa: PLC0415 - may be called by a hook

    _record_lines(data.Dataset)


def source_line(dataset: Any) -> str | None:
    """Where a dataset was made, e.g. ``train.py:25``; None when nobody was recording."""
    made_at = dataset.__dict__.get(SOURCE_LINE_ATTRIBUTE)
    if made_at is None:
        return None
    return format_location(*made_at)


def source_line_fields(dataset: Any) -> dict[str, Any]:
    """The fields that make another dataset claim the same line."""
    made_at = dataset.__dict__.get(SOURCE_LINE_ATTRIBUTE)
    return {} if made_at is None else {SOURCE_LINE_ATTRIBUTE: made_at}
