"""Trials are for a training of one process.

The processes of a cluster take each step together. One that tries something takes steps of which
the others know nothing: they wait for ever, or train with what a trial had computed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

from uncork.core.base.errors import WrongUse

_VARIABLE: Final = "TF_CONFIG"
_REMEDY: Final = (
    f"tune it as a single worker ({_VARIABLE} unset, or with a cluster of one), then start every "
    "worker with 'uncork run --plan'"
)


def require_single_process(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse before the script starts: it would wait for its other workers first.

    Args:
        environment: Of the script.

    Raises:
        WrongUse: ``TF_CONFIG`` names a cluster of several processes.

    Example:
        >>> alone = {"cluster": {"worker": ["localhost:2222"]}}
        >>> require_single_process({"TF_CONFIG": json.dumps(alone)})
    """
    try:
        cluster = json.loads(environment.get(_VARIABLE, "{}")).get("cluster") or {}
        processes = sum(map(len, cluster.values()))
    except (ValueError, AttributeError, TypeError):
        return  # what is wrong with it, TensorFlow says
    if processes > 1:
        raise _refused(f"{_VARIABLE} names a cluster of {processes} processes")


def refuse_cluster(training: str, processes: int) -> None:
    """Refuse a training whose script has joined a cluster by itself.

    Args:
        training: What it is called.
        processes: That take its steps together, as far as TensorFlow knows.

    Raises:
        WrongUse: There are several.
    """
    if processes > 1:
        raise _refused(f"{training} is one of {processes} processes of a cluster")


def _refused(received: str) -> WrongUse:
    return WrongUse(
        f"{received}: the others would wait for a trial in one of them, or train with it",
        "a training of one process",
        _REMEDY,
    )
