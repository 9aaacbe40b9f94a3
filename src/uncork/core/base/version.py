"""The version of Uncork, stated once."""

from typing import Final

__version__: Final = "0.1.0"
