from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from uncork.compat.tf.eager_context import clear_kernel_cache
from uncork.measure.profile.kernels import kernels_from_spans, profile_kernels
from uncork.measure.profile.xplane import host_threads

RUNTIME = "ExecutorState::Process"


class FakeTrace:
    """A trace as the profiler writes one; times are in microseconds."""

    def __init__(self):
        self.space = xplane_pb2.XSpace()
        self.plane = self.space.planes.add(name="/host:CPU")
        self._ids = {}

    def thread(self, *events, **stats):
        line = self.plane.lines.add(timestamp_ns=0)
        for name, begin, end in events:
            event = line.events.add(
                metadata_id=self._id(self.plane.event_metadata, name),
                offset_ps=begin * 10**6,
                duration_ps=(end - begin) * 10**6,
            )
            for key, value in stats.items() if name.endswith("::Start") else ():
                stat = event.stats.add(metadata_id=self._id(self.plane.stat_metadata, key))
                stat.str_value = value
        return self

    def _id(self, table, name):
        number = self._ids.setdefault(name, len(self._ids) + 1)
        table[number].id, table[number].name = number, name
        return number

    @property
    def kernels(self):
        return {k.name: k for k in kernels_from_spans(host_threads(self.space))}


def test_time_between_kernels_belongs_to_the_one_before():
    found = FakeTrace().thread((RUNTIME, 0, 10), ("a:Mul", 1, 3), ("b:Add", 7, 8)).kernels
    assert found["a"].seconds == pytest.approx(6e-6)
    assert found["b"].seconds == pytest.approx(1e-6)
    assert (found["a"].kind, found["a"].calls_per_step) == ("Mul", 1)


def test_kernels_that_run_at_once_share_the_time():
    found = FakeTrace().thread(("a:Mul", 0, 10)).thread(("b:Add", 5, 10)).kernels
    assert found["a"].seconds == pytest.approx(7.5e-6)
    assert found["b"].seconds == pytest.approx(2.5e-6)


def test_a_kernel_inside_another_counts_for_itself():
    found = FakeTrace().thread(("outer:Case", 0, 10), ("inner:Mul", 2, 6)).kernels
    assert found["outer"].seconds == pytest.approx(6e-6)
    assert found["inner"].seconds == pytest.approx(4e-6)


def test_functions_that_return_before_they_end_are_told_by_what_they_say_of_themselves():
    start = (f"{RUNTIME}Async::Start", 0, 4)
    (kernel,) = kernels_from_spans(
        host_threads(FakeTrace().thread(start, name="conv/Call", kernel_type="Call").space)
    )
    assert (kernel.name, kernel.kind) == ("conv/Call", "Call")


def test_functions_that_were_inlined_leave_the_names_of_their_ops():
    name = "while/body/_1/while/StatefulPartitionedCall/PartitionedCall_3/dense/MatMul:MatMul"
    assert list(FakeTrace().thread((name, 0, 4)).kernels) == ["dense/MatMul"]


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("_MklMatMul", "MatMul"),
        ("_MklNativeConv2DBackpropFilter", "Conv2DBackpropFilter"),
        ("_MklFusedMatMul", "_FusedMatMul"),
        ("_MklNativeFusedConv2D", "_FusedConv2D"),
        ("_MklToTf", "_MklToTf"),
        ("_FusedMatMul", "_FusedMatMul"),
    ],
)
def test_onednn_does_the_work_of_tensorflows_own_kernels(told, kind):
    assert FakeTrace().thread((f"dense:{told}", 0, 4)).kernels["dense"].kind == kind


def test_of_several_steps_the_first_is_left_out():
    steps = [("a:Mul", 0, 9), ("a:Mul", 10, 12), ("a:Mul", 20, 22), ("a:Mul", 30, 32)]
    found = FakeTrace().thread(*steps).kernels
    assert found["a"].calls_per_step == 1
    assert found["a"].seconds == pytest.approx(2e-6)


