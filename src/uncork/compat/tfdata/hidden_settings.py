"""Settings of a dataset that its class does not keep, read from the graph that it was made in.

Borrowed: the serialized graph of a dataset, through ``dataset_fields``.
Why: a class keeps not even in private what it forwards to its op: ``deterministic=`` of an
    interleave, ``log_warning=`` of ``ignore_errors``.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of ``dataset_rebuild`` was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when ``dataset_fields`` is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import serialized_graph
from uncork.core.base.errors import EditRefused

Dataset = Any  # tf.data.Dataset: TensorFlow ships no types

# Set on a dataset whose graph would not be written.
_UNREAD: Final = "_uncork_unread"


def interleave_determinism(d: Dataset) -> str:
    """``true``, ``false`` or ``default``, read from the graph: the class does not keep its flag."""
    known = d.__dict__.get("_uncork_deterministic")
    if known is None:
        attributes = _own_attributes(d, "ParallelInterleaveDatasetV4")
        known = attributes["deterministic"].s.decode() if attributes else "default"
        d.__dict__["_uncork_deterministic"] = known
    return str(known)


def has_log_warning(d: Dataset) -> bool:
    """Whether ``ignore_errors`` says what it ignores, read from the graph likewise."""
    known = d.__dict__.get("_uncork_log_warning")
    if known is None:
        attributes = _own_attributes(d, "IgnoreErrorsDataset")
        known = d.__dict__["_uncork_log_warning"] = bool(attributes and attributes["log_warning"].b)
    return bool(known)


def check_all_fields_known(d: Dataset) -> None:
    """Refuse to copy a dataset with settings that Uncork cannot read.

    Raises:
        EditRefused: A setting that its class does not keep cannot be read.
    """
    if d.__dict__.get(_UNREAD):
        raise EditRefused(
            "Uncork can read the settings of a stage only from the whole pipeline, which "
            "holds too many bytes",
            "less than 2 GB of arrays in the pipeline",
            "read large arrays from files, or keep the pipeline unchanged",
        )


def _own_attributes(d: Dataset, op: str) -> Mapping[str, Any]:
    """Attributes of the op that made a dataset, where its class does not keep them.

    None of them where the pipeline holds too much to be written: it must not be copied then.
    """
    try:
        graph = serialized_graph(d)
    except (tf.errors.OpError, ValueError, TypeError):
        d.__dict__[_UNREAD] = True
        return {}
    # Nodes come inputs first, so the last one is this dataset's own.
    found = [n for n in graph.node if n.op == op]
    return dict(found[-1].attr) if found else {}
