"""Whose code is on the stack: the user's, a library's, or Uncork's own."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Literal

import uncork

Owner = Literal["user", "library", "tensorflow", "keras", "uncork"]

_FRAMEWORKS: Final[dict[str, Owner]] = {"tensorflow": "tensorflow", "keras": "keras"}
_OWN: Final = os.path.join(Path(uncork.__file__).parent, "")  # noqa: PTH118 - compared as text
_INSTALLED: Final = tuple(f"{os.sep}{d}{os.sep}" for d in ("site-packages", "dist-packages"))
# Code typed at a prompt has no file; everything else in angle brackets was generated.
_TYPED: Final = ("<stdin>", "<ipython-input")
# DatasetV2.as_numpy_iterator() iterates over the dataset on behalf of its caller.
_ON_BEHALF: Final = "tensorflow.python.data.ops.dataset_ops"
# Here TensorFlow calls the user's Python functions and generators to *make* elements.
_MAKES_ELEMENTS: Final = "tensorflow.python.ops.script_ops"
_IMPORT_HOOKS: Final = os.path.join("wrapt", "importer.py")  # noqa: PTH118 - compared as text


def user_line(frame: FrameType | None) -> str:
    """``file.py:line`` of the innermost of the user's frames, ``unknown`` when there is none."""
    for each in _outwards(frame):
        if owner(each) == "user":
            return place(each)
    return "unknown"


def user_function(frame: FrameType | None) -> str | None:
    """``file.py:line`` where the innermost of the user's functions begins; None outside of any."""
    for each in _outwards(frame):
        if owner(each) == "user":
            code = each.f_code
            return None if code.co_name == "<module>" else _place(each, code.co_firstlineno)
    return None


def iterating_line(frame: FrameType | None) -> str | None:
    """``file.py:line`` of a loop over a dataset in the user's own code, else None.

    Progress bars and other libraries may stand between the loop and the dataset; TensorFlow, Keras
    and Uncork may not. Nor is it a loop of the user's when Keras, further out, is already training
    (a callback that evaluates) or TensorFlow is asking a generator for elements.

    Args:
        frame: Where ``DatasetV2.__iter__`` was called.
    """
    nearest: FrameType | None = None
    for each in _outwards(frame):
        who = owner(each)
        if nearest is None and who == "user":
            nearest = each
        elif who == "uncork":
            break
        elif who == "keras" or (who == "tensorflow" and _is_internal(each, nearest)):
            return None
    return place(nearest) if nearest else None


def owner(frame: FrameType) -> Owner:
    """Who wrote the code of a frame."""
    module = frame.f_globals.get("__name__") or ""
    return _owner(frame.f_code.co_filename, module, _main_file())


def place(frame: FrameType) -> str:
    """``file.py:line`` of a frame, relative to the working directory when below it."""
    return _place(frame, frame.f_lineno)


def _place(frame: FrameType, line: int) -> str:
    path = frame.f_code.co_filename
    # Elsewhere, or the working directory is gone.
    with contextlib.suppress(ValueError, OSError):
        path = str(Path(path).relative_to(Path.cwd()))
    return f"{path}:{line}"


def strip(error: BaseException) -> None:
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


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_internal(frame: FrameType, nearest: FrameType | None) -> bool:
    """Whether this frame of TensorFlow's makes an iteration its own business."""
    module = frame.f_globals.get("__name__")
    return module != _ON_BEHALF if nearest is None else module == _MAKES_ELEMENTS


def _main_file() -> str:
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""


@functools.lru_cache(maxsize=4096)
def _owner(path: str, module: str, main_file: str) -> Owner:
    package = module.partition(".")[0]
    if path.startswith(_OWN):
        return "uncork"
    if path == main_file:
        return "user"  # even when it lies among the installed packages
    if package in _FRAMEWORKS:
        return _FRAMEWORKS[package]
    generated = path.startswith("<") and not path.startswith(_TYPED)
    installed = any(part in path for part in _INSTALLED)
    if generated or installed or package in sys.stdlib_module_names:
        return "library"
    return "user"


def _is_own(traceback: TracebackType) -> bool:
    path = traceback.tb_frame.f_code.co_filename
    return path.startswith(_OWN) or path.endswith(_IMPORT_HOOKS)


def _born_here(traceback: TracebackType | None) -> bool:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OWN)


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
