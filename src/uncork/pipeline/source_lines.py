"""Remember which line of the user's source made each dataset.

TensorFlow does not keep it. A hook on the base constructor of all datasets looks up the stack for
the first frame that is neither a library's nor Uncork's; it costs a few microseconds a dataset.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

import uncork

_ATTRIBUTE = "_uncork_made_at"
_HOOKED = "_uncork_hooked"

_LIBRARIES = tuple(
    os.path.join(path, "")  # noqa: PTH118 - compared as text on every frame
    for path in {
        *(sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(uncork.__file__).parent),
        str(Path(os.__file__).parent),
    }
)
# Code that has no file of its own to point at: frozen importers and autograph's rewritten source.
_NO_FILE = ("<frozen ", "__autograph_generated_file")
_PACKAGES = tuple(f"{os.sep}{d}{os.sep}" for d in ("site-packages", "dist-packages"))


def record_source_lines() -> None:
    """From now on every new dataset remembers its line. Safe to call more than once.

    Example:
        >>> record_source_lines()
    """
    from tensorflow.python.data.ops import dataset_ops  # noqa: PLC0415 - may be called by a hook

    original = dataset_ops.DatasetV2.__init__
    if getattr(original, _HOOKED, False):
        return

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # A rebuilt dataset carries the line of the one it stands for.
        if _ATTRIBUTE not in self.__dict__:
            self.__dict__[_ATTRIBUTE] = _caller()
        original(self, *args, **kwargs)

    setattr(init, _HOOKED, True)
    dataset_ops.DatasetV2.__init__ = init


def source_line(dataset: Any) -> str | None:
    """Where a dataset was made, e.g. ``train.py:25``; None when nobody was recording."""
    made_at = dataset.__dict__.get(_ATTRIBUTE)
    if made_at is None:
        return None
    path, line = made_at
    return f"{_shown(path)}:{line}"


def same_line(dataset: Any) -> dict[str, Any]:
    """The fields that make another dataset claim the same line."""
    made_at = dataset.__dict__.get(_ATTRIBUTE)
    return {} if made_at is None else {_ATTRIBUTE: made_at}


def _caller() -> tuple[str, int] | None:
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_users(path):
            return path, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


@functools.lru_cache(maxsize=4096)
def _is_users(path: str) -> bool:
    return not (
        path.startswith(_LIBRARIES)
        or any(part in path for part in _PACKAGES)
        or any(part in path for part in _NO_FILE)
    )


def _shown(path: str) -> str:
    """Relative to the working directory when below it."""
    full = Path(path).absolute()
    try:
        return str(full.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(full)
