from __future__ import annotations

import warnings

import pytest

from uncork.pycode.syntax.parse import parse_source


@pytest.mark.parametrize("action", ["always", "error"])
def test_what_the_parser_warns_of_is_not_said(action):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        assert parse_source(r'x = "\d"').body
    assert not seen


def test_warnings_are_said_again_afterwards():
    parse_source("x = 1")
    with pytest.warns(UserWarning, match="mine"):
        warnings.warn("mine", stacklevel=1)
