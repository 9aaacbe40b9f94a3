from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf import profiler
from uncork.compat.tf.protos import HloProto, ModelProto, XSpace


def test_a_trace_is_read(tmp_path):
    assert hasattr(profiler.trace, "enabled")
    tf.profiler.experimental.start(str(tmp_path))
    tf.square(tf.constant(2.0))
    tf.profiler.experimental.stop()
    (file,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert len(XSpace.FromString(file.read_bytes()).planes) > 0


def test_the_model_of_an_iterator_is_read():
    data = iter(tf.data.Dataset.range(9).map(abs, num_parallel_calls=tf.data.AUTOTUNE))
    next(data)
    text = tf.raw_ops.IteratorGetModelProto(iterator=data._iterator_resource).numpy()
    assert ModelProto.FromString(text).nodes


def test_a_program_has_instructions_with_metadata():
    program = HloProto()
    computation = program.hlo_module.computations.add()
    computation.instructions.add().metadata.op_type = "MatMul"
    read = HloProto.FromString(program.SerializeToString())
    assert read.hlo_module.computations[0].instructions[0].metadata.op_type == "MatMul"
