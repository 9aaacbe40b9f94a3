"""One more argument, one more link: laid out as the others are, comments where they were."""

from __future__ import annotations

import libcst as cst
import pytest
from libcst import matchers

from uncork.codemod.syntax.call_syntax import (
    append_method_call,
    check_keyword,
    with_keyword,
    without_arguments,
)
from uncork.core.base.errors import EditRefused


def call(text: str) -> cst.Call:
    found = cst.parse_expression(text)
    assert isinstance(found, cst.Call)
    return found


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(n=2)"),
        ("f(a)", "f(a, n=2)"),
        ("f(a, b=1,)", "f(a, b=1, n=2,)"),
        ("f(a, n=1)", "f(a, n=2)"),
        ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    n=2\n)"),
        ("f(\n    a,\n)", "f(\n    a,\n    n=2,\n)"),
        ("f(\n    a,  # why\n)", "f(\n    a,  # why\n    n=2,\n)"),
        ("f(\n    a  # why\n)", "f(\n    a,  # why\n    n=2\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  n=2)"),
    ],
)
def test_one_more_keyword(before: str, after: str) -> None:
    assert code(with_keyword(call(before), "n", "2")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, n=1)", "f(a)"),
        ("f(n=1, b=2)", "f(b=2)"),
        ("f(\n    a,\n    n=1,\n)", "f(\n    a,\n)"),
        ("f(n=1)", "f()"),
    ],
)
def test_one_keyword_less(before: str, after: str) -> None:
    assert code(without_arguments(call(before), ("n",))) == after


def test_a_link_stands_on_a_line_of_its_own_where_the_others_do() -> None:
    assert code(append_method_call(call("data.map(f)"), "cache")) == "data.map(f).cache()"
    chained = cst.parse_module("d = (\n    data\n    .map(f)  # slow\n    .batch(2)\n)\n")
    (batch,) = [c for c in matchers.findall(chained, matchers.Call()) if ".batch" in code(c)]
    changed = chained.deep_replace(batch, append_method_call(batch, "cache"))
    assert changed.code == chained.code.replace(".batch(2)", ".batch(2)\n    .cache()")


def test_what_the_script_has_chosen_is_left() -> None:
    check_keyword(call("f(n=None)"), "n", ("None",))
    check_keyword(call("f(*a, n=1)"), "n", ("1",))
    for chosen in ("f(n=3)", "f(*a)", "f(**k)"):
        with pytest.raises(EditRefused):
            check_keyword(call(chosen), "n", ("1",))
