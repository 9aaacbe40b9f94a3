"""What older tutorials tell people to write, as Keras 3 has it: the part that is mechanical.

What has no equal that leaves the training as it was meant is told, and not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from uncork.codemod.keras3.generator_methods import generator_methods
from uncork.codemod.keras3.loader_arguments import loader_arguments
from uncork.codemod.keras3.loss_scaling import scaled_loss
from uncork.codemod.keras3.policy_names import policy_names
from uncork.codemod.keras3.renamed_apis import renamed
from uncork.codemod.syntax.changes import Change, Found, Insertion, changed
from uncork.codemod.syntax.patch import Patch, Unsaid
from uncork.codemod.syntax.script_tree import Source


class Rewrite(Protocol):
    """Finds all places of one kind."""

    def __call__(self, source: Source) -> Iterator[Found]:
        """Each with its change, or with the reason why there is none."""


REWRITES: Final[tuple[Rewrite, ...]] = (
    scaled_loss,
    policy_names,
    generator_methods,
    loader_arguments,
    renamed,
)


def patch_to_keras3(text: bytes, path: str) -> Patch:
    r"""A script that fails on what is gone, with what takes its place.

    Args:
        text: Of the script.
        path: Where it lies.

    Raises:
        WrongUse: It is no Python that can be read.

    Example:
        >>> patch = patch_to_keras3(b"model.fit_generator(batches(), epochs=3)\n", "train.py")
        >>> patch.after, patch.said
        (b'model.fit(batches(), epochs=3)\n', ('train.py:1: fit_generator is fit',))
    """
    source = Source(text, path)
    changes: list[Change | Insertion] = []
    said, unsaid = [], []
    places = [each for rewrite in REWRITES for each in rewrite(source)]
    for found in sorted(places, key=lambda each: source.line(each.node)):
        at = source.at(found.node)
        if found.refusal:
            unsaid.append(Unsaid(name=at, reason=found.refusal))
        else:
            changes += found.changes
            said.append(f"{at}: {found.told}")
    return Patch(
        path=path,
        before=text,
        after=changed(source, changes) if changes else text,
        said=tuple(said),
        unsaid=tuple(unsaid),
    )
