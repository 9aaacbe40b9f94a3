from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.helpers import behind_unknown, by_decree, epochs
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import ParallelMap, Prefetch
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.trial_copy import redirect_files
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


@pytest.fixture
def trials(tmp_path: Path) -> Path:
    folder = tmp_path / "trials"
    folder.mkdir()
    return folder


def test_a_cache_is_written_elsewhere(tmp_path, trials):
    data = RANGE(6).map(lambda x: x + 1).cache(str(tmp_path / "mine")).batch(2)
    other = redirect_files(read_pipeline(data), trials)
    assert epochs(other.dataset)[0].is_complete
    assert list(tmp_path.iterdir()) == [trials]
    assert list(trials.rglob("cache.index"))
    assert other.digest == read_pipeline(data).digest


def test_a_complete_cache_is_only_read(tmp_path, trials):
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    data = RANGE(3).map(lambda x: tf.py_function(note, [x], tf.int64)).cache(str(tmp_path / "mine"))
    list(data)
    files = {p: p.read_bytes() for p in tmp_path.glob("mine*")}
    assert [int(x) for x in redirect_files(read_pipeline(data), trials).dataset] == [0, 1, 2]
    assert len(calls) == 3
    assert files
    assert {p: p.read_bytes() for p in tmp_path.glob("mine*")} == files
    assert not any(path.is_file() for path in trials.rglob("*")), "it may be as large as the disk"


@pytest.mark.parametrize("name", [b"caf\xe9", b"[1] mine"])
def test_a_cache_may_have_any_name(name, tmp_path, trials):
    path = bytes(tmp_path) + b"/" + name
    data = RANGE(3).cache(path)
    assert [int(x) for x in redirect_files(read_pipeline(data), trials).dataset] == [0, 1, 2]
    list(data)
    assert [int(x) for x in redirect_files(read_pipeline(data), trials).dataset] == [0, 1, 2]


def test_two_trials_do_not_meet(tmp_path, trials):
    data = RANGE(6).cache(str(tmp_path / "mine"))
    one, two = (iter(redirect_files(read_pipeline(data), trials).dataset) for _ in range(2))
    assert [int(next(one)), int(next(two)), int(next(one)), int(next(two))] == [0, 0, 1, 1]


def test_a_snapshot_is_written_elsewhere(tmp_path, trials):
    data = RANGE(6).snapshot(str(tmp_path / "mine"))
    other = redirect_files(read_pipeline(data), trials)
    assert sorted(int(x) for x in other.dataset) == list(range(6))
    assert not (tmp_path / "mine").exists()


def test_what_a_snapshot_keeps_stays_where_it_is_found(tmp_path):
    """TensorFlow finds it again by all that lies below: an edit there would write another one."""
    data = RANGE(6).map(lambda x: x + 1).snapshot(str(tmp_path / "mine")).map(lambda x: 2 * x)
    list(data)
    pipeline = read_pipeline(data)
    below, *_, last = (
        i for i, place in enumerate(pipeline.stage_locations) if place.node.kind == "map"
    )
    with pytest.raises(EditRefused, match="snapshot"):
        apply_edit(pipeline, ParallelMap(stage=below, expected_digest=pipeline.digest))
    above = apply_edit(pipeline, ParallelMap(stage=last, expected_digest=pipeline.digest))
    written = set(tmp_path.rglob("*"))
    assert sorted(int(x) for x in above.dataset) == [2 * x + 2 for x in range(6)]
    assert set(tmp_path.rglob("*")) == written


def test_below_a_snapshot_nothing_is_done_in_later_epochs(tmp_path):
    data = RANGE(6).map(lambda x: x + 1).snapshot(str(tmp_path / "mine")).map(lambda x: 2 * x)
    found = by_decree(data.batch(2))
    kept = next(i for i, stage in enumerate(found) if stage.kind == "snapshot")
    assert {stage.elements_per_step for stage in found[:kept]} == {0}
    assert [stage.elements_per_step for stage in found[-2:]] == [2, 1]


def test_a_memory_cache_and_the_rest_stay_as_they_are(trials):
    data = RANGE(6).cache().batch(2)
    assert redirect_files(read_pipeline(data), trials).dataset is data


def test_edits_fit_the_redirected_pipeline(tmp_path, trials):
    pipeline = read_pipeline(RANGE(6).cache(str(tmp_path / "mine")))
    apply_edit(redirect_files(pipeline, trials), Prefetch(expected_digest=pipeline.digest))


def test_what_writes_and_cannot_be_rebuilt_is_refused(tmp_path, trials):
    data = RANGE(6).cache(str(tmp_path / "mine"))
    with pytest.raises(EditRefused, match="_SleepDataset"):
        redirect_files(read_pipeline(behind_unknown(data)), trials)
