"""Which branches make the same elements."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.helpers import measured
from uncork.pipeline.analysis.shared_inputs import find_shared_input
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.resume_state import continue_shuffles
from uncork.pipeline.runtime.trial_copy import copy_pipeline

Dataset = tf.data.Dataset


def images(size=96):
    return Dataset.range(64).map(lambda i: (tf.random.stateless_normal((size, size), (0, i)), i))


def shared(dataset):
    return find_shared_input(read_pipeline(dataset).root)


def test_branches_over_one_map_share_it():
    examples = images()
    pixels = examples.map(lambda image, label: image)
    labels = examples.map(lambda image, label: label, num_parallel_calls=2).prefetch(1)
    found = shared(Dataset.zip((pixels, labels)))
    assert found.branch_count == 2
    assert found.node.dataset is examples
    assert found.second_reader.kind == "map"


@pytest.mark.parametrize(
    "branches",
    [
        lambda: (images(), images()),
        lambda: (Dataset.range(4), Dataset.range(4).map(lambda x: x)),
        lambda: tuple(d.shuffle(4) for d in [images()] * 2),
        lambda: tuple(d.skip(n) for n, d in enumerate([images()] * 2)),
    ],
)
def test_branches_that_go_ways_of_their_own_do_not(branches):
    found = shared(Dataset.zip(branches()))
    assert found is None


def test_a_pipeline_without_branches_shares_nothing():
    assert shared(images().batch(8)) is None


@pytest.mark.deep
def test_what_making_it_again_costs_is_measured():
    examples = images()
    parts = [examples.map(lambda image, label: image) for _ in range(3)]
    stages = measured(Dataset.zip(tuple(parts)).batch(8), batch_size=8)
    assert [s.kind for s in stages] == ["range", "map", "map"] * 3 + ["zip", "batch"]
    repeated = stages[9].repeated_work
    assert repeated.repetitions == 3
    assert repeated.duplicate_stages == (3, 4, 6, 7)
    assert stages[1].cpu_s_per_element == stages[4].cpu_s_per_element > 0
    assert stages[10].repeated_work is None


def test_a_copy_of_a_pipeline_shares_what_the_original_does():
    examples = images(size=2).cache()
    both = read_pipeline(Dataset.zip((examples.map(lambda image, label: label), examples)))
    for copy in (copy_pipeline(both), create_seeded_copy(both, 1), continue_shuffles(both)):
        assert find_shared_input(copy.root).branch_count == 2
    assert find_shared_input(copy_pipeline(both).root).node.dataset is not examples
