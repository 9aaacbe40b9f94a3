"""Which filters choose elements by their number."""

from __future__ import annotations

import tensorflow as tf

from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.filter_pushdown import is_index_based


def test_every_nth_element_is_chosen_by_number_and_the_first_ones_are_not() -> None:
    numbered = tf.data.Dataset.range(9).enumerate()
    assert is_index_based(read_pipeline(numbered.filter(lambda number, _: number % 3 == 0)).root)
    assert not is_index_based(read_pipeline(numbered.filter(lambda number, _: number < 3)).root)
