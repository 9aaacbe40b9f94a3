"""Between which statements a map function is cut."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from uncork.pipeline.functions.splitting import split_deterministic_prefix, split_narrow_prefix
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.profile.cut_lines import find_cut_lines


def plain(x: Any) -> Any:
    x = tf.exp(tf.cast(x, tf.float32))
    x = tf.sqrt(
        x,
    )
    x = x + tf.random.uniform([])
    return x * 2.0


def turned(x: Any) -> Any:
    r = tf.random.uniform([])
    x = tf.exp(tf.cast(x, tf.float32))
    return x * r


def helper(x: Any) -> Any:
    x = tf.exp(tf.cast(x, tf.float32))
    return x + tf.random.uniform([])


def helped(x: Any) -> Any:
    return helper(x)


def narrow(x: Any) -> Any:
    x = tf.reduce_max(tf.fill([9], tf.cast(x, tf.uint8)))
    return tf.cast(x, tf.float64) / 255.0


FIRST = {f: f.__code__.co_firstlineno for f in (plain, turned, helped, narrow)}


@pytest.mark.parametrize(
    ("function", "last", "rest"),
    [(plain, 2, 5), (turned, 2, 1), (helped, 1, 1), (narrow, 1, 2)],
)
def test_lines_of_the_function_itself_are_found(function: Any, last: int, rest: int) -> None:
    node = read_pipeline(tf.data.Dataset.range(3).map(function)).root
    cut = split_deterministic_prefix(node.functions[0]) or split_narrow_prefix(node.functions[0])
    assert cut is not None
    lines = [int((at or ":0").rpartition(":")[2]) for at in find_cut_lines(node, cut)]
    assert lines == [FIRST[function] + last, FIRST[function] + rest]


def test_a_function_without_lines_has_none() -> None:
    inner = tf.autograph.experimental.do_not_convert(plain)
    node = read_pipeline(tf.data.Dataset.range(3).map(inner)).root
    cut = split_deterministic_prefix(node.functions[0])
    assert cut is not None
    assert all(at is None or "test_cut_lines" in at for at in find_cut_lines(node, cut))
