"""Which rewrites keep every element and the order, and why.

*Repeatable* stages give the same elements in the same order on every pass, or in one that the
script leaves open. *Movable* stages choose elements by position alone, so a deterministic
one-to-one map commutes with them: mapping before a shuffle gives what mapping after it gives, as
long as the shuffle's draws stay the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import MapDataset
from uncork.compat.tfdata.dataset_fields import has_parameter, parameter, variant_tensor
from uncork.core.base.errors import EditRefused
from uncork.pipeline.analysis.graph_rewrites import find_fused_repeat, is_noop
from uncork.pipeline.functions.effects import (
    has_branches,
    has_python_calls,
    has_variable_reads,
    is_deterministic,
    is_order_free,
    is_stateless,
    requested_devices,
)
from uncork.pipeline.ir.element_order import is_order_preserved, is_ordered_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

# Repeat themselves whenever what lies below and the function, if any, does.
_PASS_ON: Final = frozenset({
    "map", "batch", "padded_batch", "take", "skip", "shard", "filter", "take_while", "flat_map",
    "interleave", "window", "cache", "prefetch", "options", "assert_cardinality", "unbatch",
    "unique", "restructure", "zip", "concatenate", "repeat", "scan", "group_by_window", "rebatch",
    "to_ragged", "ignore_errors", "choose", "tfrecord", "text_line", "fixed_length_record",
})  # fmt: skip
_SOURCES: Final = frozenset({
    "from_tensor_slices", "from_tensors", "from_list", "range", "text_line", "load", "csv",
    "fixed_length_record", "tfrecord",
})  # fmt: skip

MOVABLE_KINDS: Final = frozenset({"shuffle", "repeat", "prefetch", "options", "assert_cardinality"})
# Give other elements, not only others first, where those below come in another order.
_BY_POSITION: Final = frozenset({
    "take", "skip", "shard", "take_while", "unique", "batch", "padded_batch", "ragged_batch", "zip",
    "window", "group_by_window", "rebatch", "scan", "choose", "enumerate", "shuffle", "repeat",
})  # fmt: skip

# What may lie between a map of one element and its batch: it picks elements by their position.
_BETWEEN: Final = MOVABLE_KINDS | {"take", "skip", "shard"}

BATCH_KINDS: Final = frozenset({"batch", "padded_batch"})
_BEFORE_BATCH: Final = "keep the map before the batch"


def is_repeatable(node: Node, *, is_ordered: bool = True, is_order_dependent: bool = False) -> bool:
    """Whether every pass over this node yields the same elements in the same order.

    Where the script allows a nondeterministic order, the same elements in any order count.

    Args:
        node: With all that lies below it.
        is_ordered: :func:`is_ordered_by_default` of the pipeline it is part of.
        is_order_dependent: Whether what it yields depends on the order of its input.
    """
    if is_order_dependent and not is_order_preserved(node, is_ordered=is_ordered):
        return False
    is_order_dependent = is_order_dependent or node.kind in _BY_POSITION
    if not all(
        is_repeatable(i, is_ordered=is_ordered, is_order_dependent=is_order_dependent)
        for i in node.inputs
    ):
        return False
    if not node.inputs:
        return _is_plain_source(node)
    if node.kind == "shuffle":
        # Without reshuffling the order is drawn once, when the dataset is made.
        return parameter(node.dataset, "reshuffle_each_iteration") is False
    return node.kind in _PASS_ON and all(map(is_deterministic, node.functions))


def is_parallel_by_default(node: Node, options: tf.data.Options) -> bool:
    """Whether TensorFlow runs this map in parallel although the script does not ask for it.

    Its graph rewrites do so for stateless functions (``map_parallelization``), unless the options
    turn them off. An explicit ``num_parallel_calls=1`` is kept.
    """
    plain = type(node.dataset) is MapDataset
    if not plain or not is_stateless(node.functions[0]):
        return False
    wanted = options.experimental_optimization
    switches = (options.autotune.enabled, wanted.apply_default_optimizations)
    synchronous = parameter(node.dataset, "force_synchronous", False)
    return not synchronous and wanted.map_parallelization is not False and False not in switches


def can_run_inline(node: Node) -> bool:
    """Whether the thread that reads the elements can make the calls of this map itself.

    The results of a parallel map must not depend on the order of its calls. Python code keeps its
    own threads. Branches and loops need more than the single-threaded executor that TensorFlow
    uses inline. A function that uses another device would wait in that thread for itself.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = tf.data.Dataset.range(4).map(lambda x: x + 1)
        >>> (
        ...     can_run_inline(read_pipeline(numbers).root),
        ...     can_run_inline(read_pipeline(numbers.batch(2)).root),
        ... )
        (True, False)
    """
    if node.kind != "map" or not node.inputs or is_inlined(node):
        return False
    if parameter(node.dataset, "force_synchronous", False):
        return False  # its author wants no element made ahead, and that must stay known
    function = node.functions[0]
    if has_python_calls(function) or has_branches(function) or not _on_one_device(node):
        return False
    in_turn = node.parallelism == 1 and not has_parameter(node.dataset, "num_parallel_calls")
    return in_turn or is_order_free(function)


def _on_one_device(node: Node) -> bool:
    """No op asks for another device than the dataset's, and nothing captured lies on one."""
    own = tf.DeviceSpec.from_string(variant_tensor(node.dataset).device)
    function = node.functions[0]
    asked = {
        *requested_devices(function),
        *(getattr(t, "device", "") for t in function.captured_inputs),
    }
    specs = [tf.DeviceSpec.from_string(device) for device in asked if device]
    return all(
        s.device_type in (None, own.device_type) and s.device_index in (None, own.device_index)
        for s in specs
    )


