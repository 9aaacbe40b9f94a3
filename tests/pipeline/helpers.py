"""What several tests of the pipeline engine do with datasets."""

from __future__ import annotations

from uncork.pipeline import Pipeline, element_digests, read
from uncork.pipeline.kinds import kind_of
from uncork.pipeline.rebuild import make


def epochs(dataset, limit=40):
    """Digests of two passes."""
    return element_digests(dataset, epochs=2, max_elements=limit, max_s=20).epochs


def deep_copy(dataset):
    """Every node above the sources, rebuilt."""

    def copy(node):
        inputs = [copy(i) for i in node.inputs]
        if not inputs or kind_of(node.dataset).op is None:
            return node.dataset
        return make(node.dataset, inputs, kind_of(node.dataset))

    return copy(read(dataset).root)


def kinds(pipeline: Pipeline):
    return [node.kind for node in pipeline.stages]
