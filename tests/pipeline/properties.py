"""Random pipelines, every legal edit, compared element by element.

Drawn in two files, so that two processes can share the work.
"""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from pipeline.helpers import epochs
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    DecodeAndCrop,
    DiskCache,
    DrawFirst,
    DropUnused,
    FilterFirst,
    GatherLast,
    InlineMap,
    LessAhead,
    ParallelInterleave,
    ParallelMap,
    Prefetch,
    ReadAhead,
    ShuffleFirst,
    SplitMap,
    VectorizeMap,
)
from uncork.pipeline.analysis.legality import is_random
from uncork.pipeline.analysis.lookahead_draws import has_lookahead_draws
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.element_order import has_nondeterministic_order, with_deterministic_order
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.trial_copy import copy_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.trailing_maps import find_trailing_maps


def plain(x):
    return x * 3 + tf.cast(tf.strings.length(tf.strings.as_string(x)), tf.int64)


def worded(x):
    words = tf.strings.split(tf.strings.join([tf.strings.as_string(x + 100), "7"], " "))
    return tf.reduce_sum(tf.strings.to_number(words, tf.int64)) * 2


def opened(x):
    """One op takes one element only, and work on what it gives is left."""
    text = tf.io.decode_compressed(tf.strings.as_string(x))
    return tf.strings.to_number(text, tf.int64) * 3 - x


PHOTO = tf.io.encode_jpeg(
    np.random.default_rng(3).integers(0, 255, (30, 41, 3)).astype("uint8")
).numpy()


