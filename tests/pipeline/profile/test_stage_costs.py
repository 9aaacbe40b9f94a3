from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import behind_unknown, by_decree, epochs, measured
from pipeline.transforms.test_apply import noisy, words
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile import alternatives as other_forms
from uncork.pipeline.profile.cache_points import _sizes
from uncork.pipeline.profile.handoff import IsolatedProbe, create_isolated_probe
from uncork.pipeline.profile.isolated_timing import isolated_cost
from uncork.pipeline.profile.probes import (
    Probe,
    count_elements,
    inputs_per_output,
    run_serially,
    serial_copy,
)
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pipeline.profile.throughput import SupplyRate, measure_supply

RANGE = tf.data.Dataset.range


def test_every_field_of_a_photo_pipeline(photos):
    source, shuffle, mapped, batch = measured(photos)
    assert [s.kind for s in (source, shuffle, mapped, batch)] == [
        "from_tensor_slices", "shuffle", "map", "batch",
    ]  # fmt: skip
    assert [s.elements_per_step for s in (source, shuffle, mapped, batch)] == [4, 4, 4, 1]
    assert [s.ratio for s in (source, shuffle, mapped, batch)] == [None, 1, 1, 4]
    assert [s.is_random for s in (source, shuffle, mapped, batch)] == [False, True, True, False]
    assert mapped.cpu_s_per_element > 0
    assert mapped.wall_s_per_element > 0
    assert mapped.bytes_per_element == 16 * 16 * 3 * 4 + 4
    assert batch.bytes_per_element == 4 * mapped.bytes_per_element
    assert mapped.deterministic_prefix.op_count >= 3
    assert mapped.deterministic_prefix.bytes_per_element == mapped.bytes_per_element
    assert 0 < mapped.deterministic_prefix.cpu_s_per_element <= mapped.cpu_s_per_element
    assert mapped.cache_point.element_count == 12
    assert mapped.cache_point.memory_bytes == 12 * (mapped.bytes_per_element + 2 * 185)
    assert mapped.cache_point.placed_before == ("shuffle",)
    assert mapped.cache_point.saved_cpu_s_per_step > 0
    assert mapped.name == "load_and_flip"
    assert mapped.at == batch.at
    assert batch.cache_point is None


def test_a_parallel_map_is_timed_without_running_ahead():
    """What runs between two pulls would be counted as another stage's."""
    calls = []
    ran = lambda x: tf.py_function(lambda v: calls.append(1) or v, [x], tf.int64)  # noqa: E731
    root = read_pipeline(RANGE(100).map(ran, num_parallel_calls=2)).root
    pulled = iter(run_serially(serial_copy(root, [RANGE(100)])))
    next(pulled)
    time.sleep(0.05)
    assert len(calls) == 1


def heavy(x):
    y = tf.cast(x, tf.float32) + tf.random.stateless_normal([60, 60], [1, 2])
    return tf.linalg.matmul(tf.linalg.matmul(y, y), y)


def heaviest(x):
    """Some hundred times the work of an addition, so that no noise turns their order round."""
    y = tf.random.stateless_normal([300, 300], [1, 2])
    return tf.cast(x, tf.float32) + tf.reduce_sum(y @ y @ y)


def test_the_heavy_stage_stands_out():
    data = RANGE(64).map(lambda x: x + 1).map(heaviest, num_parallel_calls=2).prefetch(2).batch(4)
    light, costly = measured(data)[1:3]
    assert costly.cpu_s_per_element > light.cpu_s_per_element
    assert costly.parallelism == 2


@pytest.mark.parametrize(
    ("given", "shown"), [({}, tf.data.AUTOTUNE), ({"num_parallel_calls": 1}, 1)]
)
def test_tensorflow_makes_a_map_parallel_unless_it_was_told_a_number(given, shown):
    assert by_decree(RANGE(8).map(heavy, **given))[1].parallelism == shown


def test_a_deterministic_map_has_a_cache_point_and_no_prefix():
    mapped = by_decree(RANGE(40).map(heavy).batch(4))[1]
    assert mapped.deterministic_prefix is None
    assert mapped.cache_point.element_count == 40


