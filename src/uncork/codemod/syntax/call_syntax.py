"""Calls with one more keyword, or one more link of a chain, laid out as the others are."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from uncork.codemod.syntax.script_tree import find_argument
from uncork.core.base.errors import EditRefused

_SPACE = cst.SimpleWhitespace(" ")
# Characters of a chain that still stand on one line with what is before them.
_LONG = 80


def check_keyword(call: cst.Call, name: str, replaceable_values: Collection[str]) -> None:
    """Whether a keyword may be given to a call.

    Args:
        call: As it is.
        name: Of the keyword.
        replaceable_values: What it may be given already, as code: what it is anyway.

    Raises:
        EditRefused: The script has chosen a value, or nobody can tell from the call.
    """
    given = find_argument(call, name)
    if given is not None:
        value = cst.Module([]).code_for_node(given.value)
        if value not in replaceable_values:
            raise EditRefused(f"the script passes {name}={value} itself")
    elif any(arg.star for arg in call.args):
        raise EditRefused(f"the call passes arguments with * or **, and {name} may be one of them")


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """A call with one more keyword; in the place of the one of that name, where there is one.

    Example:
        >>> call = cst.parse_expression("model.compile(loss='mse')")
        >>> cst.Module([]).code_for_node(with_keyword(call, "jit_compile", "True"))
        "model.compile(loss='mse', jit_compile=True)"
    """
    parsed = cst.parse_expression(value)
    given = find_argument(call, name)
    if given is not None:
        return call.with_deep_changes(given, value=parsed)
    new = cst.Arg(
        parsed,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not call.args:
        return call.with_changes(args=[new])
    last = call.args[-1]
    between = _between(call)
    if isinstance(last.comma, cst.Comma):
        old, new = last.comma.whitespace_after, new.with_changes(comma=cst.Comma())
        new = new.with_changes(comma=cst.Comma(whitespace_after=_without_comment(old)))
    else:
        old = last.whitespace_after_arg
        new = new.with_changes(whitespace_after_arg=_without_comment(old))
        last = last.with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    last = last.with_changes(comma=cst.Comma(whitespace_after=_with_comment_of(old, between)))
    return call.with_changes(args=[*call.args[:-1], last, new])


def without_arguments(call: cst.Call, names: Collection[str]) -> cst.Call:
    """A call without these keywords; what was last keeps the layout of the end."""
    kept = [arg for arg in call.args if not (arg.keyword and arg.keyword.value in names)]
    if kept and kept[-1] is not call.args[-1]:
        end, behind = call.args[-1], kept[-1].comma
        after = end.whitespace_after_arg
        if isinstance(behind, cst.Comma) and not isinstance(end.comma, cst.Comma):
            after = _with_comment_of(behind.whitespace_after, after)
        kept[-1] = kept[-1].with_changes(comma=end.comma, whitespace_after_arg=after)
    return call.with_changes(args=kept)


def append_method_call(call: cst.BaseExpression, name: str, arguments: str = "") -> cst.Call:
    """One more method behind an expression: on a line of its own where the last one is.

    Example:
        >>> call = cst.parse_expression("data.map(load)")
        >>> cst.Module([]).code_for_node(append_method_call(call, "prefetch", "2"))
        'data.map(load).prefetch(2)'
    """
    made = cst.parse_expression(f"_.{name}({arguments})")
    assert isinstance(made, cst.Call)
    assert isinstance(made.func, cst.Attribute)
    dot = made.func.dot
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        own = call.func.dot
        dot = own.with_changes(whitespace_before=_without_comment(own.whitespace_before))
    around = {"lpar": call.lpar, "rpar": call.rpar}  # parentheses go around all of a chain
    value = call.with_changes(lpar=[], rpar=[])
    return made.with_changes(func=made.func.with_changes(value=value, dot=dot), **around)


def break_long_chain(chain: cst.BaseExpression) -> cst.BaseExpression:
    r"""A chain of calls with a line for each, where it is too long for one line.

    Example:
        >>> long = cst.parse_expression(f"tf.data.list_files('*').map({'f' * 60}).batch(number)")
        >>> print(cst.Module([]).code_for_node(break_long_chain(long)).replace("f" * 60, "f"))
        (
            tf.data.list_files('*')
            .map(f)
            .batch(number)
        )
    """
    code = cst.Module([]).code_for_node(chain)
    if len(code) <= _LONG or "\n" in code or not isinstance(chain, cst.Call) or chain.lpar:
        return chain
    line = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    end = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(""))
    return _broken(chain, line).with_changes(
        lpar=[cst.LeftParen(whitespace_after=line)], rpar=[cst.RightParen(whitespace_before=end)]
    )


def _broken(call: cst.Call, line: cst.ParenthesizedWhitespace) -> cst.Call:
    """Each link on a line of its own, but for the first call."""
    below = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(below, cst.Call) or not isinstance(below.func, cst.Attribute):
        return call
    assert isinstance(call.func, cst.Attribute)
    dot = call.func.dot.with_changes(whitespace_before=line)
    return call.with_changes(func=call.func.with_changes(value=_broken(below, line), dot=dot))


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments of this call."""
    if len(call.args) > 1:
        comma = call.args[-2].comma
        if isinstance(comma, cst.Comma):
            return _without_comment(comma.whitespace_after)
    before = call.whitespace_before_args
    return _without_comment(before) if isinstance(before, cst.ParenthesizedWhitespace) else _SPACE


def _without_comment(
    space: cst.BaseParenthesizableWhitespace,
) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def _with_comment_of(
    old: cst.BaseParenthesizableWhitespace, between: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """A comment behind an argument stays behind it, and lines of comments below it."""
    if not isinstance(old, cst.ParenthesizedWhitespace):
        return between
    if old.first_line.comment is None and not any(line.comment for line in old.empty_lines):
        return between
    if isinstance(between, cst.ParenthesizedWhitespace):
        return between.with_changes(first_line=old.first_line, empty_lines=old.empty_lines)
    return old
