"""How many elements of its inputs a stage takes, and so how many of each a training step does.

Files, or other inputs, that are gone through one after the other, read by several threads.

Where a stage ends with one input before it begins with the next, as a list of record files does,
others could be read meanwhile, and held until it is their turn. An interleave whose blocks are
longer than any input gives their elements in the very same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import int_parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields
from uncork.pipeline.ir.node import Node
from uncork.pipeline.profile.probes import count_elements, inputs_per_output, run_serially
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pipeline.transforms.read_ahead import sequential_reader_of

# They give fewer elements than they take.
DROPPING_KINDS: Final = frozenset({"filter", "take_while", "unique", "ignore_errors"})
_VARYING: Final = DROPPING_KINDS | {
    "flat_map", "interleave", "unbatch", "rebatch", "group_by_window", "tfrecord",
    "text_line", "fixed_length_record",
}  # fmt: skip
# Of what chooses between datasets, so many choices tell how often each is taken.
_CHOICES: Final = 256


def set_input_ratios(
    stages: Sequence[StageMeasurement], batch_size: int | None, budget_s: float
) -> None:
    """Set ``inputs`` and ``per_step`` of every stage.

    Args:
        stages: What a stage is made from before it.
        batch_size: Samples a step, used where a stage's ratio cannot be counted.
        budget_s: Seconds for counting, of each stage.
    """
    for stage in stages:
        stage.input_ratios = _inputs(stage, budget_s)
    stages[-1].elements_per_step = 1.0
    for stage in reversed(stages):
        for below, inputs in zip(stage.input_stages, stage.input_ratios, strict=True):
            below.elements_per_step = _taken(stage, inputs, batch_size)


def static_ratio(node: Node) -> float | None:
    """Input elements for one output element where the parameters say so."""
    if node.kind in ("batch", "padded_batch", "sparse_batch"):
        size = float(int_parameter(node.dataset, "batch_size"))
        there = int(node.inputs[0].dataset.cardinality())
        return min(size, float(there)) if there > 0 else size
    if node.kind == "shard":
        return float(int_parameter(node.dataset, "num_shards"))
    if node.kind == "skip":
        left, skipped = int(node.dataset.cardinality()), int_parameter(node.dataset, "count")
        return (left + skipped) / left if left > 0 and skipped > 0 else 1.0
    if node.kind == "window":
        return float(int_parameter(node.dataset, "shift"))
    return None if node.kind in _VARYING else 1.0


def _inputs(stage: StageMeasurement, budget_s: float) -> tuple[float | None, ...]:
    if not stage.input_stages:
        return ()
    if len(stage.input_stages) > 1:
        return _shares(stage)
    ratio = static_ratio(stage.node)
    if ratio is None and stage.node.kind in _VARYING and kind_of(stage.node.dataset).create_variant:
        ratio = inputs_per_output(stage.node, stage.input_stages[0].dataset, budget_s=budget_s)
    return (ratio,)


def _taken(stage: StageMeasurement, inputs: float | None, batch_size: int | None) -> float | None:
    if stage.is_finite_cache:
        return 0.0
    if inputs is not None and stage.elements_per_step is not None:
        return stage.elements_per_step * inputs
    return float(batch_size) if batch_size and stage.node.kind in DROPPING_KINDS else None


def _shares(stage: StageMeasurement) -> tuple[float | None, ...]:
    """Of a stage that joins several: how much of each goes into one element."""
    if stage.node.kind == "zip":
        return (1.0,) * len(stage.input_stages)
    if stage.node.kind == "choose":
        selector, *chosen = stage.input_stages
        return (1.0, *_chosen(selector.dataset, len(chosen)))
    lengths = [int(below.node.dataset.cardinality()) for below in stage.input_stages]
    if stage.node.kind != "concatenate" or min(lengths) < 0 or not sum(lengths):
        return (None,) * len(lengths)
    return tuple(length / sum(lengths) for length in lengths)


def _chosen(selector: Dataset, among: int) -> tuple[float | None, ...]:
    choices: list[int] = []
    with suppress(tf.errors.OpError):
        choices.extend(int(choice) for choice in run_serially(selector).take(_CHOICES))
    counts = [choices.count(number) for number in range(among)]
    if not all(counts):  # too few to tell, or choices that come in long runs
        return (None,) * among
    return tuple(count / len(choices) for count in counts)


# Inputs that are looked at: of a row of files the last one is often shorter.
_LOOKS: Final = 2


def count_longest_input(node: Node, input_dataset: Dataset, budget_s: float) -> int | None:
    """Elements of the longest of the first inputs; None where there was no time to see its end.

    Args:
        node: Of which :func:`in_turn` knows.
        input_dataset: What it reads from, which may be moved on.
        budget_s: Seconds to count.
    """
    made, found = sequential_reader_of(node), list[int]()
    for number in range(_LOOKS):
        one = copy_with_fields(made, [input_dataset.skip(number).take(1)], kind_of(made))
        counted = count_elements(run_serially(one), budget_s=budget_s / _LOOKS)
        if counted is None:
            return None
        found.append(counted)
    return max(found) or None
