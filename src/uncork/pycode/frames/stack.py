"""Whose code is on the stack: the user's, a library's, or Uncork's own."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Literal

Owner = Literal["user", "library", "tensorflow", "keras", "uncork"]

# Of all of Uncork's files; compared as text, on every frame.
UNCORK_FOLDER: Final = os.path.join(Path(__file__).parents[2], "")  # noqa: PTH118
_FRAMEWORKS: Final[dict[str, Owner]] = {"tensorflow": "tensorflow", "keras": "keras"}
_INSTALLED: Final = tuple(f"{os.sep}{d}{os.sep}" for d in ("site-packages", "dist-packages"))
# Code typed at a prompt has no file; everything else in angle brackets was generated.
_TYPED: Final = ("<stdin>", "<python-input", "<ipython-input")
_STDLIB: Final = os.path.join(Path(os.__file__).parent, "")  # noqa: PTH118 - compared as text
# Begins the names of functions that statements of the script's were moved into.
OUTLINED_STEP_PREFIX: Final = "_inline_step_"
# Where the scripts were begun that run in this process, one within another.
_begun_in: Final[list[Path]] = []
_REWRITTEN: Final = "__autograph_generated_file"


def iterate_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, its caller, the caller of that, ..."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost of the user's frames; None when there is none.

    Example:
        >>> script = compile("found = user_frame(sys._getframe())", "/home/me/train.py", "exec")
        >>> names = {"user_frame": user_frame, "sys": sys}
        >>> exec(script, names)
        >>> names["found"].f_code.co_filename
        '/home/me/train.py'
    """
    return next((each for each in iterate_frames(frame) if code_owner(each) == "user"), None)


def code_owner(frame: FrameType) -> Owner:
    """Who wrote the code of a frame."""
    module = frame.f_globals.get("__name__") or ""
    return _owner(frame.f_code.co_filename, module, _main_file())


def is_outlined_step(code: CodeType) -> bool:
    """Whether its lines are those of a loop's body, and were moved into a function by Uncork."""
    return code.co_name.startswith(OUTLINED_STEP_PREFIX)


def is_user_file(path: str) -> bool:
    """Whether the user wrote this file, as far as its path tells.

    Example:
        >>> is_user_file("/home/me/train.py"), is_user_file(os.__file__)
        (True, False)
    """
    return _owner(path, "", _main_file()) == "user"


def format_location(path: str, line: int) -> str:
    """``file.py:line``, relative to the working directory when below it.

    A name that is not UTF-8 is told with the codes of its bytes: it is to be written and printed.

    Example:
        >>> (
        ...     format_location("/elsewhere/train.py", 12),
        ...     format_location("/elsewhere/caf" + chr(0xDCE9), 1)[-6:-2],
        ... )
        ('/elsewhere/train.py:12', 'dce9')
    """
    # Elsewhere, or the working directory is gone.
    with contextlib.suppress(ValueError, OSError):
        path = str(Path(path).absolute())
        path = str(Path(path).relative_to(_begun_in[-1] if _begun_in else Path.cwd()))
    return f"{printable_path(path)}:{line}"


@contextlib.contextmanager
def fix_location_folder() -> Iterator[None]:
    """Tell places as seen from this folder, wherever a script goes: the user typed its name here.

    Example:
        >>> with fix_location_folder():
        ...     format_location(os.path.abspath("train.py"), 12)
        'train.py:12'
    """
    before = len(_begun_in)
    with contextlib.suppress(OSError):
        _begun_in.append(Path.cwd())
    try:
        yield
    finally:
        del _begun_in[before:]


def printable_path(path: str) -> str:
    """A path as it can be written, whatever bytes its name has."""
    return path.encode("utf-8", "backslashreplace").decode()


def code_location(code: CodeType) -> str:
    """Where a function begins."""
    return format_location(code.co_filename, code.co_firstlineno)


def user_location(frames: Iterable[Any]) -> str | None:
    """The innermost of the user's lines in a traceback; None when there is none.

    Args:
        frames: Outermost first, each with a ``filename`` and a ``lineno``.

    Example:
        >>> from traceback import FrameSummary
        >>> user_location([FrameSummary("/home/me/train.py", 7, "load")])[-10:]
        'train.py:7'
    """
    users = [frame for frame in frames if is_user_file(frame.filename)]
    return format_location(users[-1].filename, users[-1].lineno) if users else None


def function_location(codes: Sequence[CodeType]) -> str | None:
    """Where the first of these begins; None where there is none, or it is no function."""
    if not codes or codes[0].co_name == "<module>":
        return None
    return code_location(codes[0])


def _main_file() -> str:
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""


@functools.lru_cache(maxsize=4096)
def _owner(path: str, module: str, main_file: str) -> Owner:
    package = module.partition(".")[0]
    if path.startswith(UNCORK_FOLDER):
        return "uncork"
    if path == main_file:
        return "user"  # even when it lies among the installed packages
    if package in _FRAMEWORKS:
        return _FRAMEWORKS[package]
    generated = _REWRITTEN in path or (path.startswith("<") and not path.startswith(_TYPED))
    installed = path.startswith(_STDLIB) or any(part in path for part in _INSTALLED)
    return "library" if generated or installed or _is_recorded(path) else "user"


def _is_recorded(path: str) -> bool:
    """Whether pip wrote this file: ``pip install --target`` takes a folder of any name.

    It may be that of the user's own modules, which stay his.
    """
    folders = (os.path.join(folder, "") for folder in sys.path if folder)  # noqa: PTH118
    return any(
        path.removeprefix(folder).partition(os.sep)[0] in _recorded(folder)
        for folder in folders
        if path.startswith(folder)
    )


@functools.lru_cache(maxsize=256)
def _recorded(folder: str) -> frozenset[str]:
    """Names of the packages and modules that pip has put into a folder, by its own records."""
    found: set[str] = set()
    for record in Path(folder).glob("*.dist-info/RECORD"):
        with contextlib.suppress(OSError):
            lines = record.read_text("utf-8", "replace").splitlines()
            found.update(line.partition(",")[0].partition("/")[0] for line in lines)
    return frozenset(found)
