"""A place in a script that Keras 3 no longer understands."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from uncork.source.changes import Change


@dataclass(frozen=True)
class Found:
    """What is there, and what takes its place.

    Attributes:
        node: Where.
        told: What becomes of it, in a few words.
        changes: What to write.
        refusal: Why nothing is written; ``""`` where it is.
    """

    node: cst.CSTNode
    told: str = ""
    changes: tuple[Change, ...] = ()
    refusal: str = ""
