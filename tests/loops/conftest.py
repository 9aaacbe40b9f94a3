"""The scripts are run as a user would run them, not collected."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent

collect_ignore = [p.name for p in _HERE.glob("*.py") if not p.name.startswith(("test_", "conf"))]
