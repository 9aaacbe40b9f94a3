"""Numbers that are added up by threads which share the work of one kernel.

How many there are decides in which order they are added, and that decides the last bits.
"""

from __future__ import annotations

from typing import Final

from uncork.pipeline.functions.effects import op_types
from uncork.pipeline.ir.tree import Pipeline

_SUMS: Final = frozenset({
    "Sum", "Mean", "Prod", "EuclideanNorm", "L2Loss", "MatMul", "BatchMatMul", "BatchMatMulV2",
    "BatchMatMulV3", "Einsum", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "AvgPool", "FFT",
    "RFFT", "FFT2D", "RFFT2D", "Cumsum", "SegmentSum", "SegmentMean", "UnsortedSegmentSum",
})  # fmt: skip


def has_threaded_reductions(pipeline: Pipeline) -> bool:
    """Whether some map of a pipeline does.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> rows = tf.data.Dataset.from_tensors(tf.ones([9, 9]))
        >>> (
        ...     has_threaded_reductions(read_pipeline(rows.map(tf.reduce_mean))),
        ...     has_threaded_reductions(read_pipeline(rows.map(tf.square))),
        ... )
        (True, False)
    """
    functions = (each for place in pipeline.stage_locations for each in place.node.functions)
    return any(op_types(each) & _SUMS for each in functions)
