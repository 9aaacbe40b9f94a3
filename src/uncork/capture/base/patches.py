"""Replaces attributes of classes and modules on import, and restores them at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wrapt

from uncork.core.base.errors import WrongUse


class PatchSet:
    """A set of replacements that is restored as a whole.

    Example:
        >>> import json
        >>> patches = PatchSet()
        >>> patches.when_imported(
        ...     "json", lambda module: patches.replace(module, "dumps", lambda dumps: str)
        ... )
        >>> json.dumps(None)
        'None'
        >>> patches.restore()
        >>> json.dumps(None)
        'null'
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._active = True

    def when_imported(self, module: str, hook: Callable[[Any], None]) -> None:
        """Call ``hook`` with a module: now if it is imported, else right after it will be."""

        def once(module: Any) -> None:
            # wrapt keeps its hooks for ever; those of a finished set must stay silent.
            if self._active:
                hook(module)

        wrapt.register_post_import_hook(once, module)

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute with ``make(original)``.

        Raises:
            WrongUse: The installed TensorFlow or Keras has no such attribute.
        """
        original = getattr(owner, name, None)
        if original is None:
            raise WrongUse(
                f"{owner.__name__} has no '{name}': Uncork does not support this version "
                "of the package",
                "TensorFlow 2.18 to 2.21 with Keras 3.7 or later",
                "pip install 'uncork[cpu]'",
            )
        inherited = name not in vars(owner)
        setattr(owner, name, make(original))
        self._undo.append(
            lambda: delattr(owner, name) if inherited else setattr(owner, name, original)
        )

    def restore(self) -> None:
        """Restore all attributes, last first. Modules imported later stay unchanged."""
        self._active = False
        while self._undo:
            self._undo.pop()()
