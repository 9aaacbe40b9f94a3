"""The tree of ARCHITECTURE.md: small folders, no facades, and tests that mirror it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "uncork"
TESTS = ROOT / "tests"
MAX_MODULES = 16
# The soft limit is 400; two modules are above it, and none may grow past this.
MAX_LINES = 460
# Folders of tests without a package of that name: whole scripts, examples, and what they need.
OTHER_TESTS = {"examples", "gpu", "loops", "quick_start", "scripts", "truth", "workloads"}

FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})
each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f.relative_to(SOURCE)))


@each_folder
def test_a_folder_has_few_modules_and_one_sentence_of_purpose(folder: Path) -> None:
    assert len([p for p in folder.glob("*.py") if p.name != "__init__.py"]) <= MAX_MODULES
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


@each_folder
def test_a_package_re_exports_nothing(folder: Path) -> None:
    if folder == SOURCE:  # the public interface
        return
    body = ast.parse((folder / "__init__.py").read_text()).body
    assert [type(statement) for statement in body] == [ast.Expr], "only a docstring"


def test_modules_stay_below_the_limit_of_lines() -> None:
    counts = {p: len(p.read_text().splitlines()) for p in SOURCE.rglob("*.py")}
    assert [(str(p.relative_to(SOURCE)), n) for p, n in counts.items() if n > MAX_LINES] == []


def test_tests_mirror_the_tree() -> None:
    folders = {p.parent.relative_to(TESTS) for p in TESTS.rglob("test_*.py")} - {Path()}
    mirrored = [f for f in folders if f.parts[0] not in OTHER_TESTS]
    assert [str(f) for f in mirrored if not (SOURCE / f).is_dir()] == []
