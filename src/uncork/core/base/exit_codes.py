"""Exit codes of the command line, fixed because scripts and CI jobs rely on them."""

from typing import Final

DONE: Final = 0
SCRIPT_FAILED: Final = 1
WRONG_USE: Final = 2
NOTHING_TO_MEASURE: Final = 3
REGRESSION: Final = 4
INTERRUPTED: Final = 130
