"""The version of Uncork, stated once."""

__version__ = "0.1.0"
