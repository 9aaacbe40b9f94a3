"""An input pipeline as an immutable tree, read from the Dataset objects and rebuilt from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import (
    VariantDataset,
    input_datasets,
    kind_of,
    unwrap_v1_adapter,
)
from uncork.compat.tfdata.dataset_fields import parameter, variant_tensor
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused, WrongUse
from uncork.pipeline.functions.function_graph import graph_of
from uncork.pipeline.ir.digest import structure_digest
from uncork.pipeline.ir.node import Node


def rebuild_tree(root: Node, rebuild_node: Callable[[Node, Sequence[Dataset]], Dataset]) -> Dataset:
    """The root's dataset after every node was made anew, sources first.

    A dataset that several branches read is made once: they share its cache and its epochs, as they
    did.

    Args:
        root: Of the pipeline.
        rebuild_node: Gives a node's new dataset, from the node and its new inputs.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = read_pipeline(tf.data.Dataset.range(5).batch(2))
        >>> rebuild_tree(numbers.root, lambda node, inputs: node.dataset) is numbers.dataset
        True
    """
    done: dict[int, Dataset] = {}

    def visit(node: Node) -> Dataset:
        key = id(node.dataset)
        if key not in done:
            done[key] = rebuild_node(node, [visit(below) for below in node.inputs])
        return done[key]

    return visit(root)


# Datasets that stand one on the other: each takes some frames of Python's stack wherever a tree is
# walked.
_DEEPEST: Final = 240


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A whole pipeline; reading or changing one never changes the user's objects.

    Attributes:
        root: The node that the training loop reads from.
        parent: Of a branch, the pipeline that joins it with others.
    """

    root: Node
    parent: Pipeline | None = None

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
    def branches(self) -> tuple[Pipeline, ...]:
        """The pipelines that the first stage joins; none where it is a source or unknown."""
        joint = self.stages[0]
        return () if joint.kind == "opaque" else tuple(Pipeline(i, self) for i in joint.inputs)

    @cached_property
    def stage_locations(self) -> tuple[StageLocation, ...]:
        """Every stage, those of a branch before the one that joins it. Edits count them so."""
        joined = (place for branch in self.branches for place in branch.stage_locations)
        return (*joined, *(StageLocation(self, i) for i in range(len(self.stages))))

    @property
    def outermost(self) -> Pipeline:
        """What a branch, or a branch of a branch, is part of; itself where it is none."""
        return self if self.parent is None else self.parent.outermost

    @cached_property
    def digest(self) -> str:
        """Equal for pipelines that do the same work on data of the same spec; seeds aside."""
        return structure_digest(self.root)

    @cached_property
    def options(self) -> tf.data.Options:
        """How it is run, by its own words and those of what it is made from; to be read only."""
        return self.dataset.options()

    @property
    def cardinality(self) -> int:
        """Elements in one pass; negative when infinite (-1) or unknown (-2)."""
        return int(self.dataset.cardinality())


class StageLocation(NamedTuple):
    """Where a stage stands.

    Attributes:
        pipeline: The branch whose main chain it is part of, or the whole pipeline.
        position: In ``pipeline.stages``.
    """

    pipeline: Pipeline
    position: int

    @property
    def node(self) -> Node:
        """What stands there."""
        return self.pipeline.stages[self.position]


def read_pipeline(dataset: Dataset) -> Pipeline:
    """The tree behind a dataset.

    Args:
        dataset: Any ``tf.data.Dataset`` made eagerly.

    Raises:
        WrongUse: It is no dataset, or belongs to a graph under construction.
        EditRefused: Too many datasets are chained.

    Example:
        >>> numbers = tf.data.Dataset.range(10).shuffle(10).batch(2)
        >>> [node.kind for node in read_pipeline(numbers).stages]
        ['range', 'shuffle', 'batch']
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise WrongUse(
            f"a {type(dataset).__name__} is not a tf.data pipeline",
            "a tf.data.Dataset",
            "pass the dataset that model.fit receives",
        )
    if not tf.executing_eagerly():
        raise WrongUse(
            "the pipeline is created inside a graph",
            "eager execution",
            "create it outside tf.function",
        )
    if _depth(dataset) > _DEEPEST:
        raise EditRefused(
            f"more than {_DEEPEST} datasets are chained",
            "a pipeline of a few dozen stages",
            "join many files with interleave, or with one dataset of their names, not with "
            "concatenate",
        )
    return Pipeline(_node(unwrap_v1_adapter(dataset)))


def _depth(dataset: Dataset) -> int:
    """Of the deepest branch, as far as it matters."""
    level, deep = [dataset], 0
    while level and deep <= _DEEPEST:
        level = list(
            {id(below): below for each in level for below in input_datasets(each)}.values()
        )
        deep += 1
    return deep


def _node(dataset: Dataset) -> Node:
    kind = kind_of(dataset).name
    if kind == "flat_map" and _is_generator(dataset):
        return Node("from_generator", dataset, ())
    if kind == "opaque" and _is_counter(dataset):
        return Node("range", dataset, ())
    return Node(kind, dataset, tuple(_node(i) for i in input_datasets(dataset)))


def _is_generator(dataset: Dataset) -> bool:
    # Dataset.from_generator is a flat_map over one dummy element; only its function tells.
    nodes = graph_of(parameter(dataset, "map_func").function).nodes.values()
    return any(node.op == "GeneratorDataset" for node in nodes)


def _is_counter(dataset: Dataset) -> bool:
    # Dataset.enumerate makes a range, and hands it over as nothing but its variant tensor.
    if type(dataset) is not VariantDataset:
        return False
    try:
        text = tf.raw_ops.DatasetToGraphV2(input_dataset=variant_tensor(dataset)).numpy()
    except tf.errors.OpError:  # some cannot be written down
        return False
    graph = tf.compat.v1.GraphDef.FromString(text)
    return {node.op for node in graph.node} <= {"Const", "RangeDataset", "_Retval"}


__all__ = ["Node", "Pipeline", "StageLocation", "read_pipeline"]
