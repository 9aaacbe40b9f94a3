"""Where in the user's code a training happens, and what of a traceback is the user's."""

from __future__ import annotations

import os
from types import CodeType, FrameType, TracebackType
from typing import Final

from uncork.compat.hook_targets import KERAS_OPTIMIZERS, TF_DATASETS, TF_PYTHON_CALLS
from uncork.pycode.frames.stack import (
    UNCORK_FOLDER,
    code_owner,
    format_location,
    iterate_frames,
    user_frame,
)

# In place of a line where there is none of the user's.
UNKNOWN_LINE: Final = "unknown"
_IMPORT_HOOKS: Final = os.path.join("wrapt", "importer.py")  # noqa: PTH118 - compared as text


def user_line(frame: FrameType | None) -> str:
    """``file.py:line`` of the user's innermost frame, ``UNKNOWN_LINE`` when there is none."""
    found = user_frame(frame)
    return _place(found) if found else UNKNOWN_LINE


def user_codes(frame: FrameType | None) -> tuple[CodeType, ...]:
    """The code of all of the user's frames, from the innermost outwards."""
    return tuple(each.f_code for each in iterate_frames(frame) if code_owner(each) == "user")


def iterating_line(frame: FrameType | None) -> str | None:
    """``file.py:line`` of a loop over a dataset in the user's own code, else None.

    Progress bars and other libraries may stand between the loop and the dataset; TensorFlow, Keras
    and Uncork may not. Nor is it a loop of the user's when Keras, further out, is already training
    (a callback that evaluates) or TensorFlow is asking a generator for elements.

    Args:
        frame: Where ``DatasetV2.__iter__`` was called.
    """
    nearest: FrameType | None = None
    for each in iterate_frames(frame):
        who = code_owner(each)
        if nearest is None and who == "user":
            nearest = each
        elif who == "uncork":
            break
        elif who == "keras" or (who == "tensorflow" and _is_internal(each, nearest)):
            return None
    return _place(nearest) if nearest else None


def stepping_line(frame: FrameType | None) -> str | None:
    """``file.py:line`` of the user's own code that calls a step, else None.

    TensorFlow may stand between (``strategy.run``) and so may other libraries and an optimizer of
    Keras's; what Keras's trainer calls is its own business.

    Args:
        frame: Where the step was called.
    """
    for each in iterate_frames(frame):
        who = code_owner(each)
        if who == "user":
            return _place(each)
        if who == "uncork" or (who == "keras" and not _is_optimizer(each)):
            return None
    return None


def strip_uncork_frames(error: BaseException) -> None:
    """Take Uncork's frames out of an error's traceback and those of its causes.

    An error born in Uncork's own code keeps its frames: hiding them would blame the script.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        pending += [each.__cause__, each.__context__]
        if not _born_here(each.__traceback__):
            each.__traceback__ = _without_own(each.__traceback__)


def _is_optimizer(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(KERAS_OPTIMIZERS)


def _place(frame: FrameType) -> str:
    return format_location(frame.f_code.co_filename, frame.f_lineno)


def _is_internal(frame: FrameType, nearest: FrameType | None) -> bool:
    """Whether this frame of TensorFlow's makes an iteration its own business."""
    module = frame.f_globals.get("__name__")
    if nearest is None:  # DatasetV2.as_numpy_iterator() iterates on behalf of its caller
        return module != TF_DATASETS
    return module == TF_PYTHON_CALLS


def _is_own(traceback: TracebackType) -> bool:
    path = traceback.tb_frame.f_code.co_filename
    return path.startswith(UNCORK_FOLDER) or path.endswith(_IMPORT_HOOKS)


def _born_here(traceback: TracebackType | None) -> bool:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(UNCORK_FOLDER)


def _without_own(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not _is_own(traceback):
            kept.append(traceback)
        traceback = traceback.tb_next
    following = None
    for each in reversed(kept):
        each.tb_next = following
        following = each
    return following
