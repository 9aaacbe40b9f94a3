"""``fit`` without ``workers``, ``use_multiprocessing`` and ``max_queue_size``.

They belong to the data now: ``super().__init__(workers=...)`` of a ``PyDataset``. What is trained
is the same without them; how fast batches come is not, which is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.source.calls import without_arguments
from uncork.source.changes import Change
from uncork.source.found import Found
from uncork.source.tree import Source, argument

GONE: Final = ("workers", "use_multiprocessing", "max_queue_size")
_METHODS: Final = ("fit", "evaluate", "predict")


def loader_arguments(source: Source) -> Iterator[Found]:
    """All calls that have one of them."""
    for call in (call for name in _METHODS for call in source.calls(name)):
        names = [name for name in GONE if argument(call, name)]
        if names:
            told = f"{', '.join(names)}: now of the data, super().__init__(...) of a PyDataset"
            yield Found(call, told, (Change(call, lambda now: without_arguments(now, GONE)),))
