"""The diff is one that ``patch`` takes, whatever the text is like."""

from __future__ import annotations

import pytest

from uncork.codemod.syntax.patch import Patch


def diff(before: bytes, after: bytes, name: str = "train.py") -> bytes:
    return Patch(path=name, before=before, after=after).diff(name)


def test_nothing_for_nothing() -> None:
    assert diff(b"x\n", b"x\n") == b""


def test_a_missing_end_of_line_is_told() -> None:
    assert diff(b"x", b"y").endswith(
        b"-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize("kept", [b"a\x0cb", b"caf\xe9", "x = '\u2028'".encode(), b"a\r"])
def test_bytes_are_kept_and_lines_end_where_patch_has_them_end(kept: bytes) -> None:
    assert diff(kept + b"\nx\n", kept + b"\ny\n").split(b"\n")[3] == b" " + kept


def test_a_name_with_spaces_ends_in_a_tab() -> None:
    assert diff(b"x\n", b"y\n", "my train.py").startswith(b"--- my train.py\t\n+++ my train.py\t\n")
