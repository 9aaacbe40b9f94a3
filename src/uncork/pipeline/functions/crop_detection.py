"""Images that are decoded whole, and of which one rectangle is looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from uncork.pipeline.functions.function_graph import (
    Graph,
    NodeDef,
    constant_value,
    indexed_name,
    is_control,
    op_name_of,
    spec_of,
)
from uncork.pipeline.functions.splitting import with_dependents

# Each value by itself, whatever stands beside it.
_ALONE: Final = frozenset({"Identity", "Cast"})
_WITH_A_NUMBER: Final = frozenset({"Mul", "RealDiv", "Sub", "Add", "AddV2"})
DECODE_OPS: Final = frozenset({"DecodeJpeg", "DecodeImage"})
CROP_OPS: Final = frozenset({"Slice", "StridedSlice"})
# Of the masks of a slice, the bit of its third index.
_COLOURS: Final = 4

# Of each tensor who takes it, and as which input; -1 of one that waits for what makes it.
_Takers = Mapping[str, Sequence[tuple[str, int]]]


@dataclass(frozen=True, eq=False)
class Crop:
    """One image that is decoded and cropped.

    Attributes:
        decode_op: The op that decodes.
        intermediate_ops: Ops from there to the crop that take each value by itself.
        crop_op: The op that crops.
        leading_dims: How many dimensions it sees before the rows.
        shape_ops: Ops that ask for the shape of the whole image, and how many dimensions they see
            before its rows.
        pixel_dependent_ops: All ops that depend on pixels.
    """

    decode_op: NodeDef
    intermediate_ops: tuple[str, ...]
    crop_op: NodeDef
    leading_dims: int
    shape_ops: Mapping[str, int]
    pixel_dependent_ops: frozenset[str]

    @property
    def contents(self) -> str:
        """The tensor that holds the file."""
        return indexed_name(self.decode_op.input[0])

    @property
    def image(self) -> str:
        """The tensor that is cropped."""
        return indexed_name(self.crop_op.input[0])


def find_first_crop(graph: Graph) -> Crop | None:
    """The first image of which a function looks at one rectangle only, wherever that lies.

    None where there is none, or where the rectangle depends on the pixels.
    """
    # What nobody takes is not run: what a function leaves lying about looks at nothing.
    live = graph.required_ops([*graph.outputs, *(f"^{effect}" for effect in graph.effects)])
    takers = _takers(graph, live)
    decodes = (node for name, node in graph.nodes.items() if name in live)
    return next(filter(None, (_crop(graph, node, takers) for node in decodes)), None)


def _crop(graph: Graph, decode: NodeDef, takers: _Takers) -> Crop | None:
    """What is cropped from an image, where nothing else looks at it."""
    if not _may_be_cropped(decode):
        return None
    before = {indexed_name(decode.name): 0}  # of each tensor that holds the whole image
    between, shapes, cuts, left = list[str](), dict[str, int](), list[NodeDef](), list(before)
    while left:
        image = left.pop()
        for name, place in takers.get(image, ()):
            node = graph.nodes[name]
            if node.op == "Shape" and place == 0:
                shapes[name] = before[image]
            elif _cuts(graph, node, before[image]) and place == 0:
                cuts.append(node)
            elif _takes_each(graph, node, place):
                between.append(name)
                left.append(indexed_name(name))
                before[left[-1]] = before[image] + (node.op == "ExpandDims")
            else:
                return None
    if len(cuts) != 1 or set(before) & set(graph.outputs):
        return None
    asking = (indexed_name(name) for name in (*shapes, cuts[0].name))
    if any(place < 0 for tensor in asking for _, place in takers.get(tensor, ())):
        return None  # what waits for it is to wait on
    after = frozenset(with_dependents(graph, {decode.name}, excluded_ops=shapes))
    found = Crop(
        decode, tuple(between), cuts[0], before[indexed_name(cuts[0].input[0])], shapes, after
    )
    return None if _by_pixels(graph, found) else found


def _may_be_cropped(decode: NodeDef) -> bool:
    attr = decode.attr
    if decode.op not in DECODE_OPS or attr["channels"].i not in (0, 1, 3):
        return False
    if decode.op == "DecodeImage":  # an animation has one dimension more
        return not attr["expand_animations"].b and attr["dtype"].type == tf.uint8.as_datatype_enum
    whole = attr["acceptable_fraction"].f == 1.0 and not attr["try_recover_truncated"].b
    return attr["ratio"].i == 1 and whole


def _takers(graph: Graph, live: Collection[str]) -> _Takers:
    found: dict[str, list[tuple[str, int]]] = {}
    for name in (name for name in graph.nodes if name in live):  # in their order, always the same
        for place, reference in enumerate(graph.nodes[name].input):
            waits = is_control(reference)
            taken = f"{op_name_of(reference)}:0" if waits else indexed_name(reference)
            found.setdefault(taken, []).append((name, -1 if waits else place))
    return found


def _cuts(graph: Graph, node: NodeDef, before: int) -> bool:
    """A slice of rows and columns, whatever it does to the colours."""
    if node.op not in CROP_OPS:
        return False
    indices = sliced_dim_count(graph, node)
    if node.op == "Slice":
        return indices == before + 3
    attr = node.attr
    odd = attr["new_axis_mask"].i or attr["shrink_axis_mask"].i or before
    plain = set(_numbers(graph, node.input[3])) == {1}
    colours = attr["begin_mask"].i & attr["end_mask"].i & _COLOURS
    return plain and not odd and (indices in (1, 2) or (indices == 3 and bool(colours)))


def _numbers(graph: Graph, reference: str) -> list[int | None]:
    """Those of a tensor whose value never changes, which may be put together from several."""
    node = graph.nodes[op_name_of(reference)]
    if node.op == "Pack":
        parts = (r for r in node.input if not is_control(r))
        return [number for part in parts for number in _numbers(graph, part)]
    return [int(n) for n in constant_value(node).flat] if node.op == "Const" else [None]


def sliced_dim_count(graph: Graph, node: NodeDef) -> int | None:
    """For how many dimensions a slice says something; an ellipsis at the end says nothing."""
    shape = spec_of(graph, indexed_name(node.input[1])).shape
    told = shape[0] if shape.rank == 1 else None
    if told is None or node.op == "Slice" or not node.attr["ellipsis_mask"].i:
        return told
    return told - 1 if node.attr["ellipsis_mask"].i == 1 << (told - 1) else None


def _takes_each(graph: Graph, node: NodeDef, place: int) -> bool:
    """Each value by itself, or all of them in one dimension more."""
    if node.op in _ALONE:
        return place == 0
    others = [r for i, r in enumerate(node.input) if i != place and not is_control(r)]
    if node.op in _WITH_A_NUMBER:
        return place >= 0 and all(spec_of(graph, indexed_name(r)).shape.rank == 0 for r in others)
    if node.op != "ExpandDims" or place != 0:
        return False
    return _numbers(graph, others[0]) == [0]


def _by_pixels(graph: Graph, crop: Crop) -> bool:
    """What is cropped, or done before it is, depends on the image itself."""
    own = {crop.decode_op.name, *crop.intermediate_ops}
    return any(
        op_name_of(reference) in crop.pixel_dependent_ops and op_name_of(reference) not in own
        for name in (*crop.intermediate_ops, crop.crop_op.name)
        for reference in graph.nodes[name].input
    )
