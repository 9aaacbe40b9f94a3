"""Elements kept in files of the process's own: the same ones, in order, and nothing left."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.conftest import load_and_flip
from pipeline.helpers import epochs, kinds
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import Cache, DiskCache, SplitMap
from uncork.pipeline.equivalence.seeded_twin import seeded
from uncork.pipeline.ir.cache_files import leave
from uncork.pipeline.ir.tree import read
from uncork.pipeline.transforms.apply import apply
from uncork.pipeline.transforms.disk_cache import (
    files_complete,
    fill,
    from_disk,
    without_place_holders,
)

RANGE = tf.data.Dataset.range


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = tmp_path / "on disk"
    path.mkdir()
    yield str(path)
    leave(str(path))
    assert not list(path.iterdir())


def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, [16, 16]), label


def decoded(jpegs):
    return tf.data.Dataset.from_tensor_slices((jpegs, list(range(len(jpegs))))).map(decode)


def kept(pipeline, folder, *stages):
    """As the road edits it: a place after each of these stages."""
    for edit in stages:
        expecting = replace(edit, expects=pipeline.digest)
        if isinstance(edit, DiskCache):
            expecting = replace(expecting, folder=folder)
        pipeline = apply(pipeline, expecting)
    return pipeline


def files_in(folder):
    return sorted(path.name for path in Path(folder).rglob("cache*"))


def test_photos_are_the_same_in_both_epochs(folder, jpegs):
    data = decoded(jpegs).batch(4)
    found = kept(read(data), folder, DiskCache(stage=1, expects=""))
    assert kinds(found) == ["from_tensor_slices", "map", "cache", "batch"]
    assert not files_in(folder), "nothing is written before it is read"
    assert epochs(found.dataset) == epochs(data)
    assert "cache.index" in files_in(folder)


def test_the_second_epoch_reads_the_files(folder, jpegs):
    found = kept(read(decoded(jpegs)), folder, DiskCache(stage=1, expects=""))
    first = epochs(found.dataset, passes=1)
    for path in jpegs:
        Path(path).unlink()
    assert epochs(found.dataset, passes=1) == first
    from_disk(found)  # what the system remembers of them is dropped, and they are there still
    assert epochs(found.dataset, passes=1) == first


@pytest.mark.parametrize("times", [1, 2])
def test_a_shuffle_above_keeps_its_order(folder, jpegs, times):
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(12))))
    data = data.shuffle(12, seed=3).repeat(times).map(decode).batch(5)
    found = kept(read(data), folder, DiskCache(stage=3, expects=""))
    assert kinds(found)[:3] == ["from_tensor_slices", "map", "cache"]
    assert epochs(found.dataset) == epochs(data)


def test_a_random_map_is_split_first(folder, photos):
    original = seeded(read(photos), 9)
    edits = SplitMap(stage=2, expects=""), DiskCache(stage=2, expects="")
    found = kept(original, folder, *edits)
    assert kinds(found) == ["from_tensor_slices", "map", "cache", "shuffle", "map", "batch"]
    first, second = epochs(found.dataset)
    assert [first, second] == list(epochs(seeded(read(photos), 9).dataset))
    assert first != second


def test_what_draws_is_refused(folder, jpegs):
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(12)))).map(load_and_flip)
    with pytest.raises(EditRefused, match="would freeze"):
        kept(read(data), folder, DiskCache(stage=1, expects=""))


def test_a_part_that_several_branches_read_is_refused(folder):
    """The second reader of a first pass would end in an error of TensorFlow's."""
    numbers = RANGE(6).map(lambda x: x + 1)
    both = read(tf.data.Dataset.zip(numbers, numbers.batch(2).unbatch()))
    with pytest.raises(EditRefused, match="2 branches read"):
        kept(both, folder, DiskCache(stage=1, expects=""))
    kept(both, folder, Cache(stage=1, expects=""))


def test_files_go_with_the_dataset(folder):
    found = kept(read(RANGE(6).map(lambda x: x + 1)), folder, DiskCache(stage=1, expects=""))
    assert len(epochs(found.dataset)) == 2
    assert files_in(folder)
    copy = read(seeded(found, 3).dataset.batch(2))
    del found
    gc.collect()
    assert files_in(folder), "a copy reads them still"
    assert epochs(copy.dataset)[1].complete
    del copy
    gc.collect()
    assert not files_in(folder)


def test_each_edit_has_files_of_its_own(folder):
    numbers = read(RANGE(6).map(lambda x: x + 1))
    one, other = (kept(numbers, folder, DiskCache(stage=1, expects="")) for _ in range(2))
    ours, theirs = iter(one.dataset), iter(other.dataset)
    assert int(next(ours)) == int(next(theirs)) == 1
    assert len(list(ours)) == len(list(theirs)) == 5
    assert files_complete(one)
    assert files_complete(other)


def test_a_pass_that_was_left_begins_anew(folder):
    found = kept(read(RANGE(6).map(lambda x: x + 1)), folder, DiskCache(stage=1, expects=""))
    some = iter(found.dataset)
    next(some)
    del some
    gc.collect()
    assert not files_complete(found)
    assert [int(x) for x in found.dataset] == [1, 2, 3, 4, 5, 6]


def test_without_a_folder_all_is_made_anew():
    """As where a plan finds no room: what follows the cache is applied all the same."""
    data = RANGE(6).map(lambda x: x + 1).shuffle(6, seed=1).batch(2)
    edited = kept(read(data), "", DiskCache(stage=1, expects=""), Cache(stage=0, expects=""))
    assert edited.digest == kept(edited, "").digest
    found = without_place_holders(edited)
    assert kinds(found) == ["range", "cache", "map", "options", "shuffle", "batch"]
    assert epochs(found.dataset) == epochs(data)


def test_what_a_cache_kept_apart_stays_apart():
    """TensorFlow would fuse the shuffle with the repeat, and draw otherwise."""
    data = RANGE(8).shuffle(8, seed=1, reshuffle_each_iteration=False).map(lambda x: x + 1)
    data = data.repeat(2)
    edited = kept(read(data), "", DiskCache(stage=2, expects=""))
    assert epochs(without_place_holders(edited).dataset) == epochs(data)


def test_no_room_is_told_with_figures(folder):
    with pytest.raises(EditRefused, match=r"needs 1.1e\+06 GB in .*on disk, .* GB are free"):
        kept(
            read(RANGE(6).map(lambda x: x + 1)),
            folder,
            DiskCache(stage=1, expects="", bytes=10**15),
        )


def test_full_files_may_be_read_by_several_at_once(folder, jpegs):
    data = decoded(jpegs).batch(4)
    found = kept(read(data), folder, DiskCache(stage=1, expects=""))
    fill(found)
    assert files_complete(found)
    together = tf.data.Dataset.zip(found.dataset, found.dataset)
    assert epochs(together.map(lambda a, b: a)) == epochs(data) == epochs(found.dataset)


def test_files_that_cannot_be_filled_are_refused_with_the_reason(folder, jpegs):
    broken = [*jpegs, str(Path(folder) / "no-such.jpg")]
    found = kept(read(decoded(broken)), folder, DiskCache(stage=1, expects=""))
    with pytest.raises(EditRefused, match=r"could not be filled in .*on disk: .*no-such\.jpg"):
        fill(found)
