"""What in a script keeps it from running on another Keras backend."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from uncork.pycode.syntax.parse import find_sklearn_names, parse_source, root_name

# Of TensorFlow's, what no other backend of Keras's has, or gives something else for.
_OF_TENSORFLOW: Final = frozenset({
    "GradientTape", "function", "Variable", "saved_model", "distribute", "train", "summary",
    "compat", "config", "lite", "profiler", "Module", "py_function",
})  # fmt: skip


# Files that are read; a script that stands in a whole library's folder imports that.
_MOST: Final = 500


def tensorflow_only_reason(script: Path) -> str:
    """Why Uncork does not try another backend: part of a sentence; empty where nothing forbids it.

    Data may come from ``tf.data``, and ``tf.image`` may process it. Uncork does not run what comes
    after the training, so this function searches the script and the modules in its folder for code
    that would fail there. Another backend would also run every training of the script, not only the
    measured one.
    """
    trainings = 0
    for path, tree in _files(script):
        others = find_sklearn_names(tree)
        for node in ast.walk(tree):
            found = _asked(node)
            if found:
                return f"{path.name}:{node.lineno} uses {found}"  # type: ignore[attr-defined]
            trainings += _trains(node, others)
    if trainings <= 1:
        return ""
    return f"the script calls fit in {trainings} places, and Uncork measured only one of them"


def _trains(node: ast.AST, others: frozenset[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="fit" | "train_on_batch")):
            return root_name(value) not in others
    return False


def _asked(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr="numpy"), args=[]):
            return ".numpy(), which another backend's arrays do not have"
        case ast.Call(func=ast.Attribute(attr="export")):
            return ".export(), which writes a TensorFlow graph"
        case ast.Attribute(value=ast.Name(id="tf" | "tensorflow"), attr=attr) if (
            attr in _OF_TENSORFLOW
        ):
            return f"tf.{attr}"
        case ast.ImportFrom(module="tensorflow", names=names) if _OF_TENSORFLOW & _named(names):
            return f"tf.{min(_OF_TENSORFLOW & _named(names))}"
        case ast.Constant(value="KERAS_BACKEND" | "TF_USE_LEGACY_KERAS" as name):
            return f"{name}: it chooses the backend itself"
    return ""


def _named(names: list[ast.alias]) -> set[str]:
    return {each.name for each in names}


def _files(script: Path) -> Iterator[tuple[Path, ast.AST]]:
    """The script, and what it and they import of the modules and packages beside it, each once."""
    waiting, seen = [script], {script}
    while waiting and len(seen) < _MOST:
        path = waiting.pop(0)
        with suppress(OSError, SyntaxError, ValueError):
            tree = parse_source(path.read_bytes())
            yield path, tree
            found = dict.fromkeys(_imported(tree, path, script.parent))
            waiting += [each for each in found if each not in seen]
            seen.update(found)


def _imported(tree: ast.AST, path: Path, root: Path) -> Iterator[Path]:
    """Files that a module imports from the folder of the script."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=given):
                folder, names = root, [alias.name for alias in given]
            case ast.ImportFrom(module=module, names=given, level=level):
                if level > len(path.parents):
                    continue
                folder = path.parents[level - 1] if level else root
                inner = [f"{module}.{each.name}" if module else each.name for each in given]
                names = [*([module] if module else []), *inner]
            case _:
                continue
        for name in names:
            parts = name.split(".")
            for length in range(1, len(parts) + 1):  # a package is imported before what is in it
                beside = folder.joinpath(*parts[:length])
                yield from filter(Path.is_file, (beside.with_suffix(".py"), beside / "__init__.py"))
