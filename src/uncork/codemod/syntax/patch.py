"""What is printed: a unified diff, and what is not in it."""

from __future__ import annotations

import difflib
import re
from typing import Final

from uncork.core.base.record import Record

_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


class OmittedChange(Record, frozen=True, kw_only=True):
    """A change that is not written into the script, and why."""

    name: str
    reason: str


class Patch(Record, frozen=True, kw_only=True):
    """A script before and after.

    Attributes:
        path: Of the script.
        before: Its text.
        after: What it would be.
        included: Names of the steps, or words for the changes, that are in it.
        omitted: What is not in it.
        notes: What else the user should know of what is in it.
    """

    path: str
    before: bytes
    after: bytes
    included: tuple[str, ...] = ()
    omitted: tuple[OmittedChange, ...] = ()
    notes: tuple[str, ...] = ()

    def diff(self, name: str) -> bytes:
        r"""The change as ``patch -p0`` takes it; nothing where there is none.

        Args:
            name: What to call the file.

        Example:
            >>> patch = Patch(path="train.py", before=b"fit(x)\n", after=b"fit(x.cache())\n")
            >>> print(patch.diff("train.py").decode(), end="")
            --- train.py
            +++ train.py
            @@ -1 +1 @@
            -fit(x)
            +fit(x.cache())
        """
        # Bytes that are no text of this script's encoding stay what they are.
        texts = (text.decode("utf-8", "surrogateescape") for text in (self.before, self.after))
        before, after = map(_lines, texts)
        # As git and diff have it: behind a name with spaces stands a tab.
        name = f"{name}\t" if " " in name else name
        lines = difflib.unified_diff(before, after, name, name)
        written = (line if line.endswith("\n") else line + _NO_NEWLINE for line in lines)
        return "".join(written).encode("utf-8", "surrogateescape")


def _lines(text: str) -> list[str]:
    """As ``patch`` counts them; ``splitlines`` would also end some at form feeds."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
