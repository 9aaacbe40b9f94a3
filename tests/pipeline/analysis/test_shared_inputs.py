"""Which branches make the same elements."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.helpers import measured
from uncork.pipeline.analysis.shared_inputs import shared_by_branches
from uncork.pipeline.equivalence.seeded_twin import seeded
from uncork.pipeline.ir.tree import read
from uncork.pipeline.runtime.resume_state import continued
from uncork.pipeline.runtime.trial_copy import apart

Dataset = tf.data.Dataset


def images(size=96):
    return Dataset.range(64).map(lambda i: (tf.random.stateless_normal((size, size), (0, i)), i))


def shared(dataset):
    return shared_by_branches(read(dataset).root)


def test_branches_over_one_map_share_it():
    examples = images()
    pixels = examples.map(lambda image, label: image)
    labels = examples.map(lambda image, label: label, num_parallel_calls=2).prefetch(1)
    found = shared(Dataset.zip((pixels, labels)))
    assert found.times == 2
    assert found.node.dataset is examples
    assert found.again.kind == "map"


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


def test_what_making_it_again_costs_is_measured():
    examples = images()
    parts = [examples.map(lambda image, label: image) for _ in range(3)]
    stages = measured(Dataset.zip(tuple(parts)).batch(8), batch_size=8)
    assert [s.kind for s in stages] == ["range", "map", "map"] * 3 + ["zip", "batch"]
    repeated = stages[9].repeated
    assert repeated.times == 3
    assert repeated.again == (3, 4, 6, 7)
    assert stages[1].cpu_s_per_element == stages[4].cpu_s_per_element > 0
    assert stages[10].repeated is None


def test_a_copy_of_a_pipeline_shares_what_the_original_does():
    examples = images(size=2).cache()
    both = read(Dataset.zip((examples.map(lambda image, label: label), examples)))
    for copy in (apart(both), seeded(both, 1), continued(both)):
        assert shared_by_branches(copy.root).times == 2
    assert shared_by_branches(apart(both).root).node.dataset is not examples
