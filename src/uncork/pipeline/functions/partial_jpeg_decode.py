"""JPEG images of which a map looks at a part only: that part is decoded, and not the rest.

A crop at random or in the middle throws away most of the pixels that were decoded for it.
TensorFlow has an op that decodes a rectangle, and gives other values at its left and right edges
than the whole image has there: where colours are stored for two columns at once, those of a pixel
are made from its neighbours', too. A rectangle a little larger than the crop gives the very same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.pipeline.functions.crop_detection import Crop, find_first_crop, sliced_dim_count
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    Tensor,
    argument_specs,
    cache_per_function,
    graph_of,
    indexed_name,
    is_control,
    op_name_of,
    replay,
    spec_of,
    trace,
)

# Rows and columns around a crop; one of each would do.
_AROUND: Final = 8
# What a JPEG file begins and ends with. One that was cut short has no end, and fails as a whole.
_BEGINS: Final = b"\xff\xd8\xff"
_ENDS: Final = b"\xff\xd9"


@cache_per_function
def decode_crops_only(function: ConcreteFunction) -> ConcreteFunction | None:
    """The function with only those parts of its JPEG images decoded that it crops from them.

    Files that are no JPEG, or not a complete one, and crops that do not lie within their image go
    the way they went. An error in that part of a file which nobody looks at is not met any more.

    Returns:
        None where it decodes no image that it then crops, by numbers that do not depend on pixels.

    Example:
        >>> def middle(file):
        ...     return tf.image.central_crop(tf.io.decode_jpeg(file, channels=3), 0.5)
        >>> traced = tf.function(middle).get_concrete_function(tf.TensorSpec([], tf.string))
        >>> found = decode_crops_only(traced)
        >>> image = tf.io.encode_jpeg(tf.zeros([64, 64, 3], tf.uint8))
        >>> found(image)[0].shape
        TensorShape([32, 32, 3])
    """
    changed: ConcreteFunction | None = None
    while (crop := find_first_crop(graph_of(changed or function))) is not None:
        changed = _with_part_decoded(graph_of(changed or function), crop)
    return changed


def _with_part_decoded(graph: Graph, crop: Crop) -> ConcreteFunction:
    live = graph.required_ops([*graph.outputs, *(f"^{effect}" for effect in graph.effects)])
    inside = live - crop.pixel_dependent_ops
    reading = graph.required_ops([crop.contents]) & inside
    last = live & crop.pixel_dependent_ops - {
        crop.decode_op.name,
        crop.crop_op.name,
        *crop.intermediate_ops,
    }

    def with_part_decoded(*tensors: Tensor) -> list[Tensor]:
        known = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
        known = _further(graph, reading, known)
        # What is imported keeps its names: ours must not be among them.
        with tf.name_scope(f"uncork/{crop.decode_op.name}"):
            image = _Image(crop, known[crop.contents])
            known |= {f"{n}:0": _as_asked(graph, n, image.shape, crop) for n in crop.shape_ops}
        known = _further(graph, inside - reading - set(crop.shape_ops), known)
        checked = [_op(effect) for effect in graph.effects if effect in inside]
        with tf.name_scope(f"uncork/{crop.crop_op.name}"), tf.control_dependencies(checked):
            window = _window(graph, crop, known, image.shape)
            part, origin = image.part(window)
            part.set_shape(graph.shapes[crop.decode_op.name][0])
        known[f"{crop.decode_op.name}:0"] = part
        known = _further(graph, set(crop.intermediate_ops), known)
        with tf.name_scope(f"uncork/{crop.crop_op.name}/cut"):
            cut = tf.slice(known[crop.image], window.begin - origin, window.size)
            cut.set_shape(graph.shapes[crop.crop_op.name][0])
        known[f"{crop.crop_op.name}:0"] = cut
        return replay(graph, last, known, graph.outputs)

    return trace("uncork_cropped", argument_specs(graph), with_part_decoded)


def _further(graph: Graph, names: set[str], known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is known, and what some more ops give to others."""
    used = {
        indexed_name(reference): None
        for name, node in graph.nodes.items()
        if name not in names
        for reference in node.input
        if not is_control(reference)
    }
    given = [r for r in (*used, *graph.outputs) if op_name_of(r) in names and r not in known]
    given = list(dict.fromkeys(given))
    return {**known, **dict(zip(given, replay(graph, names, known, given), strict=True))}


def _op(name: str) -> Any:
    return tf.compat.v1.get_default_graph().get_operation_by_name(name)


@dataclass(frozen=True, eq=False)
class _Window:
    """What is cropped, in the dimensions of the tensor that it is cropped from.

    Attributes:
        begin: First index in each; the offset of the decoded part is yet to be taken off.
        size: How many; -1 for all that follow.
        rows: First row and how many.
        columns: Likewise.
        fits: Whether it lies within the image, and is not empty.
    """

    begin: Tensor
    size: Tensor
    rows: tuple[Tensor, Tensor]
    columns: tuple[Tensor, Tensor]
    fits: Tensor


