"""Run a script while it is watched, as a diagnosis does before it measures; nothing is tried.

Usage: python watched.py SCRIPT [ARGUMENT ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from uncork.capture.base.listener import PassThroughListener
from uncork.capture.script import run_script


class Watching(PassThroughListener):
    """Every dataset and every layer remembers its line; loops and steps are looked for."""

    wants_source_lines = True


if __name__ == "__main__":
    run_script(Path(sys.argv[1]), sys.argv[2:], Watching())
