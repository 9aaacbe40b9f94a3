"""Files that are gone through one after the other, and read side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.helpers import epochs, measured
from pipeline.transforms.test_interleave import asking_python, noisy, text_files
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import ReadAhead
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile.element_ratios import count_longest_input
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.read_ahead import count_sequential_inputs

RANGE = tf.data.Dataset.range
LINES = (7, 3, 0, 12, 5)


def ahead(data, stage, *, readers=2, elements=4):
    """Seeded twins of both are equal in two epochs."""
    before = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    pipeline = create_seeded_copy(read_pipeline(data), 5)
    expects = pipeline.digest
    edit = ReadAhead(
        stage=stage, expected_digest=expects, readers=readers, elements_per_reader=elements
    )
    after = apply_edit(pipeline, edit)
    assert epochs(after.dataset) == before
    assert after.element_spec == data.element_spec
    assert int(after.dataset.cardinality()) == int(data.cardinality())
    return after


@pytest.mark.parametrize("readers", [2, 3, 16])
@pytest.mark.parametrize("elements", [1, 4, 100])
def test_records_come_in_the_same_order(tmp_path, readers, elements):
    names = text_files(tmp_path, LINES, "GZIP")
    data = tf.data.TFRecordDataset(names, "GZIP").batch(4)
    after = ahead(data, 1, readers=readers, elements=elements)
    assert after.stages[1].kind == "interleave"
    assert after.stages[1].parallelism == min(readers, len(LINES))


def test_lines_and_records_of_fixed_length_too(tmp_path):
    names = [str(tmp_path / f"{number}.txt") for number in range(3)]
    for number, name in enumerate(names):
        Path(name).write_text("".join(f"{number}{line}\n" for line in range(5)))
    ahead(tf.data.TextLineDataset(names).skip(1), 1)
    ahead(tf.data.FixedLengthRecordDataset(names, 3).batch(2), 1)


@pytest.mark.parametrize(
    "data",
    [
        lambda files: files.flat_map(tf.data.TFRecordDataset).map(tf.strings.length),
        lambda files: files.interleave(tf.data.TFRecordDataset, cycle_length=1).batch(3),
        lambda files: files.interleave(tf.data.TFRecordDataset, 1, 4).shuffle(5, seed=1),
        lambda files: tf.data.TFRecordDataset(files).repeat(2).take(40),
    ],
)
def test_whatever_goes_through_files_in_turn(tmp_path, data):
    files = tf.data.Dataset.from_tensor_slices(text_files(tmp_path, LINES))
    ahead(data(files), 1)
    shuffled = data(files.shuffle(5, seed=3))
    ahead(shuffled, 2)


def test_a_length_that_nobody_knows_must_stay_unknown(tmp_path):
    """An interleave of endless inputs is known to be endless."""
    files = tf.data.Dataset.from_tensor_slices(text_files(tmp_path, LINES)).repeat()
    for reader in (
        files.interleave(tf.data.TFRecordDataset, cycle_length=1),
        tf.data.TFRecordDataset(files),
    ):
        pipeline = read_pipeline(reader.take(60))
        assert pipeline.cardinality == tf.data.UNKNOWN_CARDINALITY
        with pytest.raises(EditRefused, match="read ahead"):
            apply_edit(
                pipeline,
                ReadAhead(
                    stage=2, expected_digest=pipeline.digest, readers=2, elements_per_reader=9
                ),
            )


def test_elements_within_files_may_be_mapped(tmp_path):
    def reader(name):
        return tf.data.TFRecordDataset(name).map(tf.strings.length).batch(2).prefetch(1)

    ahead(tf.data.Dataset.from_tensor_slices(text_files(tmp_path)).flat_map(reader).unbatch(), 1)


@pytest.mark.parametrize("at", [0, 3])
def test_a_corrupt_record_fails_at_the_same_element(tmp_path, at):
    names = text_files(tmp_path)
    with Path(names[at]).open("r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff\xff")
    data = tf.data.TFRecordDataset(names)
    before, after = epochs(data), epochs(ahead(data, 1, readers=3, elements=100).dataset)
    assert before[0].error
    assert after[0] == before[0]


def test_a_file_that_is_gone_fails_at_the_same_element(tmp_path):
    names = text_files(tmp_path)
    data = tf.data.TFRecordDataset(names).batch(2)
    Path(names[3]).unlink()
    ahead(data, 1, readers=4, elements=100)


def test_where_errors_are_ignored_it_is_refused(tmp_path):
    pipeline = read_pipeline(tf.data.TFRecordDataset(text_files(tmp_path)).ignore_errors())
    with pytest.raises(EditRefused, match="ignored downstream"):
        apply_edit(
            pipeline,
            ReadAhead(stage=1, expected_digest=pipeline.digest, readers=2, elements_per_reader=9),
        )


@pytest.mark.parametrize(
    "data",
    [
        lambda: RANGE(1).flat_map(RANGE),
        lambda: RANGE(5).interleave(RANGE, cycle_length=2),
        lambda: RANGE(5).interleave(RANGE, cycle_length=1, num_parallel_calls=1).interleave(noisy),
        lambda: RANGE(5).flat_map(noisy),
        lambda: RANGE(5).flat_map(asking_python),
        lambda: RANGE(5).flat_map(lambda x: RANGE(x).shuffle(3)),
        lambda: RANGE(5).map(lambda x: x + 1),
        lambda: tf.data.Dataset.from_generator(lambda: range(5), tf.int64).map(lambda x: x),
        lambda: tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2),
        lambda: tf.data.TFRecordDataset("a"),
    ],
)
def test_what_could_come_otherwise_is_left_alone(data):
    pipeline = read_pipeline(data())
    top = len(pipeline.stage_locations) - 1
    assert count_sequential_inputs(pipeline.stage_locations[top].node) is None
    with pytest.raises(EditRefused, match="read ahead"):
        apply_edit(
            pipeline,
            ReadAhead(stage=top, expected_digest=pipeline.digest, readers=2, elements_per_reader=9),
        )


@pytest.mark.parametrize("edit", [{"readers": 1}, {"elements_per_reader": 0}])
def test_an_edit_that_reads_nothing_ahead_is_refused(edit):
    pipeline = read_pipeline(RANGE(5).flat_map(RANGE))
    given = {"readers": 2, "elements_per_reader": 9} | edit
    with pytest.raises(EditRefused, match="read ahead"):
        apply_edit(pipeline, ReadAhead(stage=1, expected_digest=pipeline.digest, **given))


def test_the_longer_of_the_first_two_is_counted(tmp_path):
    names = text_files(tmp_path, (7, 9, 30))
    node = read_pipeline(tf.data.TFRecordDataset(names)).root
    assert count_longest_input(node, node.inputs[0].dataset, 5.0) == 9
    assert count_longest_input(node, node.inputs[0].dataset, 0.0) is None
    Path(names[0]).write_bytes(b"no records at all" * 9)
    assert count_longest_input(node, node.inputs[0].dataset, 5.0) is None


def test_of_inputs_nobody_has_counted_there_may_be_many(tmp_path):
    names = tf.data.Dataset.from_tensor_slices(text_files(tmp_path, LINES))
    data = names.filter(lambda name: tf.strings.length(name) > 0).flat_map(tf.data.TFRecordDataset)
    assert count_sequential_inputs(read_pipeline(data).root) >= 64
    ahead(data, 2, readers=3)


def test_brief_inputs_are_not_told(tmp_path):
    """Windows, say, or elements that hold several rows."""
    windows = RANGE(4_000).window(5, shift=1).flat_map(lambda w: w.batch(5)).batch(4)
    rows = RANGE(400).batch(4).flat_map(tf.data.Dataset.from_tensor_slices).batch(4)
    for data in (windows, rows):
        assert {stage.max_input_elements for stage in measured(data)} == {None}


def test_it_is_told_of_stages_and_of_what_they_have_become(tmp_path):
    names = text_files(tmp_path, (9_000, 9_000, 9_000))
    data = tf.data.TFRecordDataset(names).batch(64)
    before = measured(data)
    assert [(stage.max_readers, stage.max_input_elements) for stage in before] == [
        (None, None), (3, 9_000), (None, None),
    ]  # fmt: skip
    after = measured(ahead(data, 1, elements=9_000).dataset)
    assert [(stage.kind, stage.max_readers, stage.parallelism) for stage in after][1] == (
        "interleave", None, 2,
    )  # fmt: skip
    assert after[1].cpu_s_per_element > 0
