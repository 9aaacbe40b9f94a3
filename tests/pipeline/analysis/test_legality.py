"""What may give other elements in the next pass."""

from __future__ import annotations

import tensorflow as tf

from uncork.pipeline.analysis.legality import is_random
from uncork.pipeline.ir.tree import read_pipeline


def test_a_source_that_draws_is_random_and_one_that_counts_is_not() -> None:
    assert is_random(read_pipeline(tf.data.Dataset.random(1)).root)
    assert not is_random(read_pipeline(tf.data.Dataset.range(3)).root)
