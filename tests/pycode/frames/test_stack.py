from __future__ import annotations

import os
import sys

import pytest

from uncork.pycode.frames.stack import fix_location_folder, format_location, is_user_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "layers").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


def test_what_pip_installed_into_a_folder_of_any_name_is_a_library(folder):
    installed = folder / "layers-1.0.dist-info"
    installed.mkdir()
    (installed / "RECORD").write_text(
        "layers/__init__.py,sha256=a,0\nlayers/dense.py,,\nalone.py,,\n"
    )
    assert not is_user_file(str(folder / "layers" / "dense.py"))
    assert not is_user_file(str(folder / "alone.py"))
    # The user's own modules may lie beside it, and have to be watched.
    assert is_user_file(str(folder / "own.py"))
    assert is_user_file(str(folder / "layers2" / "dense.py"))
    assert is_user_file(str(folder.parent / "train.py"))


def test_modules_of_the_users_own_that_python_finds_are_his(folder):
    assert is_user_file(str(folder / "layers" / "dense.py"))


@pytest.mark.parametrize("name", ["<stdin>", "<python-input-3>", "<ipython-input-3-0a1b>"])
def test_what_is_typed_at_a_prompt_is_the_users(name):
    """Whichever prompt: Python 3.13 numbers what is typed."""
    assert is_user_file(name)


def test_what_a_program_writes_is_nobodys():
    assert not is_user_file("<string>")


def test_a_script_that_goes_elsewhere_keeps_the_name_that_was_typed(folder, monkeypatch):
    script = folder / "inner" / "train.py"
    script.parent.mkdir()
    monkeypatch.chdir(folder)
    with fix_location_folder():
        monkeypatch.chdir(script.parent)
        assert format_location(str(script), 9) == os.path.join("inner", "train.py:9")  # noqa: PTH118
    assert format_location(str(script), 9) == "train.py:9"
