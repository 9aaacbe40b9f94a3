"""Maps run in the thread that asks for their elements."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from pipeline.helpers import changing_table, epochs, kinds, measured, table
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import InlineMap, ParallelMap, VectorizeMap
from uncork.pipeline.analysis.legality import is_inlined
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range
AUTOTUNE = tf.data.AUTOTUNE
STATIC, CHANGING = table(), changing_table()


def inlined(dataset, stage=1):
    before = read_pipeline(dataset)
    return apply_edit(before, InlineMap(stage=stage, expected_digest=before.digest))


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([])


FUNCTIONS = {
    "sum": lambda x: x + 1,
    "draw": noisy,
    "call": tf.function(lambda x: x * 3),
    "words": lambda x: tf.strings.split(tf.strings.as_string(x * 101), "0"),
    "table": lambda x: STATIC.lookup(tf.cast(x, tf.int32)),
    "changing table": lambda x: CHANGING.lookup(tf.cast(x, tf.int32)),
    "dataset": lambda x: RANGE(x).reduce(tf.constant(0, tf.int64), lambda a, b: a + b),
    "brightness": lambda x: tf.image.random_brightness(tf.fill([2, 2, 3], x / 40), 0.1),
}
BRANCHING = {
    "cond": lambda x: tf.cond(x % 2 == 0, lambda: x + 1, lambda: x * 2),
    "switch": lambda x: tf.switch_case(tf.cast(x % 2, tf.int32), [lambda: x, lambda: x + 1]),
    "while": lambda x: tf.while_loop(lambda a: a < 9, lambda a: [a + 1], [x])[0],
    "map_fn": lambda x: tf.map_fn(lambda y: y + x, tf.range(3, dtype=tf.int64)),
    "inside": tf.function(lambda x: tf.cond(x > 1, lambda: x + 1, lambda: x * 2)),
    "flip": lambda x: tf.image.random_flip_left_right(tf.fill([2, 2, 3], x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_gives_the_same(name) -> None:
    data = RANGE(40).shuffle(20, seed=3).map(FUNCTIONS[name])
    expected = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    before = create_seeded_copy(read_pipeline(data), 5)
    after = apply_edit(before, InlineMap(stage=2, expected_digest=before.digest))
    assert is_inlined(after.root)
    assert epochs(after.dataset) == expected


@pytest.mark.parametrize("name", BRANCHING)
def test_branches_and_loops_are_refused(name) -> None:
    """TensorFlow's executor on one thread does not take them: the iterator could not be made."""
    with pytest.raises(EditRefused, match="one after the other"):
        inlined(RANGE(4).map(BRANCHING[name]))


def test_an_error_ends_the_same_element() -> None:
    data = RANGE(9).map(lambda x: tf.gather(tf.range(5), x))
    (found,), (expected,) = (epochs(d, passes=1) for d in (inlined(data).dataset, data))
    assert found.digests == expected.digests
    assert len(found.digests) == 5
    assert (found.error.index, found.error.type) == (5, expected.error.type)


def test_a_batch_above_is_kept_apart() -> None:
    """TensorFlow would fuse the two, and hand each call to a thread again."""
    after = inlined(RANGE(40).map(lambda x: x + 1).batch(4))
    assert kinds(after) == ["range", "map", "options", "batch"]
    assert kinds(inlined(RANGE(40).map(lambda x: x + 1).shuffle(4))) == ["range", "map", "shuffle"]


def test_a_parallel_map_that_keeps_the_order_is_made_serial() -> None:
    data = RANGE(40).map(lambda x: x + 1, num_parallel_calls=AUTOTUNE)
    after = inlined(data)
    assert after.root.parallelism == 1
    assert epochs(after.dataset) == epochs(data)


@pytest.mark.parametrize(
    "data",
    [
        RANGE(4).map(noisy, num_parallel_calls=2),
        RANGE(4).map(lambda x: tf.numpy_function(abs, [x], tf.int64)),
        RANGE(4).map(lambda x: x + 1, synchronous=True),
        RANGE(4).batch(2),
    ],
    ids=["drawing", "python", "synchronous", "no map"],
)
def test_what_would_show_it_is_refused(data) -> None:
    with pytest.raises(EditRefused):
        inlined(data)


def test_it_is_done_once() -> None:
    after = inlined(RANGE(4).map(lambda x: x + 1))
    with pytest.raises(EditRefused):
        apply_edit(after, InlineMap(stage=1, expected_digest=after.digest))


def test_another_digest_says_that_something_changed() -> None:
    before = read_pipeline(RANGE(4).map(lambda x: x + 1))
    assert inlined(before.dataset).digest != before.digest


def test_it_can_be_run_in_parallel_or_on_batches_afterwards() -> None:
    data = RANGE(40).map(lambda x: x + 1).batch(4)
    after = inlined(data)
    parallel = apply_edit(after, ParallelMap(stage=1, expected_digest=after.digest))
    assert parallel.stages[1].parallelism == AUTOTUNE
    assert not is_inlined(parallel.stages[1])  # several calls at once wait in threads of their own
    stacked = apply_edit(after, VectorizeMap(stage=1, expected_digest=after.digest))
    assert not any(map(is_inlined, stacked.stages))
    assert epochs(parallel.dataset) == epochs(stacked.dataset) == epochs(data)


def test_what_it_would_cost_is_measured() -> None:
    """A call handed to another thread takes microseconds; an addition takes none."""
    stages = measured(RANGE(4096).map(noisy).batch(64), batch_size=64)
    assert stages[1].inlined_cost is not None
    assert 0 <= stages[1].inlined_cost.cpu_s_per_element <= stages[1].cpu_s_per_element
    assert [s.inlined_cost for s in stages if s.kind != "map"] == [None, None]


def test_what_runs_inline_already_is_not_offered_it_again() -> None:
    stages = measured(inlined(RANGE(64).map(noisy)), batch_size=1)
    assert stages[1].inlined_cost is None


ON_ANOTHER_DEVICE = """
import tensorflow as tf
from uncork.pipeline.profile.stage_costs import measure_stage_costs
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.analysis.legality import can_run_inline

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
with tf.device("/CPU:1"):
    generator = tf.random.Generator.from_seed(1)

def asks(x):
    with tf.device("/CPU:1"):
        return x * 2

def draws(x):
    return generator.uniform([])

for function in (asks, draws):
    pipeline = read_pipeline(tf.data.Dataset.range(40).map(function))
    assert not can_run_inline(pipeline.root)
    measure_stage_costs(pipeline, batch_size=1, budget_s=0.2)
assert can_run_inline(read_pipeline(tf.data.Dataset.range(40).map(lambda x: x * 2)).root)
"""


@pytest.mark.usefixtures("forked_processes")
def test_what_reaches_another_device_is_left_alone() -> None:
    """In one thread the receiver would wait for the sender that comes after it, for ever."""
    command = [sys.executable, "-c", ON_ANOTHER_DEVICE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