def test_a_cached_pipeline_needs_no_second_cache():
    data = RANGE(40).map(heavy).cache().shuffle(8).batch(4)
    found = by_decree(data)
    assert [s.elements_per_step for s in found] == [0, 0, 4, 4, 1]
    assert all(s.cache_point is None for s in found[:4])


@pytest.mark.deep
def test_costly_work_above_a_cache_is_worth_another():
    found = measured(RANGE(40).cache().map(heavy).batch(4))
    assert found[2].cache_point.saved_cpu_s_per_step > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.data.Dataset.counter().map(heavy),
        lambda: RANGE(40).map(lambda x: tf.py_function(lambda v: v, [x], tf.int64)),
        lambda: RANGE(40).map(heavy).take(7),
        lambda: RANGE(40).map(heavy, 2, deterministic=False).batch(4).map(heavy).take(3),
        lambda: RANGE(40).map(lambda x: x + tf.random.uniform([], 0, 5, tf.int64)),
    ],
)
def test_no_cache_point(make):
    assert by_decree(make())[1].cache_point is None


def test_a_cache_goes_where_all_is_read():
    found = by_decree(RANGE(40).map(heavy).take(7).batch(4))
    assert found[1].cache_point is None
    assert found[2].cache_point.element_count == 7


def test_ratios_of_a_filter_are_counted():
    found = by_decree(RANGE(400).filter(lambda x: x % 4 == 0).batch(4))
    assert found[1].ratio is None
    assert found[0].elements_per_step == pytest.approx(16)


