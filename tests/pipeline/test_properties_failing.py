"""Random pipelines in which an element fails: what came before it, and the error, stay the same.

Of the edits that keep each stage where it is. Those that let a stage see other elements, or make
others first, meet an error earlier, later or not at all; their pages say so.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from pipeline.properties import (
    AHEAD,
    EXAMPLES,
    STEPS,
    all_together,
    as_written,
    draws_ahead,
    fails_by_fusion,
    grown,
    legal_edits,
    nodes,
    op_by_op,
    passes,
    serially_drawn,
    shuffles_nothing,
    untuned,
    whole_edits,
)
from uncork.core.edits.pipeline import (
    DecodeAndCrop,
    DrawFirst,
    InlineMap,
    LessAhead,
    ParallelInterleave,
    ParallelMap,
    SplitMap,
    VectorizeMap,
)
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.element_order import with_deterministic_order
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.trial_copy import copy_pipeline
from uncork.pipeline.transforms.apply import apply_edit

IN_PLACE = (
    SplitMap, DrawFirst, DecodeAndCrop, VectorizeMap, InlineMap, ParallelMap, ParallelInterleave,
    AHEAD, LessAhead,
)  # fmt: skip


def checked(x):
    tf.debugging.assert_none_equal(x, np.int64(4))
    return x + 1


def parsed(x):
    """A text that is no number."""
    text = tf.strings.as_string(x)
    return tf.strings.to_number(tf.where(x == 5, text + "?", text), tf.int64)


def opened(x):
    """One op that takes one element only."""
    text = tf.strings.as_string(x)
    text = tf.strings.join([tf.where(x > 6, "no JPEG, ", ""), text])
    return tf.strings.to_number(tf.io.decode_compressed(text), tf.int64)


def checked_and_drawn(x):
    drawn = tf.random.uniform([], 0, 9, tf.int64)
    return parsed(x) + drawn


def rows_of(x):
    with tf.control_dependencies([tf.debugging.assert_less(x, np.int64(6))]):
        return tf.data.Dataset.range(tf.math.minimum(tf.abs(tf.reduce_max(x)), 4))


FAILING = st.sampled_from([
    lambda d: d.map(checked),
    lambda d: d.map(checked, num_parallel_calls=2),
    lambda d: d.map(parsed),
    lambda d: d.map(parsed, num_parallel_calls=2),
    lambda d: d.map(opened),
    lambda d: d.map(opened).batch(2),
    lambda d: d.map(checked_and_drawn),
    lambda d: d.filter(lambda x: tf.reduce_all(checked(x) > 0)),
    lambda d: d.flat_map(rows_of),
    lambda d: d.interleave(rows_of, cycle_length=2),
    lambda d: d.interleave(rows_of, cycle_length=2, num_parallel_calls=2),
    lambda d: d.scan(np.int64(0), lambda total, x: (total + 1, parsed(x))),
])  # fmt: skip


def _check(before, failing, after, size, kinds, highest, tuned):
    with op_by_op(), as_written(optimized=tuned or bool(EXAMPLES)):
        _compare((*before, failing, *after), size, kinds, highest, tuned)


def _same(found, expected, pipeline, *edits):
    """A map behind a batch does not see what is dropped up to there, and fails later or not."""
    if found == expected:
        return True
    dropping = any(_drops(node) for node in nodes(pipeline.root))
    behind = any(isinstance(edit, VectorizeMap) for edit in edits)
    before = expected[0].digests
    return dropping and behind and found[0].digests[: len(before)] == before


def _drops(node):
    return node.kind in ("skip", "shard") or getattr(node.dataset, "_drop_remainder", False)


def _compare(steps, size, kinds, highest, tuned):
    data = tf.data.Dataset.range(size)
    for step in steps:
        data = grown(data, step)
    original = read_pipeline(data)
    assume(not draws_ahead(original))
    assume(not shuffles_nothing(original))

    def seen(pipeline):
        data = with_deterministic_order(pipeline)
        return passes(data if tuned else untuned(data), 1)

    twin = create_seeded_copy(original, 9)
    expected = seen(create_seeded_copy(original, 9))
    assume(expected[0].error is not None)
    assume(not fails_by_fusion(with_deterministic_order(copy_pipeline(twin)), expected))
    assert seen(copy_pipeline(twin)) == expected
    for edit, changed in legal_edits(twin, IN_PLACE, highest=highest):
        assert _same(
            seen(serially_drawn(copy_pipeline(changed), edit)), expected, original, edit
        ), edit
    for edit in whole_edits(twin):
        assert seen(copy_pipeline(apply_edit(twin, edit))) == expected, edit
    together, edits = all_together(copy_pipeline(twin), kinds, highest=highest)
    assert _same(seen(serially_drawn(together, *edits)), expected, original, *edits), edits


STEPS_AROUND = st.lists(STEPS, max_size=3)

test_the_same_elements_and_the_same_error = settings(
    max_examples=EXAMPLES or 12,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)(
    given(
        before=STEPS_AROUND,
        failing=FAILING,
        after=STEPS_AROUND,
        size=st.integers(5, 13),
        kinds=st.permutations(IN_PLACE),
        highest=st.booleans(),
        tuned=st.booleans(),
    )(_check)
)
if not EXAMPLES:
    test_the_same_elements_and_the_same_error = pytest.mark.timeout(900)(
        seed(3)(test_the_same_elements_and_the_same_error)
    )
