from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from uncork.core.base.errors import WrongUse
from uncork.report.html.page import save_report


def test_writes_whole_file_and_makes_the_folder(tmp_path: Path):
    target = tmp_path / "new" / "report.html"
    save_report("<p>ü</p>", target)
    assert target.read_text(encoding="utf-8") == "<p>ü</p>"
    assert [each.name for each in target.parent.iterdir()] == ["report.html"]


def test_a_folder_of_that_name_is_refused_with_a_remedy(tmp_path: Path):
    with pytest.raises(WrongUse, match="cannot write the report") as caught:
        save_report("x", tmp_path)
    assert str(tmp_path) in caught.value.received
    assert "uncork report" in caught.value.remedy


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_keeps_the_old_report(tmp_path: Path):
    target = tmp_path / "report.html"
    save_report("old", target)
    partial = target.with_name(f".report.html.{os.getpid()}.partial")
    partial.symlink_to("/dev/full")
    with pytest.raises(WrongUse, match="No space left"):
        save_report("new", target)
    assert target.read_text() == "old"
    assert not partial.is_symlink()


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user"
)
def test_a_folder_without_permission_is_refused(tmp_path: Path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(WrongUse, match="Permission denied"):
            save_report("x", tmp_path / "report.html")
    finally:
        tmp_path.chmod(0o700)
