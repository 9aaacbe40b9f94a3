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
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.cache_files import remove_process_folder
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pipeline.transforms.disk_cache import (
    drop_cache_files_from_memory,
    fill_disk_caches,
    has_complete_disk_caches,
    remove_cache_placeholders,
)

RANGE = tf.data.Dataset.range


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = tmp_path / "on disk"
    path.mkdir()
    yield str(path)
    remove_process_folder(str(path))
    assert not list(path.iterdir())


def decode(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, [16, 16]), label


def decoded(jpegs):
    return tf.data.Dataset.from_tensor_slices((jpegs, list(range(len(jpegs))))).map(decode)


def kept(pipeline, folder, *stages):
    """As the road edits it: a place after each of these stages."""
    for edit in stages:
        expecting = replace(edit, expected_digest=pipeline.digest)
        if isinstance(edit, DiskCache):
            expecting = replace(expecting, folder=folder)
        pipeline = apply_edit(pipeline, expecting)
    return pipeline


def files_in(folder):
    return sorted(path.name for path in Path(folder).rglob("cache*"))


def test_photos_are_the_same_in_both_epochs(folder, jpegs):
    data = decoded(jpegs).batch(4)
    found = kept(read_pipeline(data), folder, DiskCache(stage=1, expected_digest=""))
    assert kinds(found) == ["from_tensor_slices", "map", "cache", "batch"]
    assert not files_in(folder), "nothing is written before it is read"
    assert epochs(found.dataset) == epochs(data)
    assert "cache.index" in files_in(folder)


def test_the_second_epoch_reads_the_files(folder, jpegs):
    found = kept(read_pipeline(decoded(jpegs)), folder, DiskCache(stage=1, expected_digest=""))
    first = epochs(found.dataset, passes=1)
    for path in jpegs:
        Path(path).unlink()
    assert epochs(found.dataset, passes=1) == first
    drop_cache_files_from_memory(
        found
    )  # what the system remembers of them is dropped, and they are there still
    assert epochs(found.dataset, passes=1) == first


@pytest.mark.parametrize("times", [1, 2])
def test_a_shuffle_above_keeps_its_order(folder, jpegs, times):
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(12))))
    data = data.shuffle(12, seed=3).repeat(times).map(decode).batch(5)
    found = kept(read_pipeline(data), folder, DiskCache(stage=3, expected_digest=""))
    assert kinds(found)[:3] == ["from_tensor_slices", "map", "cache"]
    assert epochs(found.dataset) == epochs(data)


def test_a_random_map_is_split_first(folder, photos):
    original = create_seeded_copy(read_pipeline(photos), 9)
    edits = SplitMap(stage=2, expected_digest=""), DiskCache(stage=2, expected_digest="")
    found = kept(original, folder, *edits)
    assert kinds(found) == ["from_tensor_slices", "map", "cache", "shuffle", "map", "batch"]
    first, second = epochs(found.dataset)
    assert [first, second] == list(epochs(create_seeded_copy(read_pipeline(photos), 9).dataset))
    assert first != second


def test_what_draws_is_refused(folder, jpegs):
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(12)))).map(load_and_flip)
    with pytest.raises(EditRefused, match="would freeze"):
        kept(read_pipeline(data), folder, DiskCache(stage=1, expected_digest=""))


def test_a_part_that_several_branches_read_is_refused(folder):
    """The second reader of a first pass would end in an error of TensorFlow's."""
    numbers = RANGE(6).map(lambda x: x + 1)
    both = read_pipeline(tf.data.Dataset.zip(numbers, numbers.batch(2).unbatch()))
    with pytest.raises(EditRefused, match="2 branches read"):
        kept(both, folder, DiskCache(stage=1, expected_digest=""))
    kept(both, folder, Cache(stage=1, expected_digest=""))


def test_files_go_with_the_dataset(folder):
    found = kept(
        read_pipeline(RANGE(6).map(lambda x: x + 1)), folder, DiskCache(stage=1, expected_digest="")
    )
    assert len(epochs(found.dataset)) == 2
    assert files_in(folder)
    copy = read_pipeline(create_seeded_copy(found, 3).dataset.batch(2))
    del found
    gc.collect()
    assert files_in(folder), "a copy reads them still"
    assert epochs(copy.dataset)[1].is_complete
    del copy
    gc.collect()
    assert not files_in(folder)


def test_each_edit_has_files_of_its_own(folder):
    numbers = read_pipeline(RANGE(6).map(lambda x: x + 1))
    one, other = (kept(numbers, folder, DiskCache(stage=1, expected_digest="")) for _ in range(2))
    ours, theirs = iter(one.dataset), iter(other.dataset)
    assert int(next(ours)) == int(next(theirs)) == 1
    assert len(list(ours)) == len(list(theirs)) == 5
    assert has_complete_disk_caches(one)
    assert has_complete_disk_caches(other)


def test_a_pass_that_was_left_begins_anew(folder):
    found = kept(
        read_pipeline(RANGE(6).map(lambda x: x + 1)), folder, DiskCache(stage=1, expected_digest="")
    )
    some = iter(found.dataset)
    next(some)
    del some
    gc.collect()
    assert not has_complete_disk_caches(found)
    assert [int(x) for x in found.dataset] == [1, 2, 3, 4, 5, 6]


def test_without_a_folder_all_is_made_anew():
    """As where a plan finds no room: what follows the cache is applied all the same."""
    data = RANGE(6).map(lambda x: x + 1).shuffle(6, seed=1).batch(2)
    edited = kept(
        read_pipeline(data),
        "",
        DiskCache(stage=1, expected_digest=""),
        Cache(stage=0, expected_digest=""),
    )
    assert edited.digest == kept(edited, "").digest
    found = remove_cache_placeholders(edited)
    assert kinds(found) == ["range", "cache", "map", "options", "shuffle", "batch"]
    assert epochs(found.dataset) == epochs(data)


def test_what_a_cache_kept_apart_stays_apart():
    """TensorFlow would fuse the shuffle with the repeat, and draw otherwise."""
    data = RANGE(8).shuffle(8, seed=1, reshuffle_each_iteration=False).map(lambda x: x + 1)
    data = data.repeat(2)
    edited = kept(read_pipeline(data), "", DiskCache(stage=2, expected_digest=""))
    assert epochs(remove_cache_placeholders(edited).dataset) == epochs(data)


def test_no_room_is_told_with_figures(folder):
    with pytest.raises(EditRefused, match=r"needs 1.1e\+06 GB in .*on disk, .* GB are free"):
        kept(
            read_pipeline(RANGE(6).map(lambda x: x + 1)),
            folder,
            DiskCache(stage=1, expected_digest="", size_bytes=10**15),
        )


def test_full_files_may_be_read_by_several_at_once(folder, jpegs):
    data = decoded(jpegs).batch(4)
    found = kept(read_pipeline(data), folder, DiskCache(stage=1, expected_digest=""))
    fill_disk_caches(found)
    assert has_complete_disk_caches(found)
    together = tf.data.Dataset.zip(found.dataset, found.dataset)
    assert epochs(together.map(lambda a, b: a)) == epochs(data) == epochs(found.dataset)


def test_files_that_cannot_be_filled_are_refused_with_the_reason(folder, jpegs):
    broken = [*jpegs, str(Path(folder) / "no-such.jpg")]
    found = kept(read_pipeline(decoded(broken)), folder, DiskCache(stage=1, expected_digest=""))
    with pytest.raises(
        EditRefused, match=r"could not write the file cache in .*on disk: .*no-such\.jpg"
    ):
        fill_disk_caches(found)
