"""``python -m uncork`` is ``uncork``."""

from __future__ import annotations

import sys

from uncork.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
