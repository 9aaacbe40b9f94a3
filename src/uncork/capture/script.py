"""Run a script as ``python SCRIPT ARGS`` would, with a listener at its training calls."""

from __future__ import annotations

import ast
import builtins
import difflib
import linecache
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, ModuleType

from uncork.capture.base.listener import Listener
from uncork.capture.base.modules import has_safe_path, import_module_spec
from uncork.capture.hooks.install import report_training_calls
from uncork.capture.outline.rewrite import outline_inline_steps
from uncork.core.base.errors import ScriptFailed, UncorkError, WrongUse
from uncork.pycode.frames.stack import fix_location_folder
from uncork.pycode.frames.training_line import strip_uncork_frames
from uncork.pycode.syntax.removed_apis import suggest_replacement


def run_script(
    script: Path,
    args: Sequence[str],
    listener: Listener,
    source: Path | None = None,
    *,
    outline: bool = False,
    module: str = "",
) -> None:
    """Run a script to its end, or until the listener stops it.

    From here on the process belongs to the script: ``sys.argv``, ``sys.path[0]`` and ``__main__``
    stay as it had them, because its threads, exit handlers and pickles outlive this call.

    Args:
        script: As the user typed it; the file of a module.
        args: What follows it on the command line.
        listener: Is told about training calls, and may raise
            :class:`~uncork.capture.base.stop.StopScript`.
        source: A text to run as if it lay where the script does, with what lies beside that.
        outline: Training steps that stand in a loop itself become functions, which can be run in
            other ways.
        module: Name of the module to run, as ``python -m`` does; ``""`` for a script.

    Raises:
        WrongUse: There is no such script, or it cannot be read.
        ScriptFailed: The script raised. Its traceback has been printed, without Uncork's frames.
        SystemExit: The script called ``sys.exit``.
        KeyboardInterrupt: Ctrl-C.
        UncorkError: The listener's.
    """
    path = os.path.abspath(script)  # noqa: PTH100 - as Python does: symbolic links stay
    text = _read(source or script)
    code = _compile(text, path, outline=outline)
    if source is not None:
        _lay_at(path, text)
    _take_over("-m" if module else str(script), path, args)
    if module:
        _set_first_folder(os.getcwd())  # noqa: PTH109 - as Python writes it
    try:
        with fix_location_folder(), report_training_calls(listener):
            if module:
                _become_module(module, path)
            exec(code, vars(sys.modules["__main__"]))
    except UncorkError:
        raise
    except (SystemExit, KeyboardInterrupt) as error:
        strip_uncork_frames(error)
        raise
    except BaseException as error:
        print_traceback(error, str(script))
        raise ScriptFailed(_summary(error)) from error


def _read(script: Path) -> bytes:
    try:
        return script.read_bytes()
    except FileNotFoundError:
        raise WrongUse(f"no script '{script}'", "a Python file", _suggestion(script)) from None
    except IsADirectoryError:
        raise WrongUse(
            f"'{script}' is a directory", "a Python file", f"name the script: {script}/train.py"
        ) from None
    except OSError as error:
        raise WrongUse(
            f"cannot read '{script}': {error.strerror}",
            "a readable file",
            "check its path and permissions",
        ) from None


def _compile(source: bytes, path: str, *, outline: bool) -> CodeType:
    try:
        # Inherited, this file's own __future__ imports would change the script's meaning.
        code = compile(source, path, "exec", dont_inherit=True)
        if outline and b"GradientTape" in source:
            # Trees that are too deep for Python's stack, and what its next release brings.
            with warnings.catch_warnings(), suppress(Exception):
                warnings.simplefilter("ignore")  # said by now
                code = compile(
                    outline_inline_steps(ast.parse(source)), path, "exec", dont_inherit=True
                )
    except (SyntaxError, ValueError) as error:
        print_traceback(error.with_traceback(None))
        raise ScriptFailed(_summary(error)) from error
    return code


def _lay_at(path: str, text: bytes) -> None:
    """Tracebacks and AutoGraph ask for the lines of a file by its name: these are its lines.

    Without a time of change the entry is never compared with what does lie there. AutoGraph has the
    file of a module read again before it converts a function, so that is answered likewise.
    """
    lines = decode_source(text).splitlines(keepends=True)
    entry = (len(text), None, lines, path)
    linecache.cache[path] = entry
    read_again = linecache.updatecache

    def update(filename: str, module_globals: dict[str, object] | None = None) -> list[str]:
        if filename != path:
            return read_again(filename, module_globals)
        linecache.cache[path] = entry
        return lines

    linecache.updatecache = update


def _suggestion(script: Path) -> str:
    try:
        names = [p.name for p in script.parent.iterdir() if p.suffix == ".py"]
    except OSError:
        return f"check the folder: {script.parent} cannot be listed"
    close = difflib.get_close_matches(script.name, names, n=1)
    return f"did you mean {script.with_name(close[0])}?" if close else "check the path"


def _become_module(name: str, path: str) -> None:
    """What a module finds in ``__main__`` beyond a script; imports the packages that it is in.

    Raises:
        WrongUse: These have changed where their modules are found.
    """
    spec = import_module_spec(name)
    if not os.path.samefile(str(spec.origin), path):  # noqa: PTH121 - as text
        raise WrongUse(
            f"the packages of '{name}' look for it in {spec.origin}",
            f"the module's file in {path}, where the packages lie",
            f"run the file itself: {spec.origin}",
        )
    main = sys.modules["__main__"]
    vars(main).update(
        __loader__=spec.loader,
        __file__=spec.origin,
        __cached__=spec.cached,
        __package__=spec.parent,
        __spec__=spec,
    )
    sys.argv[0] = str(spec.origin)


def _set_first_folder(folder: str) -> None:
    if not has_safe_path():
        sys.path[0] = folder


def _take_over(script: str, path: str, args: Sequence[str]) -> None:
    """Make the process look as it does to a script that Python itself has started."""
    main = ModuleType("__main__")
    vars(main).update(
        __loader__=SourceFileLoader("__main__", path),
        __annotations__={},
        __builtins__=builtins,
        __file__=path,
        __cached__=None,
    )
    # A real module without a spec: pickle finds the script's classes in it, and spawned processes
    # import the script anew from __file__, as under plain Python.
    sys.modules["__main__"] = main
    sys.argv = [script, *args]
    _set_first_folder(str(Path(path).resolve().parent))


def print_traceback(error: BaseException, script: str = "") -> None:
    """Print a script's traceback, without our frames, through the hook it may have installed.

    Args:
        error: What the script has raised.
        script: As the user typed it, for what to type next; ``""`` where nothing is to be typed.
    """
    strip_uncork_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    told = suggest_replacement(str(error), script)
    if told:
        sys.stderr.write(f"uncork: {told}\n")
    sys.stderr.flush()


def _summary(error: BaseException) -> str:
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"the script raised {name}: {lines[0]}" if lines else f"the script raised {name}"
