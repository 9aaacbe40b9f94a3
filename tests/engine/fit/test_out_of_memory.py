"""Memory that really runs out: the system refuses it, and the training is as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of addresses"),
]
CHILD = Path(__file__).with_name("memory_child.py")
# Allocators that ask for ever more at once would take all, and leave none for a thread.
QUIET = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_ARENA_MAX": "2", "CUDA_VISIBLE_DEVICES": "-1"}


def run(what: str) -> dict[str, Any]:
    folders = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, CHILD, what],
        env={**os.environ, **QUIET, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.deep
def test_a_training_as_written_is_trained_in_parts() -> None:
    found = run("parts")
    assert found["said"].startswith("OOM when allocating tensor with shape[64,2000,1024]")
    assert found["untouched"]
    assert found["parts"] >= 2
    assert found["outcome"] == "kept"
    assert found["trained"] >= 1


@pytest.mark.deep
def test_a_larger_batch_is_given_up() -> None:
    found = run("larger")
    assert found == {"trained": found["trained"], "sizes": 0, "untouched": True}
    assert found["trained"] >= 1
