"""Traces of a step on a GPU, as the profiler wrote them down on an NVIDIA H200.

Eight steps of Keras's ``fit`` on a small model of convolutions in TensorFlow 2.21, once as a graph
and once under XLA, which is what Keras does there unless it is told otherwise. Of each event only
the name, the time and what says of which op it is were kept.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from uncork.measure.profile.kernels import kernels_from_spans
from uncork.measure.profile.xplane import gpu_streams, host_threads


def trace(name):
    packed = (Path(__file__).parent / "traces" / f"{name}.xplane.pb.gz").read_bytes()
    return xplane_pb2.XSpace.FromString(gzip.decompress(packed))


@pytest.fixture(scope="module", params=["graph", "xla"])
def kernels(request):
    return kernels_from_spans(gpu_streams(trace(request.param)))


def test_kernels_of_a_gpu_are_told_by_the_ops_that_they_are_of(kernels):
    names = {kernel.name.replace("sequential_1_1", "sequential_1") for kernel in kernels}
    convolution = "sequential_1/second_1/convolution"
    assert f"gradient_tape/{convolution}/Conv2DBackpropFilter" in names
    assert f"gradient_tape/{convolution}/Conv2DBackpropInput" in names
    assert "gradient_tape/sequential_1/wide_1/MatMul/MatMul" in names


def test_what_xla_fused_is_told_by_what_it_ends_with():
    found = {kernel.name: kernel for kernel in kernels_from_spans(gpu_streams(trace("xla")))}
    assert found["sequential_1_1/norm_1/moments/variance"].kind == "Mean"
    # A fusion without a word of its own: the rectifier is computed before the pooling.
    assert found["sequential_1_1/first_1/Relu"].calls_per_step == 2
    nameless = [kernel for kernel in found.values() if kernel.kind == "XLA"]
    assert sum(kernel.seconds for kernel in nameless) < 0.1 * _total(found.values())


def test_a_gpu_is_at_work_for_part_of_a_step(kernels):
    """The steps of these traces took some 7 and 4 ms, most of which they waited for Python."""
    assert 0.5e-3 < _total(kernels) < 5e-3


def test_sending_a_batch_is_no_kernel(kernels):
    assert not [kernel for kernel in kernels if "IteratorGetNext" in kernel.name]


def test_a_brief_kernel_lasts_until_the_next_one_is_started():
    events = [("Mul_kernel", 0, 2, "a:Mul"), ("Add_kernel", 9, 10, "b:Add")]
    (stream,) = gpu_streams(stream_of(*events))
    assert [(s.begin, s.end, s.op) for s in stream] == [
        (0, 9_000_000, ("a", "Mul")),
        (9_000_000, 10_000_000, ("b", "Add")),
    ]


def test_waiting_for_python_belongs_to_no_kernel():
    (stream,) = gpu_streams(
        stream_of(("Mul_kernel", 0, 2, "a:Mul"), ("Mul_kernel", 900, 902, "a:Mul"))
    )
    assert [s.end for s in stream] == [2_000_000, 902_000_000]


def test_a_host_has_no_streams_and_a_gpu_no_threads():
    assert host_threads(trace("graph")) == []
    assert gpu_streams(xplane_pb2.XSpace()) == []


def stream_of(*events):
    """Kernels with their times in microseconds, and the op of each."""
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/device:GPU:0")
    plane.stat_metadata[1].name = "tf_op"
    line = plane.lines.add(name="Stream #7(Compute)", timestamp_ns=0)
    for number, (name, begin, end, op) in enumerate(events, 1):
        plane.event_metadata[number].name = name
        event = line.events.add(metadata_id=number)
        event.offset_ps, event.duration_ps = begin * 10**6, (end - begin) * 10**6
        event.stats.add(metadata_id=1).str_value = op
    return space


def _total(kernels):
    return sum(kernel.seconds for kernel in kernels)