def is_inlined(node: Node) -> bool:
    """Whether this is a map that already runs in the thread that reads the elements."""
    return node.kind == "map" and not parameter(node.dataset, "use_inter_op_parallelism")


def is_synchronous(node: Node) -> bool:
    """Whether the author of this map wants no element computed before it is read."""
    return bool(parameter(node.dataset, "force_synchronous", False)) and not is_inlined(node)


def is_random(node: Node) -> bool:
    """Whether this node by itself may yield other elements, or another order, in the next pass.

    A node with a nondeterministic order does not count as random.
    """
    if node.kind == "shuffle":
        return parameter(node.dataset, "reshuffle_each_iteration") is not False
    if not node.inputs:
        return not _is_plain_source(node)
    if node.kind == "opaque":
        return True
    return not all(map(is_deterministic, node.functions))


def _is_plain_source(node: Node) -> bool:
    """What was saved is read by a function of the user's, which may shuffle its parts."""
    reader = parameter(node.dataset, "reader_func", None)
    return node.kind in _SOURCES and (reader is None or is_deterministic(reader.function))


@dataclass(frozen=True)
class CachePlacement:
    """How to cache the elements of a stage.

    Attributes:
        upstream_stage: Index of the stage directly before the cache, before any map moves.
        maps_before_cache: Indices of the maps that move before the cache, in order.
        stages_after_cache: Indices of the stages that stay after the cache, in order.
    """

    upstream_stage: int
    maps_before_cache: tuple[int, ...]
    stages_after_cache: tuple[int, ...]


def find_cache_placement(pipeline: Pipeline, stage: int) -> CachePlacement:
    """Where a cache for the elements of a stage is legal.

    Args:
        pipeline: The tree.
        stage: Index in ``pipeline.stages``.

    Raises:
        EditRefused: Two passes may differ there, or the dataset is infinite.
    """
    chain = pipeline.stages[: stage + 1]
    ordered = is_ordered_by_default(pipeline)
    stays = (i for i in range(len(chain)) if _must_stay_above(pipeline.stages, i))
    first = next(stays, len(chain))
    rest = range(first, len(chain))
    place = CachePlacement(
        upstream_stage=first - 1,
        maps_before_cache=tuple(i for i in rest if _sinks(chain[i])),
        stages_after_cache=tuple(i for i in rest if not _sinks(chain[i])),
    )
    _check_moves(chain, place)
    if place.maps_before_cache and has_ignored_errors(pipeline, stage):
        raise EditRefused(
            f"errors after {chain[-1]} are ignored; with the map before the shuffle, they "
            "would change its order",
            "maps that stay after the shuffle",
            "cache a stage before the shuffle",
        )
    if not is_repeatable(chain[place.upstream_stage], is_ordered=ordered):
        culprit = next(n for n in chain if not is_repeatable(n, is_ordered=ordered))
        raise EditRefused(
            f"a cache after {chain[-1]} would freeze what {culprit} yields, which differs "
            "from pass to pass",
            "only deterministic stages from the source to the cache",
            "split the random map first, or cache before it",
        )
    parts = tf.nest.flatten(chain[place.upstream_stage].dataset.element_spec)
    if any(isinstance(part, tf.data.DatasetSpec) for part in parts):
        raise EditRefused(
            f"{chain[place.upstream_stage]} yields datasets, which a cache cannot hold",
            "elements that are tensors",
            "cache after the stage that turns its windows into tensors",
        )
    if int(chain[place.upstream_stage].dataset.cardinality()) == -1:
        raise EditRefused("the dataset is infinite", "a finite dataset", "do not cache")
    return place


def _sinks(node: Node) -> bool:
    return node.kind == "map" and not is_noop(node)


def _must_stay_above(stages: tuple[Node, ...], index: int) -> bool:
    if index == 0 or stages[index].kind not in ("shuffle", "repeat"):
        return False
    if stages[index].kind == "repeat" or not is_repeatable(stages[index]):
        return True
    # A cache between it and the repeat that it is fused with would undo that.
    return find_fused_repeat(stages, index) is not None


