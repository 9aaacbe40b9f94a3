"""What older tutorials tell people to write, as Keras 3 has it: the part that is mechanical.

What has no equal that leaves the training as it was meant is told, and not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from uncork.codemod.keras3.generator_methods import find_generator_methods
from uncork.codemod.keras3.loader_arguments import find_loader_arguments
from uncork.codemod.keras3.loss_scaling import find_loss_scaling
from uncork.codemod.keras3.policy_names import find_policy_names
from uncork.codemod.keras3.renamed_apis import find_renamed_apis
from uncork.codemod.syntax.changes import Change, Insertion, RewriteSite, apply_changes
from uncork.codemod.syntax.patch import OmittedChange, Patch
from uncork.codemod.syntax.script_tree import ScriptTree


class RewriteRule(Protocol):
    """Finds all places of one kind."""

    def __call__(self, source: ScriptTree) -> Iterator[RewriteSite]:
        """Each with its change, or with the reason why there is none."""


REWRITE_RULES: Final[tuple[RewriteRule, ...]] = (
    find_loss_scaling,
    find_policy_names,
    find_generator_methods,
    find_loader_arguments,
    find_renamed_apis,
)


def build_keras3_patch(text: bytes, path: str) -> Patch:
    r"""A script that fails on what is gone, with what takes its place.

    Args:
        text: Of the script.
        path: Where it lies.

    Raises:
        WrongUse: It is no Python that can be read.

    Example:
        >>> patch = build_keras3_patch(b"model.fit_generator(batches(), epochs=3)\n", "train.py")
        >>> patch.after, patch.included
        (b'model.fit(batches(), epochs=3)\n', ('train.py:1: fit_generator is fit',))
    """
    source = ScriptTree(text, path)
    changes: list[Change | Insertion] = []
    said, unsaid = [], []
    places = [each for rewrite in REWRITE_RULES for each in rewrite(source)]
    for found in sorted(places, key=lambda each: source.line(each.node)):
        at = source.at(found.node)
        if found.refusal_reason:
            unsaid.append(OmittedChange(name=at, reason=found.refusal_reason))
        else:
            changes += found.changes
            said.append(f"{at}: {found.description}")
    return Patch(
        path=path,
        before=text,
        after=apply_changes(source, changes) if changes else text,
        included=tuple(said),
        omitted=tuple(unsaid),
    )
