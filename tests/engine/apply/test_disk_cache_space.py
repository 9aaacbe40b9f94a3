"""A cache in files when its training comes: with room, without, and read by two at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from records import STEPS, WORKLOAD, plan, stage, workload_diagnosis
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import Cache, DiskCache, Prefetch
from uncork.engine.apply.disk_cache_space import disk_cache_error_hint, planned_dataset
from uncork.engine.apply.memory_budget import has_cache
from uncork.engine.apply.plan_listener import PlanListener
from uncork.pipeline.ir.cache_files import remove_process_folder
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.variant import Variant

KEPT = next(step for step in STEPS if step.outcome == "kept")


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    yield str(tmp_path)
    remove_process_folder(str(tmp_path))
    assert not list(tmp_path.iterdir())


def numbers(count: int = 6) -> tf.data.Dataset:
    return (
        tf.data.Dataset.from_tensor_slices(np.arange(count))
        .map(lambda x: x * 2)
        .shuffle(6, seed=4)
        .batch(2)
    )


def planned(folder: str, size: int = 0, **workload: Any) -> Plan:
    """Of edits of which each expects what the one before left."""
    edits = DiskCache(stage=1, expected_digest="", folder=folder), Prefetch(expected_digest="")
    found = Variant(read_pipeline(numbers())).with_pipeline_edits(edits).pipeline_edits
    edits = tuple(replace(e, size_bytes=size) if isinstance(e, DiskCache) else e for e in found)
    lengths = [
        stage(i, kind, length=6) for i, kind in enumerate(("from_tensor_slices", "map", "shuffle"))
    ]
    before = workload_diagnosis(
        workload=replace(WORKLOAD, pipeline_digest=read_pipeline(numbers()).digest, **workload),
        stages=(*lengths, stage(3, "batch", length=3)),
    )
    return plan(before=before, steps=(replace(KEPT, edits=edits),))


def elements(dataset: Any) -> list[list[int]]:
    return [x.tolist() for x in dataset.as_numpy_iterator()]


def kinds(dataset: Any) -> list[str]:
    return [node.kind for node in read_pipeline(dataset).stages]


def test_where_there_is_room_it_is_as_planned(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned_dataset(planned(folder), read_pipeline(numbers()), "train.py:9", strict=False)
    assert kinds(found) == ["from_tensor_slices", "map", "cache", "shuffle", "batch", "prefetch"]
    expected = numbers()
    assert [elements(found) for _ in range(2)] == [elements(expected) for _ in range(2)]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("gone", [False, True])
def test_without_room_it_trains_without_and_says_so(
    folder: str, gone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    made = planned(folder, 10**15)
    if gone:
        steps = (replace(KEPT, edits=tuple(_moved(e, folder + "/none") for e in made.edits)),)
        made = replace(made, steps=steps)
    found = planned_dataset(made, read_pipeline(numbers()), "train.py:9", strict=False)
    assert kinds(found) == ["from_tensor_slices", "map", "options", "shuffle", "batch", "prefetch"]
    expected = numbers()
    assert [elements(found) for _ in range(2)] == [elements(expected) for _ in range(2)]
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "train.py:9 trains without its disk cache" in told
    assert folder in told
    assert "--disk-cache DIR" in told
    assert ("No such file" if gone else "1.1e+06 GB") in told
    with pytest.raises(EditRefused):
        planned_dataset(made, read_pipeline(numbers()), "train.py:9", strict=True)


def _moved(edit: Any, folder: str) -> Any:
    return replace(edit, folder=folder) if isinstance(edit, DiskCache) else edit


def test_more_data_than_the_plan_was_made_with_needs_more_room(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = planned(folder, 10**9)
    planned_dataset(made, read_pipeline(numbers()), "train.py:9", strict=False)
    assert capsys.readouterr().err == ""
    planned_dataset(made, read_pipeline(numbers(600_000)), "train.py:9", strict=False)
    assert "needs 1.1e+05 GB" in capsys.readouterr().err


def test_less_data_than_the_plan_was_made_with_needs_less_room(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """There would be none for as much as it was made with."""
    made = planned(folder, 6 * 10**17)
    lengths = [replace(s, length=(s.length or 1) * 10**12) for s in made.before.stages]
    made = replace(made, before=replace(made.before, stages=tuple(lengths)))
    found = planned_dataset(made, read_pipeline(numbers()), "train.py:9", strict=True)
    assert kinds(found).count("cache") == 1
    assert capsys.readouterr().err == ""


def test_in_a_loop_a_second_reader_of_the_first_pass_reads_without(folder: str) -> None:
    """TensorFlow would end its pass with an error."""
    running, ours = PlanListener(planned(folder, kind="custom_loop"), strict=True), numbers(600)
    edited = running.dataset(ours, "train.py:3")
    first = iter(edited)
    beside = running.dataset(ours, "train.py:5")
    assert "cache" not in kinds(beside)
    del edited
    assert len(elements(beside)) == 300
    assert len(list(first)) == 300
    again = running.dataset(ours, "train.py:3")
    assert "cache" in kinds(again)
    assert running.dataset(ours, "train.py:5") is again
    assert len(elements(again)) == 300


def test_two_readers_of_one_loop_are_read_side_by_side(folder: str) -> None:
    running, ours = PlanListener(planned(folder, kind="custom_loop"), strict=True), numbers(600)
    both = zip(*(iter(running.dataset(ours, "train.py:3")) for _ in range(2)), strict=True)
    assert len(list(both)) == 300


def test_a_look_at_the_first_batch_does_not_keep_the_files_from_the_loop(folder: str) -> None:
    running, ours = PlanListener(planned(folder, kind="custom_loop"), strict=True), numbers(600)
    next(iter(running.dataset(ours, "train.py:2")))
    edited = running.dataset(ours, "train.py:3")
    assert "cache" in kinds(edited)
    assert len(elements(edited)) == 300


def test_an_error_of_its_files_is_told(folder: str) -> None:
    made = planned(folder, 2 * 10**9)
    error = OSError(f"{folder}/.uncork-cache-a1/0/cache_0.data-00000-of-00001; No space left")
    assert f"in {folder}: it needs about 2 GB there; free disk space" in disk_cache_error_hint(
        made, error
    )
    assert disk_cache_error_hint(made, OSError("No space left on device")) == ""
    assert disk_cache_error_hint(made, None) == ""


def test_it_keeps_something_from_one_pass_to_the_next(folder: str) -> None:
    assert has_cache(planned(folder))
    assert not any(isinstance(edit, Cache) for edit in planned(folder).edits)
