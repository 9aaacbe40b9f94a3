"""Each file of compat that borrows names when it is imported, on a release without one of them."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import uncork.compat
from uncork.compat import borrow as borrowing
from uncork.core.base.errors import MissingPrivateApi

ROOT = Path(uncork.compat.__path__[0])
FILES = sorted(
    path
    for path in ROOT.rglob("*.py")
    if path.name != "borrow.py" and re.search(r"\bborrow\(", path.read_text())
)
NAMES = [str(path.relative_to(ROOT).with_suffix("")) for path in FILES]


def load(path, monkeypatch):
    """A second copy of a module: the one that others import stays as it is."""
    spec = importlib.util.spec_from_file_location(f"copy_of_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)


def borrowed_by(path, monkeypatch):
    names, borrow = [], borrowing.borrow

    def recording(module, name=""):
        names.append((module, name))
        return borrow(module, name)

    with monkeypatch.context() as patch:
        patch.setattr(borrowing, "borrow", recording)
        load(path, patch)
    return names


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_missing_name_is_a_named_error(path, monkeypatch):
    names = borrowed_by(path, monkeypatch)
    assert names
    for module, name in names:
        owner, _, last = name.rpartition(".")
        with monkeypatch.context() as patch:
            if name:
                patch.setattr(borrowing.borrow(module, owner), last, None, raising=True)
                patch.delattr(borrowing.borrow(module, owner), last)
            else:
                patch.setitem(sys.modules, module, None)
            if (module, name) in TOLERATED:
                load(path, patch)
                continue
            with pytest.raises(MissingPrivateApi, match=re.escape(f"{module}.{name}".rstrip("."))):
                load(path, patch)


# Where one of these is missing, a measurement says that it is not known.
TOLERATED = {
    (
        "tensorflow.python.eager.polymorphic_function.tracing_compilation",
        "_graph_building_time_counter",
    )
}


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_file_says_what_it_borrows_and_why(path):
    text = path.read_text()
    for label in ("Borrowed: ", "Why: ", "Works with: ", "Where a name is missing: "):
        assert f"\n{label}" in text, label
