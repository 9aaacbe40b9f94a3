"""Where errors are ignored further up, the elements that fail must go on to fail where they do."""

from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import Cache, ParallelInterleave
from uncork.pipeline.analysis.legality import find_movable_maps
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.dead_outputs import find_unused_outputs
from uncork.pipeline.transforms.filter_pushdown import find_bypassable_maps

RANGE = tf.data.Dataset.range


def checked(x):
    """Fails at every seventh."""
    text = tf.where(x % 7 == 0, "seventh", tf.strings.as_string(x))
    return tf.strings.to_number(text, tf.float32)


def in_two(x):
    return x, tf.exp(checked(x))


def pipeline(data, *, ignored):
    return read_pipeline((data.ignore_errors() if ignored else data).batch(4))


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (RANGE(40).map(checked).shard(2, 0), lambda p: find_bypassable_maps(p, 2)[0]),
        (RANGE(40).map(checked).shuffle(40, seed=1), lambda p: find_movable_maps(p, 2)),
        (RANGE(40).map(in_two).map(lambda x, _: x), lambda p: find_unused_outputs(p, 2)),
    ],
    ids=["filter_first", "shuffle_first", "drop_unused"],
)
def test_what_would_let_other_elements_fail_stays_where_it_is(data, found, ignored):
    assert bool(found(pipeline(data, ignored=ignored))) is not ignored


@pytest.mark.parametrize("ignored", [False, True])
def test_a_cache_takes_no_map_below_a_shuffle_then(ignored):
    read_ = pipeline(RANGE(40).shuffle(40, seed=1).map(checked), ignored=ignored)
    edit = Cache(stage=2, expected_digest=read_.digest)
    if ignored:
        with pytest.raises(EditRefused, match="are ignored"):
            apply_edit(read_, edit)
    else:
        assert apply_edit(read_, edit)


def opened(start):
    return RANGE(start * 10, start * 10 + 4).map(checked)


@pytest.mark.parametrize("ignored", [False, True])
def test_inputs_are_read_in_turn_then(ignored):
    """In parallel, a bad element would take its input's turn."""
    read_ = pipeline(RANGE(3).interleave(opened, cycle_length=2), ignored=ignored)
    edit = ParallelInterleave(stage=1, expected_digest=read_.digest)
    if ignored:
        with pytest.raises(EditRefused, match="are ignored"):
            apply_edit(read_, edit)
    else:
        assert apply_edit(read_, edit)
