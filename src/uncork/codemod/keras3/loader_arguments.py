"""``fit`` without ``workers``, ``use_multiprocessing`` and ``max_queue_size``.

They belong to the data now: ``super().__init__(workers=...)`` of a ``PyDataset``. What is trained
is the same without them; how fast batches come is not, which is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.codemod.syntax.call_syntax import without_arguments
from uncork.codemod.syntax.changes import Change, RewriteSite
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument, method_name

REMOVED_ARGUMENTS: Final = ("workers", "use_multiprocessing", "max_queue_size")
_METHODS: Final = ("fit", "evaluate", "predict")


def own_method_refusal(source: ScriptTree, name: str) -> str:
    """Why a call by this name need not be of Keras's, as a sentence; ``""`` where it must be."""
    own = source.find_function(name)
    if own is None:
        return ""
    return (
        f"the script defines its own {name} on line {source.line(own)}, which may be the one it "
        "uses"
    )


def find_loader_arguments(source: ScriptTree) -> Iterator[RewriteSite]:
    """All calls that have one of them."""
    for call in (call for name in _METHODS for call in source.calls(name)):
        names = [name for name in REMOVED_ARGUMENTS if find_argument(call, name)]
        refusal = own_method_refusal(source, method_name(call)) if names else ""
        if refusal:
            yield RewriteSite(call, refusal_reason=refusal)
        elif names:
            told = (
                f"{', '.join(names)}: now arguments of the data, super().__init__(...) of a "
                "PyDataset"
            )
            yield RewriteSite(
                call, told, (Change(call, lambda now: without_arguments(now, REMOVED_ARGUMENTS)),)
            )
