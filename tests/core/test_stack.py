from __future__ import annotations

import sys

import pytest

from uncork.core.stack import is_users


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "layers").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


def test_a_folder_of_any_name_that_pip_installed_into_holds_libraries(folder):
    (folder / "layers-1.0.dist-info").mkdir()
    assert not is_users(str(folder / "layers" / "dense.py"))
    assert is_users(str(folder.parent / "train.py"))


def test_modules_of_the_users_own_that_python_finds_are_his(folder):
    assert is_users(str(folder / "layers" / "dense.py"))
