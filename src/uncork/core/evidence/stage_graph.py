"""How the stages of a pipeline hang together.

Stages are listed as their elements come about: what a stage is made from stands before it, and the
branches that it joins one after the other. So all below a stage is one run of neighbours, and its
lowest index, which every stage keeps, says the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uncork.core.evidence.stage import Stage


def subtree_indices(stage: Stage) -> range:
    """Indices of a stage and of all that it is made from: what a cache of it spares.

    Example:
        >>> subtree_indices(Stage(index=4, first_index=2, kind="map"))
        range(2, 5)
    """
    return range(stage.first_index, stage.index + 1)


def input_indices(stages: Sequence[Stage], index: int) -> tuple[int, ...]:
    """Indices of the stages that one reads from, in the order of its inputs.

    Example:
        >>> images, labels = (Stage(index=i, first_index=i, kind="range") for i in (0, 1))
        >>> input_indices([images, labels, Stage(index=2, kind="zip")], 2)
        (0, 1)
    """
    found: list[int] = []
    last = index - 1
    while last >= stages[index].first_index:
        found.append(last)
        last = stages[last].first_index - 1
    return tuple(reversed(found))


def find_cropping_maps(stages: Sequence[Stage], index: int) -> tuple[Stage, ...]:
    """The map that crops images, and the one below it where that one decodes them.

    Example:
        >>> load, crop = (Stage(index=i, kind="map", has_upstream_decoder=i == 1) for i in (0, 1))
        >>> [stage.index for stage in find_cropping_maps([load, crop], 1)]
        [0, 1]
    """
    lower = input_indices(stages, index)[-1:] if stages[index].has_upstream_decoder else ()
    return (*(stages[i] for i in lower), stages[index])


def consecutive_stages(stages: Sequence[Stage]) -> Iterator[tuple[Stage, Stage]]:
    """Each stage that reads from a single one, with that one before it."""
    for position, stage in enumerate(stages):
        inputs = input_indices(stages, position)
        if len(inputs) == 1:
            yield stages[inputs[0]], stage


def join_depths(stages: Sequence[Stage]) -> list[int]:
    """How many joins lie above each stage.

    Example:
        >>> images, labels = (Stage(index=i, first_index=i, kind="range") for i in (0, 1))
        >>> join_depths([images, labels, Stage(index=2, kind="zip"), Stage(index=3, kind="batch")])
        [1, 1, 0, 0]
    """
    found = [0] * len(stages)
    for position in reversed(range(len(stages))):
        inputs = input_indices(stages, position)
        for below in inputs:
            found[below] = found[position] + (len(inputs) > 1)
    return found
