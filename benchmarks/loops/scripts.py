"""The scripts of ``tests/loops``, and what their marked line says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from uncork.core.base.record import Record

ROOT: Final = Path(__file__).parents[2] / "tests" / "loops"
_MARK: Final = re.compile(r"# bottleneck: (\w+)$")


class Loop(Record, frozen=True, kw_only=True):
    """One script.

    Attributes:
        script: Its path; its name says its style.
        cause: What slows it down.
        line: The number of the line to blame, from 1.
    """

    script: Path
    cause: str
    line: int

    @property
    def name(self) -> str:
        """Its style."""
        return self.script.stem


def find(names: Sequence[str] = ()) -> tuple[Loop, ...]:
    """All scripts, or those with one of these names."""
    every = tuple(_loop(script) for script in sorted(ROOT.glob("*.py")))
    return tuple(loop for loop in every if not names or loop.name in names)


def _loop(script: Path) -> Loop:
    found = [
        (number, mark[1])
        for number, line in enumerate(script.read_text().splitlines(), 1)
        if (mark := _MARK.search(line))
    ]
    ((line, cause),) = found
    return Loop(script=script, cause=cause, line=line)
