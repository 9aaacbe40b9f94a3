"""No package but ``compat`` knows private modules or attributes of TensorFlow, Keras and others.

ruff rejects their imports (rule TID251); what it does not see is looked for in the syntax trees.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import uncork

ROOT = Path(uncork.__path__[0])
PRIVATE_MODULES = (
    *("tensorflow.python", "tensorflow.core", "tensorflow.tsl", "tensorflow.compiler"),
    "keras.src",
)
# Python's documentation describes them in spite of their names.
DOCUMENTED = {"_current_frames", "_exit", "_getframe", "_replace"}
# Uncork's own attributes on objects of TensorFlow.
OURS = "_uncork_"
# Private attributes that other packages still use, and in how many places. Nothing is added here,
# and no number grows: what you need belongs into a file of compat with a test.
STILL_USED: dict[str, int] = {
    "_args_from_interpreter_flags": 1,
    "_lru_cache_wrapper": 2,
    "_rand": 1,
    "_reconstructor": 1,
    "_result_queue": 1,
    "_writer": 1,
}


@functools.cache  # read by a test, not by each process that collects the tests
def trees() -> dict[str, ast.Module]:
    paths = sorted(ROOT.rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def other_trees() -> dict[str, ast.Module]:
    """Those of all packages but ``compat``."""
    return {name: tree for name, tree in trees().items() if not name.startswith("compat/")}


def own_names(tree: ast.AST) -> Iterator[str]:
    """What a module defines: classes, functions, variables, attributes that are set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif _is_of_self(node) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _is_of_self(node: ast.AST) -> bool:
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return is_attribute and node.value.id in ("self", "cls")


def private_attributes(tree: ast.AST, own: set[str]) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or _is_of_self(node):
            continue
        name = node.attr
        is_private = name.startswith("_") and not name.startswith(("__", OURS))
        if is_private and name not in own | DOCUMENTED:
            yield name, node.lineno


def private_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and str(node.value).startswith(PRIVATE_MODULES):
            yield node.value, node.lineno


@functools.cache
def places_of_private_attributes() -> list[tuple[str, str]]:
    own = {name for tree in trees().values() for name in own_names(tree)}
    return [
        (name, f"{file}:{line}")
        for file, tree in other_trees().items()
        for name, line in private_attributes(tree, own)
    ]


def test_no_string_names_a_private_module() -> None:
    places = [
        f"{file}:{line}: {name}"
        for file, tree in other_trees().items()
        for name, line in private_modules(tree)
    ]
    assert places == [], "put it into compat/hook_targets.py"


def test_no_private_attribute_is_used_outside_of_compat() -> None:
    found = places_of_private_attributes()
    counts = Counter(name for name, _ in found)
    more = {name for name, count in counts.items() if count > STILL_USED.get(name, 0)}
    places = [f"{place}: {name}" for name, place in found if name in more]
    assert places == [], "read it through a function in compat"


def test_what_is_used_no_more_is_off_the_list() -> None:
    counts = Counter(name for name, _ in places_of_private_attributes())
    fewer = {name: counts[name] for name, count in STILL_USED.items() if counts[name] < count}
    assert fewer == {}, "set these numbers in STILL_USED; remove zeros"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("model._jit_compile", ["_jit_compile"]),
        ("model._jit_compile = model._losses", ["_jit_compile", "_losses"]),
        ("get()._layers[0]._layers", ["_layers", "_layers"]),
        ("self._layers, cls._layers, model.layers, model.__dict__", []),
        ("self.model._layers", ["_layers"]),
        ("class A:\n    def _own(self): self._set = 1\nother._own, other._set", []),
        ("sys._getframe(1), dataset._uncork_made_at", []),
    ],
)
def test_private_attributes_are_found(code: str, names: list[str]) -> None:
    tree = ast.parse(code)
    found = private_attributes(tree, set(own_names(tree)))
    assert sorted(name for name, _ in found) == names


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("wait('keras.src.layers', b'x', 1)", ["keras.src.layers"]),
        ("f'tensorflow.python.{name}'", ["tensorflow.python."]),
        ("'keras', 'tensorflow', 'a keras.src'", []),
    ],
)
def test_strings_with_private_modules_are_found(code: str, names: list[str]) -> None:
    assert [name for name, _ in private_modules(ast.parse(code))] == names
