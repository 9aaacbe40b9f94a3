"""The words of messages and pages: terms of TensorFlow, Keras and profiling, no riddles.

A message is any string of a module, docstrings aside, with at least two words in a row. Templates
and pages are read as a whole.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "uncork"
# Packages whose messages are in plain words. The last step is to hold all packages to it.
PACKAGES = (
    "rules",
    "report",
    "cli",
    "codemod",
    "core",
    "compat",
    "pycode",
    "measure",
    "pipeline",
    "training",
    "capture",
    "engine",
    "api",
    "verify",
    "optimizations",
)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
TEMPLATES = sorted((SOURCE / "report").rglob("*.j2"))

# Each with the words to write instead.
RIDDLES: Final = {
    r"brakes?": "bottleneck",
    r"(the|this) road": "optimizations",
    r"walk(s|ed)? the": "try in order",
    r"as written": "unmodified, original",
    r"op by op": "eagerly",
    r"consent(s|ed)?": "opt-in",
    r"laid aside|lays? aside": "held out",
    r"in turn": "interleaved, one after the other",
    r"anew": "again",
    r"over and over": "repeatedly",
    r"whoever|nobody|somebody": "say who",
    r"thrown away|throws? away": "discarded",
    r"fill(s|ed)? up": "padded",
    r"told|tells? of": "reported, known",
    r"(put|puts|gives?|given) back": "restored",
    r"goes on|go on": "continues",
    r"in force": "active, applied",
    r"beside": "asynchronously, during, in addition to",
    r"spare[sd]?": "saved",
    r"for ever|for good": "permanently",
    r"by itself|by themselves": "automatically, in isolation, separately",
    r"dear(er|est)?": "expensive",
    r"side by side": "in parallel",
    r"made again|make it again": "recomputed, recreated",
    r"hand(s|ed)? over": "passed",
    r"all the same": "nevertheless",
    r"trifles?": "negligible",
    r"traps?": "correctness issue",
    r"at once": "simultaneously, vectorized",
    r"apart": "separately",
    r"elsewhere": "in another process, at another place",
    r"likewise|alike": "also, equal",
    r"(?<!as far )(?<!often )as it is": "unmodified",
    r"of yours": "your",
}
_RIDDLE: Final = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in RIDDLES), re.IGNORECASE)
_TWO_WORDS: Final = re.compile(r"[A-Za-z]{2,}[,;:]? [a-z]")


def riddles(text: str) -> list[str]:
    """The words that a reader would have to guess at."""
    return [match.group() for match in _RIDDLE.finditer(" ".join(text.split()))]


def messages(module: str) -> Iterator[tuple[int, str]]:
    """Lines and texts of all strings that read as words, with ``{}`` for values."""
    nodes = list(ast.walk(ast.parse(module)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    skipped = docstrings | {id(part) for node in joined for part in node.values}
    for node in nodes:
        text = None if id(node) in skipped else _text(node)
        if text is not None and _TWO_WORDS.search(text):
            yield node.lineno, text


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_in_plain_words(package: str) -> None:
    problems = [
        f"{path.relative_to(SOURCE)}:{line}: {', '.join(riddles(text))}: {text}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, text in messages(path.read_text())
        if riddles(text)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("page", [*PAGES, *TEMPLATES], ids=lambda path: path.name)
def test_pages_and_templates_are_in_plain_words(page: Path) -> None:
    assert riddles(page.read_text()) == []


def test_what_counts_as_a_message() -> None:
    module = (
        '"""A brake."""\nKEY = "in_turn"\nx = f"{KEY} takes anew" f" the {KEY}"\ny = ("a", "b c")\n'
    )
    assert list(messages(module)) == [(3, "{} takes anew the {}")]
    assert riddles("It is Told,\nin  turn; an anewbie") == ["Told", "in turn"]