def test_a_step_counts_before_cheap_kernels_are_no_longer_told():
    """A loop of 60 rounds in each of three steps; from its 90th run on nothing is told of it."""
    body = "while/body/_1/mul:Mul"
    first = [("x:Read", 0, 1), *((body, 10 + n, 11 + n) for n in range(60)), ("y:Add", 90, 91)]
    second = [(name, begin + 100, end + 100) for name, begin, end in first]
    third = [("x:Read", 200, 201), ("y:Add", 290, 291)]
    found = FakeTrace().thread(*first, *second, *third).kernels
    assert found["while/body/_1/mul"].calls_per_step == 60
    assert found["x"].calls_per_step == 1


@pytest.mark.parametrize(("took", "counts"), [(5, 5), (900, 10)])
def test_a_thread_that_was_put_aside_in_a_kernel_makes_it_no_dearer(took, counts):
    late = [took - 1 if n > 3 else 0 for n in range(7)]
    begins = [10 * n + late[n] for n in range(7)]
    ends = [begin + (took if n == 3 else 1) for n, begin in enumerate(begins)]
    quick = [("a:Greater", *span) for span in zip(begins, ends, strict=True)]
    other = [("b:MatMul", end, end + 4) for end in ends]
    found = FakeTrace().thread(*quick, *other).kernels
    # Of six borders five steps, the first one apart.
    assert found["a"].seconds == pytest.approx((4 + counts) * 1e-6 / 5)
    assert found["b"].seconds == pytest.approx(4e-6)


def test_an_op_of_few_steps_counts_as_it_ran():
    each = [("a:Mul", 10 * n, 10 * n + 1) for n in range(7)]
    found = FakeTrace().thread(*each, ("b:Print", 31, 37)).kernels
    assert found["b"].seconds == pytest.approx(6e-6 / 5)


def test_what_the_runtime_and_the_pipeline_tell_of_themselves_is_no_kernel():
    events = [("Iterator::Root::Prefetch", 0, 5), ("EagerExecute", 0, 5), ("a: Mul", 0, 5)]
    assert kernels_from_spans(host_threads(FakeTrace().thread(*events).space)) == ()
    assert kernels_from_spans(host_threads(xplane_pb2.XSpace())) == ()


def test_real_kernels_are_told_with_how_often_they_run_in_a_step():
    large, small = tf.ones((1000, 1000)), tf.ones((40, 40))

    @tf.function(autograph=False)
    def step():
        return tf.matmul(large, large, name="large"), [small @ small for _ in range(3)]

    step()
    found = profile_kernels(lambda: [step() for _ in range(5)])
    products = [kernel for kernel in found if kernel.kind == "MatMul"]
    assert products[0].name.endswith("large")
    assert all(0.5 < kernel.calls_per_step < 1.5 for kernel in products)  # they overtake each other
    assert found[0] == products[0]


def test_what_xla_compiled_is_told_by_the_ops_that_it_was_made_of():
    large = tf.ones((600, 600))

    @tf.function(autograph=False, jit_compile=True)
    def step(x):
        return tf.nn.relu(tf.matmul(x, large, name="large") + 1.0, name="last")

    step(large)
    clear_kernel_cache()
    found = {
        kernel.name: kernel for kernel in profile_kernels(lambda: [step(large) for _ in range(3)])
    }
    assert found["large"].kind == "MatMul"
    waiting = sum(k.seconds for k in found.values() if k.kind.endswith("PartitionedCall"))
    assert found["large"].seconds > waiting  # who waits for it does no work


def test_kernels_that_were_found_to_be_cheap_are_told_again_once_they_are_forgotten():
    weight = tf.Variable(tf.ones((4,)))

    @tf.function(autograph=False)
    def step():
        return weight.assign(tf.sqrt(weight * 2.0))

    for _ in range(2000):
        step()
    before = {kernel.kind for kernel in profile_kernels(step)}
    clear_kernel_cache()
    after = {kernel.kind for kernel in profile_kernels(lambda: [step(), step()])}
    assert {"Mul", "Sqrt"} <= after
    assert not {"Mul", "Sqrt"} <= before


def test_an_error_in_the_steps_ends_the_profile():
    def fail():
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            profile_kernels(fail)
