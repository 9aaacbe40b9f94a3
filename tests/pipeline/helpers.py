"""What several tests of the pipeline engine do with datasets."""

from __future__ import annotations

from tensorflow.python.data.experimental.ops import testing

from uncork.pipeline import Pipeline, element_digests


def epochs(dataset, limit=40):
    """Digests of two passes."""
    return element_digests(dataset, epochs=2, max_elements=limit, max_s=20).epochs


def kinds(pipeline: Pipeline):
    return [node.kind for node in pipeline.stages]


def behind_unknown(dataset):
    """The same elements behind a class of TensorFlow's that Uncork does not know."""
    return dataset.apply(testing.sleep(1))
