"""Private names of TensorFlow and Keras, or an error that says which one is missing."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

from uncork.compat.versions import SUPPORTED
from uncork.core.base.errors import MissingPrivateApi

_PACKAGES: Final = {"tensorflow": "TensorFlow", "keras": "Keras"}


def borrow(module: str, name: str = "") -> Any:
    """A private module, or what it contains; files of ``compat`` bind it when they are imported.

    Args:
        module: Its full name.
        name: Of what it contains; ``Class.method`` is allowed. ``""`` for the module itself.

    Raises:
        MissingPrivateApi: This release has no such name.

    Example:
        >>> borrow("tensorflow.python.eager.context", "global_seed")() is None
        True
    """
    try:
        borrowed = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            borrowed = getattr(borrowed, part)
    except (ImportError, AttributeError) as error:
        raise missing(f"{module}.{name}".rstrip(".")) from error
    return borrowed


def borrow_attribute(owner: Any, name: str) -> Any:
    """A private attribute of an object of TensorFlow or Keras, for each object anew.

    Raises:
        MissingPrivateApi: It has none of this name.

    Example:
        >>> borrow_attribute("text", "_seed")
        Traceback (most recent call last):
        uncork.core.base.errors.MissingPrivateApi: the installed release has no 'builtins.str._seed'
          expected: TensorFlow 2.18 to 2.21 with Keras 3.7 or later
          try: install one of these releases, or a newer Uncork
    """
    try:
        return getattr(owner, name)
    except AttributeError as error:
        kind = type(owner)
        raise missing(f"{kind.__module__}.{kind.__qualname__}.{name}") from error


def missing(name: str) -> MissingPrivateApi:
    """The error to raise where a private name is not there.

    Args:
        name: With the module that it is looked for in.
    """
    package = name.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    release = f"{_PACKAGES.get(package)} {version}" if version else "the installed release"
    return MissingPrivateApi(
        f"{release} has no '{name}'", SUPPORTED, "install one of these releases, or a newer Uncork"
    )