def cropped(x):
    """A part of an image, and another one for other numbers."""
    image = tf.io.decode_jpeg(tf.constant(PHOTO), channels=3)
    top = tf.cast(tf.reduce_sum(x) % 23, tf.int32)
    part = tf.cast(image[top : top + 7, 5 + top // 2 : -6], tf.int64)
    return x + tf.reduce_sum(part[:, 0] * tf.range(1, 8, dtype=tf.int64)[:, None]) % 1000


def cropped_at_random(x):
    image = tf.io.decode_jpeg(tf.constant(PHOTO), channels=3)
    part = tf.image.random_crop(tf.cast(image, tf.int64), [5, 9, 3])
    return x - tf.reduce_max(part[2] * part[4])


def paired(x):
    return {"value": x, "half": tf.cast(x, tf.float32) / 2.0}


def split(x):
    """Words of a line, a different number of each."""
    line = tf.gather(tf.constant(["", "7", "8 -3", " 5  1 4"]), x % 4)
    return tf.strings.to_number(tf.strings.split(line), tf.int64) * 3, x


def summed(rows, x):
    return tf.reduce_sum(rows, axis=1) * 7 + x


def tripled(x):
    return {"value": x, "root": tf.sqrt(tf.cast(x, tf.float32)), "text": tf.strings.as_string(x)}


def last(x):
    return tf.cast(tf.strings.length(x["text"]), tf.int64)


def unpaired(x):
    return x["value"] + tf.cast(x["half"], tf.int64) if isinstance(x, dict) else x


def noisy(x):
    return plain(x) + tf.random.uniform(tf.shape(x), 0, 1000, tf.int64)


def noisy_seeded(x):
    return plain(x) + tf.random.uniform(tf.shape(x), 0, 1000, tf.int64, seed=4)


def noisy_branch(x):
    y = plain(x)
    drawn = tf.random.uniform([], 0, 2, tf.int32)
    return tf.cond(drawn > 0, lambda: y + tf.random.uniform([], 0, 99, tf.int64), lambda: y)


def turned(x):
    """Scaled behind what only moves values about."""
    y = tf.expand_dims(plain(x), -1)
    drawn = tf.random.uniform([], 0, 2, tf.int32)
    return tf.squeeze(tf.where(drawn > 0, tf.reverse(y, [0]), y), -1) * 3 - 5


@tf.function
def noisy_function(x):
    return noisy_branch(x) + plain(x)


def twice_and_again(x):
    return tf.data.Dataset.from_tensors(x).repeat(2).map(plain)


def remainder(x):
    return tf.reduce_sum(x) % 3


def keep(x):
    return tf.reduce_sum(x) % 3 != 0


def is_kept(x):
    return keep(x["value"])


def _scalar(dataset):
    return dataset.element_spec.shape.rank == 0


STEPS = st.one_of(
    st.sampled_from([
        lambda d: d.map(plain),
        lambda d: d.map(plain, num_parallel_calls=2),
        lambda d: d.map(plain, num_parallel_calls=2, deterministic=False),
        lambda d: d.map(worded) if _scalar(d) else d.map(plain),
        lambda d: d.map(opened),
        lambda d: d.map(opened, num_parallel_calls=2).shuffle(5, seed=2).batch(2),
        lambda d: d.map(paired).map(unpaired),
        lambda d: d.map(paired).filter(is_kept).map(unpaired),
        lambda d: d.map(paired).map(lambda x: (x["value"], x["half"])).filter(
            lambda value, half: keep(value)
        ).map(lambda value, half: value),
        lambda d: d.map(tripled).map(lambda x: x["value"]),
        lambda d: d.map(tripled, num_parallel_calls=2).shuffle(4, seed=5).map(last),
        lambda d: d.map(tripled).filter(is_kept).batch(2).map(last),
        lambda d: d.map(split).padded_batch(3).map(summed).unbatch() if _scalar(d) else d,
        lambda d: d.map(noisy),
        lambda d: d.map(noisy, num_parallel_calls=2),
        lambda d: d.map(noisy_seeded),
        lambda d: d.map(noisy_branch),
        lambda d: d.map(turned),
        lambda d: d.map(cropped),
        lambda d: d.map(cropped_at_random),
        lambda d: d.filter(keep),
        lambda d: d.enumerate().map(lambda n, x: x + n),
        lambda d: d.scan(np.int64(3), lambda total, x: (total + 1, x * total)),
        lambda d: d.flat_map(lambda x: tf.data.Dataset.from_tensors(x).repeat(2)),
        lambda d: d.interleave(twice_and_again, cycle_length=2, num_parallel_calls=2),
        lambda d: d.interleave(twice_and_again, cycle_length=2, block_length=2),
        lambda d: d.group_by_window(remainder, lambda key, window: window.skip(1), window_size=3),
        lambda d: d.concatenate(d.take(2)),
        lambda d: tf.data.Dataset.zip(d, tf.data.Dataset.range(50)).map(lambda x, y: x - y),
        lambda d: tf.data.Dataset.sample_from_datasets([d, d.take(3)], seed=3),
        lambda d: d.batch(3).unbatch(),
        lambda d: d.batch(3, drop_remainder=True).rebatch(2),
        lambda d: d.ignore_errors(),
        lambda d: d.take_while(lambda x: tf.reduce_max(x) < 500),
        lambda d: d.prefetch(2),
        lambda d: d.cache(),
        lambda d: d.with_options(tf.data.Options()),
        lambda d: d.take(-1),
        lambda d: d.skip(0),
        lambda d: d.prefetch(0),
        lambda d: d.map(lambda x: x),
    ]),
    st.builds(
        lambda size, seed, again: lambda d: d.shuffle(size, seed, reshuffle_each_iteration=again),
        st.integers(1, 30), st.sampled_from([None, 3]), st.booleans(),
    ),
    st.builds(lambda n, drop: lambda d: d.batch(n, drop), st.integers(1, 5), st.booleans()),
    st.builds(lambda n: lambda d: d.repeat(n), st.integers(0, 3)),
    st.builds(lambda n: lambda d: d.take(n), st.integers(0, 12)),
    st.builds(lambda n: lambda d: d.skip(n), st.integers(0, 5)),
    st.builds(lambda n: lambda d: d.shard(n, 0), st.integers(1, 3)),
)  # fmt: skip


# Places of a tree that is not doubled any more: branches of branches of branches take minutes.
LARGE = 6


def grown(data, step):
    """A step further; one that makes a large tree twice as large is left out."""
    further = step(data)
    before, after = (len(read_pipeline(each).stage_locations) for each in (data, further))
    return data if before > LARGE and after >= 2 * before else further


FOLDER = tempfile.mkdtemp(prefix="properties-")
# Behind our own folder in it, which is gone by then: what is registered first comes last.
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

IN_FILES = partial(DiskCache, folder=FOLDER)
AHEAD = partial(ReadAhead, readers=2, elements_per_reader=2)
STAGE_EDITS = (
    SplitMap, Cache, IN_FILES, DropUnused, FilterFirst, ShuffleFirst, VectorizeMap, DrawFirst,
    DecodeAndCrop, InlineMap, ParallelMap, ParallelInterleave, AHEAD, LessAhead,
)  # fmt: skip


def legal_edits(pipeline, kinds, *, highest):
    """Every edit of a stage that is not refused, with its result; made as they are asked for.

    What edits of several stages lead to alike, such as a cache, comes once. A cache in files stands
    where one in memory does, which is always tried: it comes at one place, highest or lowest.
    """
    made = set()
    stages = range(len(pipeline.stage_locations))
    for stage in reversed(stages) if highest else stages:
        for kind in kinds:
            if kind is IN_FILES and kind in made:
                continue
            edit = kind(stage=stage, expected_digest=pipeline.digest)
            try:
                changed = apply_edit(pipeline, edit)
            except EditRefused:
                continue
            which = kind if kind is IN_FILES else (kind, changed.digest)
            if which not in made:
                yield edit, changed
            made.add(which)


def whole_edits(pipeline):
    """Edits of no stage in particular."""
    if pipeline.options.autotune.enabled is not False:
        yield AutotuneOff(expected_digest=pipeline.digest)
    if pipeline.root.kind != "prefetch":
        yield Prefetch(expected_digest=pipeline.digest)


def gathering(pipeline):
    """The edit that lets numbers of rows go through a pipeline over arrays, where it is legal."""
    edit = GatherLast(expected_digest=pipeline.digest)
    try:
        yield edit, apply_edit(pipeline, edit)
    except EditRefused:
        return


def done(run, *given):
    """What the last maps of a pipeline make, as one map."""
    return run.map_element(given)


def all_together(pipeline, kinds, *, highest):
    """One edit of each kind after the other, where it is legal, and what they lead to."""
    edits = []
    for kind in kinds:
        stages = range(len(pipeline.stage_locations))
        for stage in reversed(stages) if highest else stages:
            edit = kind(stage=stage, expected_digest=pipeline.digest)
            try:
                pipeline = apply_edit(pipeline, edit)
            except EditRefused:
                continue
            edits.append(edit)
            break
    for edit, changed in gathering(pipeline):
        pipeline = changed
        edits.append(edit)
    for edit in whole_edits(pipeline):
        pipeline = apply_edit(pipeline, replace(edit, expected_digest=pipeline.digest))
        edits.append(edit)
    return pipeline, edits


def serially_drawn(pipeline, *edits):
    """Parallel draws are left to chance: seeding once more runs those maps one call at a time."""
    resampled = any(isinstance(edit, ParallelMap) for edit in edits)
    return create_seeded_copy(pipeline, 9) if resampled else pipeline


def untuned(dataset):
    """The same without the autotuner, which takes a third of so brief a pass."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def overtaking(dataset):
    """The same, its order left open: it is compared in order nevertheless."""
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


def passes(dataset, most=2):
    """So many passes; one where it ends with an error, or is left before its end.

    What a pass after such a one gives is left to timing: the thread of TensorFlow's own prefetch
    goes on behind an error, and may complete a cache. Batches of unequal parts fail in other words
    where TensorFlow fuses the batch with the map below it; the place and the kind are the same.
    """
    first, *others = (_without_words(each) for each in epochs(dataset, passes=most))
    return (first, *others) if first.is_complete else (first,)


def _without_words(found):
    error = found.error and dataclasses.replace(found.error, message="")
    return dataclasses.replace(found, error=error)


def nodes(node):
    return [node, *(below for branch in node.inputs for below in nodes(branch))]


def draws_ahead(pipeline):
    """A map that draws in parallel runs ahead of a stage that stops it: by how far is chance.

    So does one below a map that TensorFlow runs in parallel by itself.
    """
    every = nodes(pipeline.root)
    if has_lookahead_draws(pipeline):
        return True
    ahead = any(n.kind == "map" and n.parallelism != 1 and is_random(n) for n in every)
    return ahead and any(n.kind in STOPPING for n in every)


def shuffles_nothing(pipeline):
    """TensorFlow fuses a shuffle with a repeat above it, and refuses the fused one no repetition.

    Whether it does depends on what lies between them, which any edit may change.
    """
    every = nodes(pipeline.root)
    never = any(n.kind == "repeat" and int(np.asarray(n.dataset._count)) == 0 for n in every)
    return never and any(n.kind == "shuffle" for n in every)


def repeats_ahead(pipeline):
    """What runs ahead of a stage that stops it may have begun to shuffle anew, or not, by then.

    The next pass draws accordingly: it is left to timing in TensorFlow, without any edit.
    """
    every = nodes(pipeline.root)
    anew = any(n.kind == "shuffle" and is_random(n) for n in every)
    again = any(n.kind == "repeat" for n in every)
    return anew and again and any(n.kind in STOPPING for n in every)


def fails_by_fusion(dataset, found):
    """A map fused with the batch above it minds unequal parts even of a batch that is dropped.

    Apart they do not, and any edit between the two parts them.
    """
    if all(each.error is None for each in found):
        return False
    apart = tf.data.Options()
    apart.experimental_optimization.map_and_batch_fusion = False
    return passes(dataset.with_options(apart), len(found)) != found


def may_differ_again(node):
    """Rebuilt wrongly, it could give another order or other elements in a second pass only."""
    return node.kind in ("shuffle", "cache") or is_random(node)


STOPPING = {"take", "take_while", "zip", "choose", "concatenate"}

# How many are drawn; `make test-deep` sets it.
EXAMPLES = int(os.environ.get("UNCORK_EXAMPLES", "0"))


@contextmanager
def op_by_op() -> Iterator[None]:
    """Ops that Python calls are not made functions of first.

    TensorFlow makes a function of each such op, optimizes it, and keeps it for the next call; but
    not where the op makes a dataset: 0.7 ms each time, for an op of 0.02 ms, which is the same one.
    """
    context.ensure_initialized()
    handle = context.context()._handle
    pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction(handle, False)
    try:
        yield
    finally:
        pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction(handle, True)


@contextmanager
def as_written(*, optimized: bool) -> Iterator[None]:
    """Functions of maps are not rewritten by TensorFlow before they run, but where it says so.

    That takes a quarter of all the time. What a map computes is the same, and what ours make of it
    is held against it under the same setting; with its rewrites they are in one draw of four.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimized})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def _check(steps, size, kinds, highest, tuned, loose, in_arrays):
    with op_by_op(), as_written(optimized=tuned or bool(EXAMPLES)):
        _compare(steps, size, kinds, highest, tuned, loose, in_arrays)


