"""One exception tree: what was received, what was expected, what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.core.base import exit_codes

# Characters of a line that is quoted.
_LONGEST: Final = 200


def shorten_list(names: Sequence[str], max_names: int = 6) -> str:
    """Names in one sentence; of many the first, and how many more.

    Example:
        >>> shorten_list(["a", "b"]), shorten_list(["a", "b", "c"], max_names=2)
        ('a, b', 'a, b and 1 more')
    """
    more = len(names) - max_names
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:max_names])} and {more} more"


def quote(text: str) -> str:
    """What is somebody else's, as part of a sentence; a report that conceals leaves it out.

    Example:
        >>> print(quote("no such file: 'a.csv'"))
        'no such file: "a.csv"'
    """
    return f"'{text.replace(chr(39), chr(34))}'"


class UncorkError(Exception):
    r"""A failure that the user can do something about.

    Args:
        received: What Uncork found, with the value itself.
        expected: What it needs instead.
        remedy: What to type or change next.

    Example:
        >>> str(WrongUse("no script 'trian.py'", "a Python file", "check the path"))
        "no script 'trian.py'\n  expected: a Python file\n  try: check the path"
    """

    exit_code: int = exit_codes.WRONG_USE

    def __init__(self, received: str, expected: str = "", remedy: str = "") -> None:
        super().__init__(received, expected, remedy)
        self.received = received
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.received]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.remedy:
            lines.append(f"  try: {self.remedy}")
        return "\n".join(lines)


class WrongUse(UncorkError):
    """The command, the call or the input cannot be used as given."""


class MissingTensorFlow(WrongUse):
    """No TensorFlow build is installed in the environment that runs the script."""


class MissingPrivateApi(WrongUse):
    """The installed TensorFlow or Keras lacks a private name that Uncork borrows."""


class PlanRefused(WrongUse):
    """A plan is corrupt, hand-edited, too new, or made for another workload."""


class EditRefused(UncorkError):
    """One edit's precondition does not hold: the thing it would change is not what it expects."""


class PatchRefused(UncorkError):
    """A patched script does not train as the plan does, or does not train at all."""


class NothingToMeasure(UncorkError):
    """The script ended, or its training was too short, before anything could be measured."""

    exit_code = exit_codes.NOTHING_TO_MEASURE


class OutOfMemory(NothingToMeasure):
    """The training does not fit into memory, as written or in any way that is known."""


class ScriptFailed(UncorkError):
    """The user's script raised; its own traceback has been printed already."""

    exit_code = exit_codes.SCRIPT_FAILED


class RegressionFound(UncorkError):
    """``uncork check`` found a training slower than its plan promises."""

    exit_code = exit_codes.REGRESSION


def first_line(error: BaseException) -> str:
    r"""What an error says, without its pages of detail; ``""`` where it says nothing.

    Example:
        >>> first_line(ValueError("no such layer\n and ten lines more")), first_line(ValueError())
        ('no such layer', '')
    """
    return str(error).strip().partition("\n")[0][:_LONGEST]


def describe_error(error: BaseException) -> str:
    """Its kind and what it says, as part of a sentence.

    Example:
        >>> describe_error(ValueError("no such layer"))
        "ValueError: 'no such layer'"
    """
    said = first_line(error)
    return f"{type(error).__name__}: {quote(said)}" if said else type(error).__name__
