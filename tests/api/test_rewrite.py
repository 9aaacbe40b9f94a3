"""``uncork.rewrite`` in a patched script: the same elements, the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from uncork.api.rewrite import rewrite
from uncork.core.base.errors import WrongUse
from uncork.core.edits.pipeline import Cache, SplitMap
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit


def load(x: Any) -> Any:
    image = tf.exp(tf.cast(x, tf.float32) * tf.ones([4]))
    image = image * tf.random.uniform([])
    return image + tf.random.normal([4]), x


def load_deterministic(x: Any) -> Any:
    image = tf.exp(tf.cast(x, tf.float32) * tf.ones([4]))
    return image, x


def load_random(image: Any, x: Any) -> Any:
    image = image * tf.random.uniform([])
    return image + tf.random.normal([4]), x


def passes(make: Callable[[], Any], seed: int) -> list[Any]:
    """Elements of three epochs of a dataset that is made under a seed."""
    tf.random.set_seed(seed)
    data = make()
    return [image.numpy().tolist() for _ in range(3) for image, _ in data]


def whole() -> Any:
    return tf.data.Dataset.range(8).shuffle(8).map(load)


def test_the_random_part_draws_the_numbers_of_the_whole_function() -> None:
    """From the seeds that the ops have in the script's own function."""
    split = passes(lambda: whole().apply(rewrite("split_map", "cache")), 3)
    assert split == passes(whole, 3)
    assert split != passes(whole, 4)


def parts() -> Any:
    """As ``uncork diff`` writes it."""
    return (
        tf.data.Dataset.range(8)
        .map(load_deterministic, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .cache()
        .shuffle(8)
        .map(load_random)
    )


def test_two_functions_draw_the_numbers_of_one() -> None:
    """TensorFlow counts the random ops of each function: all of them are in the second one."""
    assert passes(parts, 3) == passes(whole, 3)


def test_two_functions_are_the_ops_of_the_plan() -> None:
    before = read_pipeline(whole())
    split = apply_edit(before, SplitMap(stage=2, expected_digest=before.digest))
    planned = apply_edit(split, Cache(stage=2, expected_digest=split.digest))
    assert read_pipeline(parts()).digest == planned.digest


def test_a_stage_is_known_by_its_number_too() -> None:
    data = whole().batch(2).prefetch(1).apply(rewrite("split_map", "cache", stage=2))
    kinds = [stage.kind for stage in read_pipeline(data).stages]
    assert kinds == ["range", "map", "cache", "shuffle", "map", "batch", "prefetch"]


def test_a_map_takes_whole_batches() -> None:
    data = tf.data.Dataset.range(8).map(lambda x: x + 1).batch(4).apply(rewrite("vectorize_map"))
    assert [stage.kind for stage in read_pipeline(data).stages][:2] == ["range", "batch"]
    assert [batch.numpy().tolist() for batch in data] == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_what_is_not_legal_stays_as_it_is_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    data = tf.data.Dataset.range(8).map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64))
    assert data.apply(rewrite("cache")) is data
    assert "the dataset stays unmodified: a cache after" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "settings"),
    [(("no_such",), {}), (("read_ahead",), {"readers": 2}), (("disk_cache",), {})],
)
def test_what_there_is_not_is_refused(names: tuple[str, ...], settings: dict[str, int]) -> None:
    with pytest.raises(WrongUse, match=names[0]):
        rewrite(*names, **settings)