class _Image:
    """A file, and what is known of the image in it.

    Args:
        crop: How it is decoded.
        contents: The file.
    """

    def __init__(self, crop: Crop, contents: Tensor) -> None:
        self._crop, self._contents = crop, contents
        self._sound = _is_complete_jpeg(contents)
        whole, shape = tf.cond(
            self._sound,
            lambda: (tf.zeros([0, 0, 0], tf.uint8), self._told_shape()),
            lambda: _with_shape(self._decoded()),
        )
        # Of a file that is no JPEG: it was decoded to know its shape.
        self._whole = whole
        self.shape = shape

    def _told_shape(self) -> Tensor:
        """Of what would be decoded, which has no more than three colours."""
        told = tf.image.extract_jpeg_shape(self._contents)
        colours = self._crop.decode_op.attr["channels"].i or tf.minimum(told[2], 3)
        return tf.stack([told[0], told[1], colours])

    def _decoded(self) -> Tensor:
        attr = self._crop.decode_op.attr
        if self._crop.decode_op.op == "DecodeImage":
            return tf.raw_ops.DecodeImage(
                contents=self._contents, channels=attr["channels"].i, expand_animations=False
            )
        return tf.raw_ops.DecodeJpeg(contents=self._contents, **_jpeg_options(attr))

    def part(self, window: _Window) -> tuple[Tensor, Tensor]:
        """The image around a window, and where it begins; the whole image where that is needed."""

        def some() -> tuple[Tensor, Tensor]:
            (top, height), (left, width) = (
                _around(first, count, tf.cast(self.shape[dimension], tf.int64))
                for dimension, (first, count) in enumerate((window.rows, window.columns))
            )
            part = tf.raw_ops.DecodeAndCropJpeg(
                contents=self._contents,
                crop_window=tf.cast(tf.stack([top, left, height, width]), tf.int32),
                **_jpeg_options(self._crop.decode_op.attr),
            )
            no = tf.zeros([], tf.int64)
            return part, tf.stack([*[no] * self._crop.leading_dims, top, left, no])

        def whole() -> tuple[Tensor, Tensor]:
            image = tf.cond(self._sound, self._decoded, lambda: self._whole)
            return image, tf.zeros_like(window.begin)

        part, origin = tf.cond(window.fits & self._sound, some, whole)
        return part, origin


def _with_shape(image: Tensor) -> tuple[Tensor, Tensor]:
    return image, tf.shape(image)


def _is_complete_jpeg(contents: Tensor) -> Tensor:
    length = tf.strings.length(contents)
    end = tf.strings.substr(contents, tf.maximum(length - len(_ENDS), 0), len(_ENDS))
    begins = tf.strings.substr(contents, 0, len(_BEGINS)) == tf.constant(_BEGINS)
    return begins & (end == tf.constant(_ENDS))


def _jpeg_options(attr: Mapping[str, Any]) -> dict[str, Any]:
    """As an op has them; those that decode any format have none of their own but for colours."""
    options: dict[str, Any] = {"channels": attr["channels"].i}
    if "fancy_upscaling" in attr:
        options |= {
            "fancy_upscaling": attr["fancy_upscaling"].b,
            "acceptable_fraction": attr["acceptable_fraction"].f,
            "dct_method": attr["dct_method"].s,
        }
    return options


def _around(first: Tensor, count: Tensor, all_of: Tensor) -> tuple[Tensor, Tensor]:
    """A few rows or columns more on both sides, where the image has them."""
    start = tf.maximum(first - _AROUND, 0)
    return start, tf.minimum(first + count + _AROUND, all_of) - start


def _as_asked(graph: Graph, name: str, shape: Tensor, crop: Crop) -> Tensor:
    """The shape of the whole image as an op would tell it."""
    told = tf.concat([tf.ones([crop.shape_ops[name]], tf.int32), shape], 0)
    spec = spec_of(graph, f"{name}:0")
    told = tf.cast(told, spec.dtype)
    told.set_shape(spec.shape)
    return told


def _window(graph: Graph, crop: Crop, known: Mapping[str, Tensor], shape: Tensor) -> _Window:
    given = [known[indexed_name(reference)] for reference in crop.crop_op.input[1:3]]
    first, second = (tf.cast(each, tf.int64) for each in given)
    shape = tf.cast(shape, tf.int64)
    if crop.crop_op.op == "Slice":
        begin, size = first, second
        left = tf.concat([tf.ones([crop.leading_dims], tf.int64), shape[:3]], 0) - begin
        counts = tf.where(size == -1, left, size)
    else:
        indices = sliced_dim_count(graph, crop.crop_op) or 0
        begin, size = _of_strided(crop.crop_op.attr, indices, first, second, shape)
        counts = size
    rows, columns = ((begin[i], counts[i]) for i in (crop.leading_dims, crop.leading_dims + 1))
    within = [
        (first >= 0) & (count > 0) & (count <= all_of - first)
        for (first, count), all_of in zip((rows, columns), (shape[0], shape[1]), strict=True)
    ]
    fits = within[0] & within[1]
    # A wrong one is told in the words in which it always was.
    return _Window(begin, tf.where(fits, counts, size), rows, columns, fits)


def _of_strided(
    attr: Mapping[str, Any], indices: int, first: Tensor, end: Tensor, shape: Tensor
) -> tuple[Tensor, Tensor]:
    """First index and number in each dimension of ``image[top:bottom, left:right]``."""

    def bound(given: Tensor, masked: int, dimension: int, otherwise: Tensor) -> Tensor:
        if dimension >= indices or masked >> dimension & 1:
            return otherwise
        length, index = shape[dimension], given[dimension]
        return tf.clip_by_value(tf.where(index < 0, index + length, index), 0, length)

    begins, sizes = [], []
    for dimension in range(2):
        start = bound(first, attr["begin_mask"].i, dimension, tf.zeros([], tf.int64))
        stop = bound(end, attr["end_mask"].i, dimension, shape[dimension])
        begins.append(start)
        sizes.append(tf.maximum(stop - start, 0))
    every = tf.constant(-1, tf.int64)
    return tf.stack([*begins, tf.zeros([], tf.int64)]), tf.stack([*sizes, every])
