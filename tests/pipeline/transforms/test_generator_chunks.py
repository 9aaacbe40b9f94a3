"""Generators whose elements are handed over many at a time."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from pipeline.helpers import measured
from pipeline.properties import (
    EXAMPLES,
    STEPS,
    draws_ahead,
    fails_by_fusion,
    passes,
    repeats_ahead,
    shuffles_nothing,
)
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import GeneratorCache, GeneratorChunks
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy, preserve_state
from uncork.pipeline.ir.element_order import with_deterministic_order
from uncork.pipeline.ir.python_functions import generator_source_of, user_generator_of
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.generator_chunks import ChunkedGenerator
from uncork.pycode.purity.memoized_generator import MemoizedGenerator
from uncork.pycode.purity.reachability import function_digest

ROWS = np.arange(400, dtype=np.float32).reshape(100, 4)
SPEC = tf.TensorSpec((4,), tf.float32)
Pair = collections.namedtuple("Pair", "x y")


def made_by(generator, spec=SPEC, **settings):
    return tf.data.Dataset.from_generator(generator, output_signature=spec, **settings)


def edit_of(pipeline, elements=8):
    stage = next(
        i for i, p in enumerate(pipeline.stage_locations) if p.node.kind == "from_generator"
    )
    return GeneratorChunks(stage=stage, expected_digest=pipeline.digest, max_elements=elements)


def chunked(dataset, elements=8):
    pipeline = read_pipeline(dataset)
    return apply_edit(pipeline, edit_of(pipeline, elements)).dataset


def yielding(*values, error=None):
    def generator():
        yield from values
        if error is not None:
            raise error

    return generator


def seen(dataset):
    """What it gives, and how it ends."""
    found = []
    try:
        for element in dataset:
            found.append(tf.nest.map_structure(lambda t: np.asarray(t.numpy()).tolist(), element))
    except tf.errors.OpError as error:
        return found, type(error), str(error).split("\n")[0]
    return found, None, ""


def text(*shape):
    return tf.TensorSpec(shape, tf.string)


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (SPEC, list(ROWS)),
        (SPEC, [row.tolist() for row in ROWS]),  # lists become arrays
        (SPEC, [row[::-1] for row in ROWS]),  # not one after the other in memory
        (SPEC, [tf.constant(row) for row in ROWS]),
        ((SPEC, tf.TensorSpec((), tf.int64)), [(row, i) for i, row in enumerate(ROWS)]),
        (tf.TensorSpec((), tf.int32), [np.int64(7), 8, np.int32(9), True]),
        (tf.TensorSpec((), tf.float32), [0.1, 1, np.float64(0.3), float("nan")]),
        (tf.TensorSpec((), tf.float16), [0.1, 70000.0]),
        (tf.TensorSpec((), tf.bfloat16), [0.1, 2]),
        (tf.TensorSpec((), tf.bool), [True, False, np.bool_(1), 0]),
        (tf.TensorSpec((), tf.complex64), [1j, 2.0]),
        (text(), ["word", b"byte", np.str_("more"), "\u00fc"]),
        (text(None), [["a", "b"], ["c"], np.array(["d", "e"])]),
        ({"b": SPEC, "a": text()}, [{"a": str(i), "b": row} for i, row in enumerate(ROWS)]),
        (({"x": SPEC}, SPEC), [({"x": row}, row) for row in ROWS]),
        (Pair(SPEC, SPEC), [Pair(row, row) for row in ROWS]),
        (tf.TensorSpec((None,), tf.float32), [ROWS[0, : i % 3 + 1] for i in range(20)]),
        (SPEC, []),
    ],
    ids=range(18),
)
def test_elements_stay_what_they_are(spec, values):
    plain = made_by(yielding(*values), spec)
    instead = chunked(plain)
    assert instead.element_spec == plain.element_spec
    if "nan" in repr(values):
        assert str(seen(instead)) == str(seen(plain))  # not a number equals nothing
    else:
        assert seen(instead) == seen(plain)
    assert element_digests(instead, epochs=2) == element_digests(plain, epochs=2)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (SPEC, [ROWS[0], ROWS[1], ROWS[2, :3], ROWS[3]]),  # another shape
        (SPEC, [ROWS[0], "word"]),
        (SPEC, [ROWS[0], (ROWS[1], ROWS[1])]),
        (tf.TensorSpec((), tf.uint8), [1, 2, 300]),
        (tf.TensorSpec((), tf.int32), [1, 2.5]),
        ((SPEC, SPEC), [(ROWS[0], ROWS[1]), (ROWS[0],)]),
        ({"a": SPEC}, [{"a": ROWS[0]}, {"b": ROWS[0]}]),
        (SPEC, [ROWS[0], None]),
        (text(), ["a", "b", 7, "c"]),
        (text(None), [["a"], ["b"], np.array(["c", 7], object), ["d"]]),
        (text(None), [np.array(["a"], object), np.array(["b"], object), np.array([7], object)]),
    ],
    ids=range(11),
)
def test_what_is_no_such_element_ends_it_as_before(spec, values):
    plain = made_by(yielding(*values), spec)
    before, after = seen(plain), seen(chunked(plain))
    assert after == before
    assert len(before[0]) >= 1


@pytest.mark.parametrize("error", [ValueError("torn"), KeyError("gone"), OSError(5, "no disk")])
@pytest.mark.parametrize("count", [0, 3, 8, 20])
def test_errors_come_behind_the_elements_before_them(error, count):
    plain = made_by(yielding(*ROWS[:count], error=error))
    before, after = seen(plain), seen(chunked(plain))
    assert after == before
    assert len(after[0]) == count
    assert after[1] is not None


def test_an_array_that_is_filled_anew_is_copied():
    def refilling():
        row = np.zeros(4, np.float32)
        for each in ROWS:
            row[:] = each
            yield row

    given, _, _ = seen(chunked(made_by(refilling)))
    assert given == ROWS.tolist()


def test_nothing_of_a_pass_is_left_with_tensorflow():
    plain = made_by(yielding(*[row.tolist() for row in ROWS]))
    state = generator_source_of(read_pipeline(plain).root).state
    assert len(seen(chunked(plain))[0]) == 100
    assert not state._args
    assert not state._iterators


def test_what_cannot_be_iterated_ends_it_as_before():
    plain = made_by(lambda: 7)
    assert seen(chunked(plain)) == seen(plain)


def test_a_pass_that_is_left_closes_the_generator():
    ends = []

    def closing():
        try:
            yield from ROWS
        finally:
            ends.append(1)

    for _ in chunked(made_by(closing).prefetch(1)):
        break
    assert ends == [1]


def test_each_pass_asks_anew_and_draws_what_it_drew():
    def shuffled():
        order = list(range(100))
        random.shuffle(order)
        for number in order:
            yield ROWS[number]

    def two_passes(dataset):
        random.seed(3)
        return [seen(dataset) for _ in range(2)]

    plain = made_by(shuffled)
    first, second = two_passes(plain)
    assert first != second
    assert two_passes(chunked(plain)) == [first, second]


@pytest.mark.parametrize(
    "build",
    [
        lambda d: d.repeat(2).batch(7),
        lambda d: d.shuffle(10, seed=3).batch(3, drop_remainder=True),
        lambda d: d.map(lambda x: x + 1).filter(lambda x: x[0] > 30).prefetch(2),
        lambda d: d.skip(5).cache(),
    ],
)
def test_everything_behind_it_stays(build):
    plain = build(made_by(yielding(*ROWS)))
    pipeline = read_pipeline(plain)
    edited = apply_edit(pipeline, edit_of(pipeline))
    assert edited.digest != pipeline.digest
    assert edited.root.at == pipeline.root.at
    assert element_digests(edited.dataset, epochs=2) == element_digests(plain, epochs=2)


def with_options(dataset):
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@pytest.mark.parametrize(
    "build",
    [
        lambda d: d.take(50),
        lambda d: d.batch(4).take(5).repeat(),
        lambda d: tf.data.Dataset.zip(tf.data.Dataset.range(10), d),
        lambda d: with_options(d.batch(4)),  # nothing runs ahead
    ],
    ids=["taken", "batches taken", "zipped", "not ahead"],
)
def test_it_is_not_run_further_than_it_was(build):
    dataset = build(made_by(yielding(*ROWS)))
    with pytest.raises(EditRefused, match="may stop before its end"):
        chunked(dataset)
    assert all(s.chunked_cost is None for s in measured(dataset))


def test_a_prefetch_of_the_users_runs_ahead():
    assert chunked(with_options(made_by(yielding(*ROWS)).batch(4).prefetch(1)))


@pytest.mark.parametrize(
    "dataset",
    [
        made_by(iter, args=(ROWS,)),
        made_by(
            yielding(tf.ragged.constant([[1], [2, 3]])), tf.RaggedTensorSpec((2, None), tf.int32)
        ),
        made_by(yielding(*ROWS), tf.TensorSpec(None, tf.float32)),
        tf.data.Dataset.range(9),
    ],
    ids=["arguments", "ragged", "any rank", "no generator"],
)
def test_others_are_left_alone(dataset):
    pipeline = read_pipeline(dataset)
    with pytest.raises(EditRefused, match="more than arrays"):
        apply_edit(
            pipeline, GeneratorChunks(stage=0, expected_digest=pipeline.digest, max_elements=8)
        )


def test_what_it_costs_then_is_measured():
    (source, *_) = measured(made_by(yielding(*ROWS)).batch(40), batch_size=40)
    assert source.chunked_cost.max_elements == 40
    assert source.chunked_cost.wall_s_per_element < source.wall_s_per_element


def test_it_is_run_ahead_by_no_more_than_a_step():
    """Where a step takes one element, the next may hang on what the step has done."""
    (source, *_) = measured(made_by(yielding(*ROWS)))
    assert source.chunked_cost is None


def test_large_elements_and_slow_ones_are_left_alone():
    large = np.zeros(200_000, np.float32)
    spec = tf.TensorSpec(large.shape, tf.float32)
    batches = made_by(yielding(*[large] * 9), spec).batch(3)
    (source, *_) = measured(batches, batch_size=3)
    assert source.chunked_cost is None


def test_chunks_end_where_the_shape_does():
    short, long = ROWS[0, :2], ROWS[1]
    plain = made_by(yielding(short, short, long, short), tf.TensorSpec((None,), tf.float32))
    source = generator_source_of(read_pipeline(plain).root)
    chunks = ChunkedGenerator(source, plain.element_spec, 8)
    assert [chunk.shape for chunk in chunks()] == [(2, 2), (1, 4), (1, 2)]


def test_a_chunk_has_no_more_than_a_megabyte():
    """Elements of any length may be long now and then; room for 64 of those is not asked for."""
    long = np.ones(300_000, np.float32)
    plain = made_by(yielding(ROWS[0], long, long, ROWS[1]), tf.TensorSpec((None,), tf.float32))
    chunks = ChunkedGenerator(
        generator_source_of(read_pipeline(plain).root), plain.element_spec, 64
    )
    given = [chunk for chunk in chunks()]
    assert [chunk.shape for chunk in given] == [(1, 4), (1, 300_000), (1, 300_000), (1, 4)]
    assert max(chunk.base.nbytes for chunk in given) <= 1_200_000


@pytest.mark.parametrize("elements", [0, -3])
def test_a_plan_for_no_elements_is_refused(elements):
    with pytest.raises(EditRefused, match="are too small"):
        chunked(made_by(yielding(*ROWS)), elements)


def test_a_generator_of_the_users_may_have_any_attributes():
    class Ratings:
        users = ROWS

        def __call__(self):
            yield from self.users

    ratings = Ratings()
    plain = made_by(ratings)
    assert user_generator_of(read_pipeline(plain).root) is ratings
    edited = chunked(plain)
    assert seen(edited) == seen(plain)
    assert user_generator_of(read_pipeline(edited).stage_locations[0].node) is ratings


def test_chunks_are_not_put_into_chunks():
    with pytest.raises(EditRefused):
        chunked(chunked(made_by(yielding(*ROWS))))


def test_the_states_that_it_draws_from_are_found_through_it():
    rng = np.random.default_rng(3)

    def shuffled():
        for number in rng.permutation(100):
            yield ROWS[number]

    edited = read_pipeline(chunked(made_by(shuffled).batch(4)))
    before = rng.bit_generator.state
    with preserve_state(edited):
        assert len(seen(edited.dataset)[0]) == 25
        assert rng.bit_generator.state != before
    assert rng.bit_generator.state == before


def test_what_is_kept_comes_in_chunks_and_not_the_other_way_round():
    plain = made_by(yielding(*ROWS)).batch(4)
    code = function_digest(user_generator_of(read_pipeline(plain).stages[0]))
    kept = apply_edit(
        read_pipeline(plain),
        GeneratorCache(
            stage=0,
            expected_digest=read_pipeline(plain).digest,
            size_bytes=1 << 20,
            code_digest=code,
        ),
    )
    both = apply_edit(kept, edit_of(kept))
    assert isinstance(user_generator_of(both.stages[0]), MemoizedGenerator)
    assert seen(both.dataset) == seen(both.dataset) == seen(plain)
    first = read_pipeline(chunked(plain))
    with pytest.raises(EditRefused, match="rewritten already"):
        apply_edit(
            first,
            GeneratorCache(
                stage=0, expected_digest=first.digest, size_bytes=1 << 20, code_digest=code
            ),
        )


@seed(1)
@settings(
    max_examples=EXAMPLES or 8,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=5),
    size=st.integers(0, 30),
    elements=st.integers(2, 9),
)
def test_random_pipelines_of_generators_give_the_same(steps, size, elements):
    data = made_by(lambda: iter(range(size)), tf.TensorSpec((), tf.int64))
    for step in steps:
        data = step(data)
    original = read_pipeline(data)
    assume(not draws_ahead(original) and not shuffles_nothing(original))
    expected = passes(with_deterministic_order(create_seeded_copy(original, 9)))
    assume(not fails_by_fusion(with_deterministic_order(create_seeded_copy(original, 9)), expected))
    try:
        edited = apply_edit(
            create_seeded_copy(original, 9), edit_of(create_seeded_copy(original, 9), elements)
        )
    except EditRefused:
        assume(False)
    most = 1 if repeats_ahead(original) else len(expected)
    assert passes(with_deterministic_order(edited))[:most] == expected[:most]
