"""An input pipeline as an immutable tree, read from the Dataset objects themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.errors import WrongUse
from uncork.core.stage import AUTOTUNE
from uncork.pipeline.graphs import ConcreteFunction, graph_of
from uncork.pipeline.kinds import Dataset, inputs_of, kind_of, unwrapped
from uncork.pipeline.source_lines import source_line
from uncork.pipeline.structure import structure_digest

# These can run on several elements at once, and run on one at a time unless told.
_SERIAL_UNLESS_TOLD: Final = frozenset({"map", "batch", "interleave"})


@dataclass(frozen=True, eq=False)
class Node:
    """One dataset object with what lies below it.

    Attributes:
        kind: The ``tf.data`` method that makes it (``map``, ``shuffle``, ...); ``opaque`` for a
            class that Uncork does not know.
        dataset: The object itself, still the user's own.
        inputs: Nodes it reads from; none for a source.
    """

    kind: str
    dataset: Dataset
    inputs: tuple[Node, ...]

    @property
    def at(self) -> str | None:
        """``file.py:line`` that made it, when lines were recorded."""
        return source_line(self.dataset)

    @property
    def parallelism(self) -> int | None:
        """Elements worked on at once: 1, a number, ``AUTOTUNE``, or None where there is no such."""
        given = getattr(self.dataset, "_num_parallel_calls", None)
        if given is not None:
            return int(np.asarray(given))
        if type(self.dataset).__name__ == "ParallelInterleaveDataset":
            return int(np.asarray(self.dataset._cycle_length))
        return 1 if self.kind in _SERIAL_UNLESS_TOLD else None

    @property
    def functions(self) -> tuple[ConcreteFunction, ...]:
        """Traced functions that it calls."""
        return tuple(getattr(self.dataset, f).function for f in kind_of(self.dataset).functions)

    @property
    def name(self) -> str:
        """Name of the user's function, else the name given to the dataset, else nothing."""
        fields = kind_of(self.dataset).functions
        function = (
            getattr(getattr(self.dataset, fields[0], None), "_func", None) if fields else None
        )
        return str(getattr(function, "__name__", "") or getattr(self.dataset, "_name", "") or "")

    @property
    def in_memory(self) -> bool:
        """A cache without a file."""
        return self.kind == "cache" and not bytes(np.asarray(self.dataset._filename).item())


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A whole pipeline; reading or changing one never changes the user's objects.

    Attributes:
        root: The node that the training loop reads from.
    """

    root: Node

    @property
    def dataset(self) -> Dataset:
        """The ``tf.data.Dataset`` to train on."""
        return self.root.dataset

    @property
    def element_spec(self) -> Any:
        """Structure, shapes and dtypes of one element of the root."""
        return self.root.dataset.element_spec

    @cached_property
    def stages(self) -> tuple[Node, ...]:
        """The main chain, source first. A node of several inputs counts as the source."""
        chain = [self.root]
        while len(chain[-1].inputs) == 1 and chain[-1].kind != "opaque":
            chain.append(chain[-1].inputs[0])
        return tuple(reversed(chain))

    @cached_property
    def digest(self) -> str:
        """Equal for pipelines that do the same work on data of the same spec; seeds aside."""
        return structure_digest(self.root)

    @property
    def cardinality(self) -> int:
        """Elements in one pass; negative when infinite (-1) or unknown (-2)."""
        return int(self.dataset.cardinality())


def read(dataset: Dataset) -> Pipeline:
    """The tree behind a dataset.

    Args:
        dataset: Any ``tf.data.Dataset`` made eagerly.

    Raises:
        WrongUse: It is none, or belongs to a graph under construction.

    Example:
        >>> numbers = tf.data.Dataset.range(10).shuffle(10).batch(2)
        >>> [node.kind for node in read(numbers).stages]
        ['range', 'shuffle', 'batch']
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise WrongUse(
            f"a {type(dataset).__name__} is no tf.data pipeline",
            "a tf.data.Dataset",
            "pass the dataset that model.fit is given",
        )
    if not tf.executing_eagerly():
        raise WrongUse(
            "the pipeline is made inside a graph", "eager execution", "make it outside tf.function"
        )
    return Pipeline(_node(unwrapped(dataset)))


def _node(dataset: Dataset) -> Node:
    kind = kind_of(dataset).name
    if kind == "flat_map" and _is_generator(dataset):
        return Node("from_generator", dataset, ())
    return Node(kind, dataset, tuple(_node(i) for i in inputs_of(dataset)))


def _is_generator(dataset: Dataset) -> bool:
    # Dataset.from_generator is a flat_map over one dummy element; only its function tells.
    nodes = graph_of(dataset._map_func.function).nodes.values()
    return any(node.op == "GeneratorDataset" for node in nodes)


__all__ = ["AUTOTUNE", "Node", "Pipeline", "read"]
