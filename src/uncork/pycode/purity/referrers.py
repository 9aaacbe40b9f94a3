"""Who holds an object: asked of Python's garbage collector, safely.

The collector walks all objects it knows while it looks. Where one is a tensor, TensorFlow makes
its dictionary of attributes in the middle of that walk, which up to Python 3.11 may begin a
collection; the walk then goes on in a list that is gone, and the process dies. So collections wait
for the end of it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def find_referrers(*held: object) -> list[object]:
    """All that refers to one of these objects, in no order: frames, dictionaries, cells and so on.

    Example:
        >>> word = object()
        >>> words = [word]
        >>> any(each is words for each in find_referrers(word))
        True
    """
    with _no_collection():
        return gc.get_referrers(*held)


def find_owners(value: object) -> list[object]:
    """All that refers to an object, also in its attributes.

    Attributes lie in the object itself, or in a dictionary that it holds. Of no use for what the
    collector does not know, as numbers and strings: nor does it know dictionaries of such alone.

    Example:
        >>> class Owner:
        ...     pass
        >>> owner, word = Owner(), []
        >>> owner.word = word
        >>> any(each is owner for each in find_owners(word))
        True
    """
    found = find_referrers(value)
    attributes = [each for each in found if type(each) is dict]
    return found + find_referrers(*attributes) if attributes else found


@contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
