"""Messages that TensorFlow writes: traces of the profiler, XLA's programs, the autotuner's model.

Borrowed: ``XSpace`` (TSL), ``HloProto`` (XLA), ``ModelProto`` (tf.data).
Why: no public name has these messages, and the ``protobuf`` files are not installed elsewhere.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow

# What the profiler writes: planes of devices and threads, with their events.
XSpace: Final[Any] = borrow("tensorflow.tsl.profiler.protobuf.xplane_pb2", "XSpace")
# A program of XLA with the metadata of its instructions.
HloProto: Final[Any] = borrow("tensorflow.compiler.xla.service.hlo_pb2", "HloProto")
# What ``IteratorGetModelProto`` returns: the stages of a pipeline as tf.data's autotuner sees them.
ModelProto: Final[Any] = borrow("tensorflow.core.framework.model_pb2", "ModelProto")