def _check_moves(chain: tuple[Node, ...], place: CachePlacement) -> None:
    for i in place.stages_after_cache:
        if chain[i].kind not in MOVABLE_KINDS and not is_noop(chain[i]):
            raise EditRefused(
                f"{chain[i]} comes after a shuffle or repeat, so a map after it cannot move "
                "before both",
                "only maps, prefetch and options between the shuffle and the cache",
                "cache a stage before the shuffle",
            )
    for i in place.maps_before_cache:
        if not all(map(is_deterministic, chain[i].functions)):
            raise EditRefused(
                f"{chain[i]} samples random numbers, keeps state or runs Python",
                "a deterministic map",
                "split the map, and cache after its deterministic part",
            )


def find_downstream_batch(pipeline: Pipeline, stage: int, moved_maps: Collection[int] = ()) -> int:
    """Index of the batch that the map at ``stage`` may move after.

    This is legal because a map without random numbers and state commutes with every stage that
    selects elements by position.

    Args:
        pipeline: The tree.
        stage: Index of the map.
        moved_maps: Maps that move after the batch first.

    Raises:
        EditRefused: There is no batch, another stage is in between, or the map must not move.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = tf.data.Dataset.range(9).map(lambda x: x + 1).shuffle(9).batch(3)
        >>> find_downstream_batch(read_pipeline(numbers), 1)
        3
    """
    chain = pipeline.stages
    if chain[stage].kind != "map" or stage == 0:
        raise EditRefused(f"{chain[stage]} is not a map", "a map", _BEFORE_BATCH)
    _check_alone(chain[stage])
    above = range(stage + 1, len(chain))
    place = next((i for i in above if chain[i].kind not in _BETWEEN and i not in moved_maps), None)
    if place is None or chain[place].kind not in BATCH_KINDS:
        between = "nothing" if place is None else str(chain[place])
        raise EditRefused(
            f"after {chain[stage]} comes {between}",
            "a batch, with only stages in between that select elements by position",
            _BEFORE_BATCH,
        )
    if has_ignored_errors(pipeline, place):
        raise EditRefused(
            f"errors after {chain[place]} are ignored, so one failing element would drop a "
            "whole batch",
            "errors that end the training, or that are ignored before the batch",
            _BEFORE_BATCH,
        )
    return place


def has_ignored_errors(pipeline: Pipeline, stage: int) -> bool:
    """Whether a later ``ignore_errors`` drops the elements that fail here.

    Then an edit that changes which elements fail, or where, changes the elements of the pipeline.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> checked = tf.data.Dataset.range(9).map(lambda x: tf.debugging.check_numerics(1 / x, ""))
        >>> has_ignored_errors(read_pipeline(checked.ignore_errors().batch(2)), 1)
        True
    """
    return "ignore_errors" in _above(pipeline, stage)


def _above(pipeline: Pipeline, stage: int) -> set[str]:
    """Kinds of all stages above, in what joins its branch with others, too."""
    found = {node.kind for node in pipeline.stages[stage + 1 :]}
    return found | (_above(pipeline.parent, -1) if pipeline.parent else set())


def _check_alone(node: Node) -> None:
    below = node.inputs[0].dataset.element_spec
    if not (_plain(node.dataset.element_spec) and _plain(below) and _one_shape(below)):
        raise EditRefused(
            f"{node} reads or yields elements that are not tensors of one shape",
            "tensors that can be stacked",
            _BEFORE_BATCH,
        )
    if not _is_of_its_element(node):
        raise EditRefused(
            f"{node} samples random numbers, keeps state, reads a variable or runs Python",
            "a function that depends only on its element",
            "split the map first",
        )


def _is_of_its_element(node: Node) -> bool:
    """Whether the result depends only on the element: a variable may change meanwhile."""
    function = node.functions[0]
    return is_order_free(function) and not has_variable_reads(function)


def _plain(spec: Any) -> bool:
    parts = tf.nest.flatten(spec)
    return bool(parts) and all(
        isinstance(p, tf.TensorSpec) and p.dtype not in (tf.variant, tf.resource) for p in parts
    )


def _one_shape(spec: Any) -> bool:
    return all(part.shape.is_fully_defined() for part in tf.nest.flatten(spec))


def find_movable_maps(pipeline: Pipeline, stage: int) -> tuple[int, ...]:
    """Indices of the maps that may move after the shuffle at ``stage``, first map first.

    This is legal because a shuffle selects positions, whatever the elements are. The function must
    depend only on its element, because it then reads the elements in another order.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> find_movable_maps(
        ...     read_pipeline(tf.data.Dataset.range(9).map(lambda x: x + 1).shuffle(9)), 2
        ... )
        (1,)
    """
    found: list[int] = []
    ignored = has_ignored_errors(pipeline, stage)
    for index in reversed(range(1, stage)):
        node = pipeline.stages[index]
        if ignored or node.kind != "map" or not _is_of_its_element(node):
            break
        found.append(index)
    return tuple(reversed(found))