def test_records_of_files_are_counted(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for index in range(20):
            writer.write(str(index).encode() * 100)
    data = tf.data.TFRecordDataset([path]).map(lambda s: heavy(tf.strings.length(s))).batch(4)
    files, records, mapped, _ = by_decree(data)
    assert records.kind == "tfrecord"
    assert files.elements_per_step == pytest.approx(4 / 20)
    assert mapped.cache_point.element_count == 20


@pytest.mark.parametrize(
    "reader",
    [tf.data.TextLineDataset, lambda files: tf.data.FixedLengthRecordDataset(files, 5)],
)
def test_lines_of_files_are_counted_likewise(tmp_path, reader):
    """Nobody opens a file for each line."""
    (tmp_path / "lines.txt").write_text("line\n" * 20)
    data = reader([str(tmp_path / "lines.txt")]).map(tf.strings.length).batch(4)
    files, lines, _, _ = by_decree(data)
    assert lines.kind in ("text_line", "fixed_length_record")
    assert files.elements_per_step == pytest.approx(4 / 20)


@pytest.mark.deep
def test_batches_that_would_fill_the_memory_are_not_tried(monkeypatch):
    rows = tf.data.Dataset.from_tensors(tf.zeros([1000, 1000])).repeat(8)
    summed = rows.map(tf.reduce_sum).batch(4)
    assert measured(summed)[-2].vectorized_cost is not None
    monkeypatch.setattr(other_forms, "available_memory_bytes", lambda: 4 * 4_000_000)
    assert measured(summed)[-2].vectorized_cost is None


def test_what_takes_long_to_make_is_counted_before_it_is_made(tmp_path):
    def slow(line):
        row = tf.fill([500, 500], tf.cast(tf.strings.length(line), tf.float32))
        for _ in range(4):
            row = row @ row
        return row[0, 0]

    path = tmp_path / "lines.txt"
    path.write_text("line\n" * 2_000)
    lines = tf.data.TextLineDataset(str(path))
    pipeline = read_pipeline(lines.map(slow).padded_batch(8))
    # Making them takes half a minute, reading the lines a millisecond, and there is a second.
    assert count_elements(pipeline.dataset, budget_s=0.5) is None
    found = by_decree(pipeline.dataset, batch_size=8, seconds=8.0)
    assert [s.cache_point.element_count for s in found if s.cache_point] == [2_000, 2_000, 250]


def test_python_and_unknown_classes_are_marked():
    data = tf.data.Dataset.from_generator(
        lambda: iter(range(9)), output_signature=tf.TensorSpec([], tf.int32)
    )
    source, mapped = by_decree(data.map(lambda x: tf.numpy_function(lambda v: v, [x], tf.int32)))
    assert source.has_python_code
    assert mapped.has_python_code
    assert by_decree(behind_unknown(RANGE(4)).map(lambda x: x))[0].is_opaque


def test_empty_and_corrupt_data_give_no_figures_but_no_failure(jpegs):
    assert all(s.bytes_per_element is None for s in measured(RANGE(0).map(words).batch(2)))
    data = tf.data.Dataset.from_tensor_slices([b"no jpeg"] * 20).map(tf.io.decode_jpeg)
    found = measured(data)
    assert found[0].cpu_s_per_element > 0
    assert found[1].cpu_s_per_element is None


def test_dictionaries_ragged_and_sparse_elements_are_measured():
    def function(x):
        return {"r": tf.ragged.range(tf.stack([x, 2])), "s": tf.sparse.from_dense([[x]]), "t": "ab"}

    found = measured(RANGE(20).map(function).batch(4))
    assert found[-1].bytes_per_element > 0
    assert found[1].cpu_s_per_element > 0


def test_measuring_leaves_the_users_pipeline_as_it_was():
    generator = tf.random.Generator.from_seed(5)

    def make():
        return RANGE(20).shuffle(20, seed=4).map(lambda x: (noisy(x), generator.uniform([])))

    before = generator.state.numpy().tolist()
    data = make()
    measured(data)
    assert generator.state.numpy().tolist() == before
    order = [int(x) for x in read_pipeline(data).stages[1].dataset]
    assert order == [int(x) for x in read_pipeline(make()).stages[1].dataset]


def test_a_file_cache_is_not_written_by_measuring(tmp_path):
    measured(RANGE(20).map(words).cache(str(tmp_path / "mine")).batch(4))
    assert list(tmp_path.iterdir()) == []


def test_a_complete_file_cache_is_read_and_worth_one_in_memory(tmp_path):
    data = RANGE(40).map(heavy).cache(str(tmp_path / "kept")).batch(4)
    before = measured(data)
    assert [s.is_file_cache for s in before] == [False, False, False, False]
    assert before[2].cache_point is None
    list(data)
    files = {p: p.read_bytes() for p in tmp_path.iterdir()}
    found = measured(data)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == files
    assert [s.is_file_cache for s in found] == [False, False, True, False]
    assert [s.elements_per_step for s in found] == [0, 0, 4, 1]
    assert found[2].cpu_s_per_element > 0
    assert found[2].cache_point.element_count == 40
    assert found[2].cache_point.memory_bytes == 40 * (60 * 60 * 4 + 185)


def test_supply_counts_batches():
    found = measure_supply(RANGE(100).map(words).batch(10), budget_s=0.3)
    assert found.batches_per_s > 0
    assert found.cpu_s_per_batch > 0
    assert np.isfinite(found.batches_per_s)


@pytest.mark.parametrize("data", [RANGE(100).map(words).batch(10), RANGE(1)])
def test_two_batches_are_waited_for_however_long_they_take(data):
    found = measure_supply(data, budget_s=0.0)
    assert found.batches_per_s > 0
    assert found.cpu_s_per_batch > 0


def test_supply_of_nothing_is_nothing():
    assert measure_supply(RANGE(0), budget_s=0.1) == SupplyRate(0.0)


def test_supply_survives_a_corrupt_element():
    data = tf.data.Dataset.from_tensor_slices([b"no jpeg"] * 3).map(tf.io.decode_jpeg)
    assert measure_supply(data, budget_s=0.1) == SupplyRate(0.0)


def test_measuring_fills_and_keeps_the_users_cache():
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    data = RANGE(5).map(lambda x: tf.py_function(note, [x], tf.int64)).cache().batch(2)
    measured(data)
    calls.clear()
    assert epochs(data)[0].is_complete
    assert calls == []


def parsed(line):
    return tf.io.decode_csv(line, [0.0] * 4)


def csv_lines(rows=400):
    return tf.data.Dataset.from_tensor_slices(["1,2,3,4"] * rows)


@pytest.mark.deep
def test_a_map_is_measured_as_it_would_be_behind_the_batch():
    (_, mapped, _) = measured(csv_lines().map(parsed).batch(200))
    assert mapped.vectorized_cost.batch_size == 200
    assert 0 < mapped.vectorized_cost.cpu_s_per_element < mapped.cpu_s_per_element / 2


@pytest.mark.deep
def test_several_maps_are_measured_so_as_far_as_they_can_be():
    data = csv_lines().map(parsed).map(lambda *x: tf.stack(x)).batch(50)
    assert [s.vectorized_cost is not None for s in measured(data)] == [False, True, True, False]
    data = csv_lines().map(parsed).map(lambda *x: tf.stack(x) * tf.random.uniform([])).batch(50)
    assert [s.vectorized_cost is not None for s in measured(data)] == [False, False, False, False]


def test_a_shuffle_says_what_it_holds_and_what_it_could_hold():
    shuffle = by_decree(csv_lines(90).map(parsed).shuffle(30).batch(5))[2]
    assert (
        shuffle.shuffle_buffer.element_count,
        shuffle.shuffle_buffer.elements_per_pass,
        shuffle.shuffle_buffer.movable_maps,
    ) == (30, 90, (1,))
    assert shuffle.shuffle_buffer.bytes_per_element == len("1,2,3,4")
    assert shuffle.bytes_per_element == 16


def test_a_pass_that_is_left_early_gives_less_than_the_shuffle_holds():
    data = csv_lines(90).map(parsed).shuffle(90).batch(5).take(4)
    given = by_decree(data)[2].shuffle_buffer
    assert (given.element_count, given.elements_per_pass) == (90, 20)
    endless = csv_lines(90).repeat().map(parsed).shuffle(200).batch(5).take(4)
    given = by_decree(endless, seconds=8.0)[3].shuffle_buffer
    assert (given.element_count, given.elements_per_pass) == (200, 20)


@pytest.mark.parametrize(
    "data",
    [
        csv_lines().shuffle(30),
        csv_lines().map(lambda x: (x, tf.random.uniform([]))).shuffle(30),
        csv_lines().map(parsed).repeat().shuffle(30),
        csv_lines().map(parsed).cache().shuffle(30),
        csv_lines().map(parsed).shuffle(30).repeat(2),
    ],
)
def test_a_shuffle_that_need_not_wait_for_anything_else_is_left_alone(data):
    assert all(stage.shuffle_buffer is None for stage in by_decree(data))


@pytest.mark.parametrize("elements", [0, 1, 31, 32, 33, 100])
def test_elements_are_counted(elements):
    data = RANGE(elements).map(lambda x: {"a": x, "b": (x, x)})
    assert count_elements(data, budget_s=60) == elements


def test_where_the_first_inputs_are_dropped_more_are_tried():
    below = tf.data.Dataset.range(2_000)
    kept = read_pipeline(below.filter(lambda x: x >= 1_000)).root
    assert inputs_per_output(kept, below) == 2.0


def test_where_few_of_the_first_pass_more_are_tried():
    """Sorted by what is chosen, the first ones tell little."""
    below = tf.data.Dataset.range(2_000)
    kept = read_pipeline(below.filter(lambda x: (x < 3) | (x >= 1_000))).root
    assert inputs_per_output(kept, below, budget_s=60.0) == 2_000 / 1_003


@pytest.mark.parametrize(("size", "elements"), [(1_024, 150), (100, 100), (32, 32)])
def test_a_batch_takes_no_more_than_there_is(size, elements):
    stages = by_decree(RANGE(150).map(lambda x: x + 1).batch(size), batch_size=size)
    assert [stage.elements_per_step for stage in stages] == [elements, elements, 1]


@pytest.mark.parametrize(("length", "expected"), [(10_000, 64), (300, 300 / 7)])
def test_windows_that_are_not_full_at_the_end_do_not_count(length, expected):
    """300 elements fill seven windows of 64 each a little, or whatever there is."""
    below = tf.data.Dataset.range(length)
    bucketed = read_pipeline(
        below.group_by_window(lambda x: x % 7, lambda _, window: window.batch(64), window_size=64)
    ).root
    assert inputs_per_output(bucketed, below) == pytest.approx(expected, rel=0.1)


@pytest.mark.deep
def test_handing_on_is_timed_without_what_stands_below():
    """However long the map takes, and in whichever mood TensorFlow's threads are."""
    shuffled = RANGE(5_000).map(heaviest).shuffle(50).batch(32)
    _, slow_map, shuffle, batch = measured(shuffled, batch_size=32)
    assert shuffle.cpu_s_per_element < slow_map.cpu_s_per_element / 10
    assert batch.cpu_s_per_element < 32 * slow_map.cpu_s_per_element / 10


@pytest.mark.deep
def test_a_quick_map_below_makes_no_shuffle_seem_dear():
    """Handing its calls to another thread takes several times as long as they do.

    It takes so long, or not, by what is read above it; a map above another one seemed to cost
    nothing.
    """
    lines = RANGE(5_000).map(tf.strings.as_string).map(lambda x: tf.io.decode_csv(x, [0]))
    _, text, number, shuffle, batch = measured(lines.shuffle(50).batch(32), batch_size=32)
    maps_s = text.cpu_s_per_element + number.cpu_s_per_element  # either may have the other's cost
    assert shuffle.cpu_s_per_element < maps_s
    assert batch.cpu_s_per_step < 32 * maps_s
    assert text.inlined_cost is not None
    assert number.inlined_cost is not None


@pytest.mark.parametrize(("whole", "costs"), [(300e-6, 200e-6), (90e-6, 80e-6)])
def test_a_map_that_seems_to_cost_nothing_is_timed_by_itself(whole, costs):
    """By decree: 100 us below it, 80 us by itself; a difference that is one counts."""

    def probe(cpu_s):
        return Probe(RANGE(1), cpu_s=[cpu_s], wall_s=[cpu_s])

    place = read_pipeline(RANGE(1).map(heavy)).stage_locations[1]
    stage = StageMeasurement(
        index=1,
        first_index=0,
        location=place,
        input_stages=(),
        dataset=RANGE(1),
        probe=probe(whole),
    )
    stage.isolated_probe = IsolatedProbe(probe(10e-6), probe(90e-6), input_ratio=1.0)
    found = isolated_cost(stage, 100e-6)
    assert (whole - 100e-6 if found is None else found[0]) == pytest.approx(costs)


def test_few_large_elements_are_kept_in_memory_for_timing():
    made = []

    def large(number):
        made.append(int(number))
        return np.zeros(2**22, np.float32)

    below = RANGE(50).map(
        lambda x: tf.ensure_shape(tf.numpy_function(large, [x], tf.float32), [2**22])
    )
    assert (
        create_isolated_probe(read_pipeline(below.map(lambda x: x[0])).root, below, budget_s=60.0)
        is not None
    )
    assert len(set(made)) == 3


def test_one_element_is_enough_where_time_is_short():
    """A buffer of 50 of which a tenth passes takes longer to fill than there is time for it."""
    wanted = RANGE(50_000).map(lambda x: (x, heavy(x))).filter(lambda n, x: n % 10 == 0)
    batch = read_pipeline(wanted.shuffle(50).batch(32)).root
    assert create_isolated_probe(batch, wanted, budget_s=0.0) is not None
    renamed = wanted.shuffle(50).batch(32).map(lambda n, x: {"x": x, "y": n % 2})
    *_, made, _filter, shuffle, batch, last = measured(renamed, batch_size=32, seconds=0.5)
    for stage in (shuffle, batch, last):
        assert (stage.cpu_s_per_step or 0.0) < made.cpu_s_per_step / 4


@pytest.mark.parametrize(
    "below",
    [RANGE(0), RANGE(9).map(lambda x: tf.gather(tf.range(2), x + 2))],
    ids=["nothing", "an error"],
)
def test_where_no_elements_are_there_the_difference_counts(below):
    assert create_isolated_probe(read_pipeline(below.batch(4)).root, below, budget_s=1.0) is None


def test_inputs_of_unknown_number_are_counted():
    below = tf.data.Dataset.range(60).filter(lambda x: x >= 0)
    kept = read_pipeline(below.filter(lambda x: x % 2 == 0)).root
    assert inputs_per_output(kept, below) == 2.0


@pytest.mark.parametrize(("elements", "costs"), [(1_000, 0.0), (3, 0.01)])
def test_a_cache_that_was_not_filled_costs_what_stands_below_it(monkeypatch, elements, costs):
    """By decree both take as long; of one that was filled, nothing below it ran."""

    def slow(x):
        return tf.numpy_function(lambda y: (time.sleep(0.01), y)[1], [x], tf.int64)

    def turn(probe):
        probe.cpu_s.append(0.01)
        probe.wall_s.append(0.01)

    monkeypatch.setattr(Probe, "time_group", turn)
    data = tf.data.Dataset.range(elements).map(slow).cache()
    *_, mapped, cache = measured(data, batch_size=None, seconds=8.0 if costs else 0.5)
    assert mapped.cpu_s_per_step == 0
    assert cache.wall_s_per_element == costs


def test_counting_ends_with_its_time_or_an_error():
    assert count_elements(RANGE(5).repeat(), budget_s=0.01) is None
    assert (
        count_elements(
            RANGE(5).map(lambda x: tf.debugging.check_numerics(1 / (x - 3), "")), budget_s=9
        )
        is None
    )


@pytest.mark.deep
def test_what_a_lone_call_costs_more_than_several_is_measured_where_calls_are_alone():
    def pieces(x):
        text = tf.strings.as_string(tf.range(x, x + 50))
        return tf.strings.to_hash_bucket_fast(tf.strings.bytes_split(text).flat_values, 10)

    alone = measured(RANGE(64).map(pieces, num_parallel_calls=1))[1]
    assert alone.multithreading_cpu_s_per_element is not None
    assert alone.multithreading_cpu_s_per_element >= 0
    together = measured(RANGE(64).map(pieces, num_parallel_calls=2))[1]
    assert together.multithreading_cpu_s_per_element is None


def test_what_a_cache_takes_is_reckoned_from_all_over_the_data():
    """The first elements may be the short ones: files sorted by class, texts by length."""
    lengths = tf.data.Dataset.from_tensor_slices(np.repeat([1, 1000], 200))
    data = lengths.map(lambda n: tf.sqrt(tf.random.stateless_uniform([n], [1, 2]))).batch(1)
    (point,) = [s.cache_point for s in by_decree(data) if s.kind == "map"]
    assert point is not None
    assert point.memory_bytes == pytest.approx(400 * (500 * 4 + 185), rel=0.1)


@pytest.mark.parametrize(
    ("element", "tensors"),
    [
        (lambda x: (tf.ones([x % 3]), None), 1),
        (lambda x: tf.RaggedTensor.from_row_lengths(tf.ones([x]), [x]), 2),
        (lambda x: tf.sparse.from_dense(tf.ones([x])), 3),
    ],
)
def test_elements_with_parts_that_have_no_shape_are_counted(element, tensors):
    """Nothing at all, and what is made of several tensors."""
    root = read_pipeline(RANGE(9).map(element)).root
    assert _sizes(root, 8, 9) == (8, tensors * 185)


def test_where_nothing_comes_for_long_no_more_are_tried(monkeypatch):
    module = sys.modules["uncork.pipeline.profile.probes"]
    counted, now = [], iter(range(1_000))
    monkeypatch.setattr(
        module, "count_elements", lambda dataset, *, budget_s: counted.append(1) or 0
    )
    clock = SimpleNamespace(monotonic=lambda: float(next(now)))  # a second later each time
    monkeypatch.setattr(module, "time", clock)
    below = tf.data.Dataset.range(9)
    assert inputs_per_output(read_pipeline(below.filter(lambda x: x < 0)).root, below) is None
    assert len(counted) == 1


@pytest.mark.parametrize(
    ("most", "kept", "expected"),
    [
        (1 << 20, 1.0, 1.0),  # all in time
        (64, 0.5, 2.0),  # 128 take too long, 16 do not
        (64, 0.0, None),  # ... and none of these is kept: more would take too long again
        (8, 0.5, 2.0),
        (1, 0.5, None),  # of a single one nobody can tell
    ],
)
def test_of_a_filter_above_slow_maps_fewer_are_counted(monkeypatch, most, kept, expected):
    module = sys.modules["uncork.pipeline.profile.probes"]
    asked = []

    def counted(dataset, *, budget_s):
        inputs = int(dataset.cardinality())
        if inputs < 0:  # behind the filter
            inputs = asked[-1]
            return None if inputs > most else int(kept * inputs)
        return inputs

    def taken(node, inputs):
        asked.append(int(inputs[0].cardinality()))
        return node

    monkeypatch.setattr(module, "count_elements", counted)
    monkeypatch.setattr(module, "rebuild", taken)
    monkeypatch.setattr(module, "run_serially", lambda dataset: dataset)
    below = tf.data.Dataset.range(1 << 30)
    node = read_pipeline(below.filter(lambda x: x % 2 == 0)).root
    assert inputs_per_output(node, below) == expected
    assert len(asked) < 8