def _compare(steps, size, kinds, highest, tuned, loose, in_arrays):
    rows = tf.data.Dataset.from_tensor_slices
    data = rows(np.arange(size)) if in_arrays else tf.data.Dataset.range(size)
    for step in steps:
        data = grown(data, step)
    original = read_pipeline(overtaking(data) if loose else data)
    assume(not draws_ahead(original))
    assume(not shuffles_nothing(original))
    most = 1 if repeats_ahead(original) else 2
    again = most if any(map(may_differ_again, nodes(original.root))) else 1

    def seen(pipeline, most):
        data = with_deterministic_order(pipeline)
        return passes(data if tuned else untuned(data), most)

    twin = create_seeded_copy(
        original, 9
    )  # never read: its maps that draw are traced once for all copies
    assert twin.digest == original.digest
    expected = seen(create_seeded_copy(original, 9), most)
    assume(not fails_by_fusion(with_deterministic_order(copy_pipeline(twin)), expected))
    assert seen(copy_pipeline(twin), most) == expected
    # What is legal is found on the user's own pipeline, as by a tuning, in one draw of four.
    judged = original if tuned else twin
    whole = ((edit, apply_edit(judged, edit)) for edit in whole_edits(judged) if tuned)
    alone = [kind for kind in STAGE_EDITS if tuned or kind is not IN_FILES]
    of_stages = legal_edits(judged, alone, highest=highest)
    for edit, preview in itertools.chain(of_stages, gathering(judged), whole):
        edited = apply_edit(copy_pipeline(twin), edit) if tuned else copy_pipeline(preview)
        changed = serially_drawn(edited, edit)
        assert changed.digest == preview.digest
        assert changed.cardinality == original.cardinality
        assert has_nondeterministic_order(original) or not has_nondeterministic_order(preview), edit
        count = most if isinstance(edit, Cache | DiskCache) else again
        count = 0 if has_lookahead_draws(preview) else count  # how far its draws go on is chance
        assert seen(changed, count or 1)[:count] == expected[:count], edit
    for run in find_trailing_maps(copy_pipeline(twin))[
        -1:
    ]:  # done elsewhere, to what the rest gives
        assert seen(read_pipeline(run.input_dataset.map(partial(done, run))), most) == expected
    together, edits = all_together(copy_pipeline(twin), kinds, highest=highest)
    if not has_lookahead_draws(together):
        assert seen(serially_drawn(together, *edits), most) == expected, edits


def drawn(number):
    """A test of 100 drawn pipelines, the same in every run; other numbers draw others.

    ``make test-deep`` draws thousands, others in each run.
    """
    given_all = given(
        steps=st.lists(STEPS, min_size=1, max_size=6),
        size=st.integers(0, 13),
        kinds=st.permutations(STAGE_EDITS),
        highest=st.booleans(),
        tuned=st.sampled_from([True, False, False, False]),
        loose=st.sampled_from([False, False, True]),
        in_arrays=st.booleans(),
    )
    options = settings(
        max_examples=EXAMPLES or 20,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    test = options(given_all(_check))
    return test if EXAMPLES else pytest.mark.timeout(1500)(seed(number)(test))
