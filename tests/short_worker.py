"""A worker process of ``tune`` that measures briefly and tries the optimizations a test names.

It runs and proves everything as usual. Only the speed of a trial, and whether an optimization is
proposed, are fixed. :func:`replace_worker` starts it instead of Uncork's own worker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any, Final

import pytest

from uncork.core.base.measurement import compare
from uncork.core.edits.edit import AsyncCheckpoint, Edit
from uncork.core.edits.pipeline import DiskCache, SplitMap
from uncork.core.edits.step import StepsPerExecution
from uncork.engine.commands import tune as verbs
from uncork.engine.process import worker_process as processes
from uncork.engine.worker import main as child
from uncork.optimizations.base.proposal import Context, Optimization, Proposal

_TESTS: Final = str(Path(__file__).parent)
_CHILD: Final = f"""
import sys
sys.path[0] = sys.path[0] or sys.path[1]
sys.path.append({_TESTS!r})
import short_worker
sys.exit(short_worker.main("NAME", sys.argv[1:]))
"""


class Saving(Optimization):
    name, stage, guarantee = "async_checkpoint", "host", "exact"

    def _propose(self, context: Context) -> Proposal:
        assert context.diagnosis.checkpoint_cost is not None
        return _proposal(AsyncCheckpoint(size_bytes=context.diagnosis.checkpoint_cost.copy_bytes))


class Grouping(Optimization):
    name, stage, guarantee = "steps_per_execution", "host", "rounding"

    def _propose(self, context: Context) -> Proposal:
        return _proposal(StepsPerExecution(steps=2))


class InFiles(Optimization):
    name, stage, guarantee = "disk_cache", "input", "exact"

    def _propose(self, context: Context) -> Proposal:
        assert context.diagnosis.cache_folder is not None
        assert context.diagnosis.cache_folder.path == context.policy.disk_cache_folder
        kept = DiskCache(
            stage=1, expected_digest="", size_bytes=1 << 24, folder=context.policy.disk_cache_folder
        )
        return _proposal(SplitMap(stage=1, expected_digest=""), kept)


OPTIMIZATIONS: Final = {"saving": (Saving(), Grouping()), "disk_cache": (InFiles(),)}


def _proposal(*edits: Edit) -> Proposal:
    return Proposal(edits=edits, predicted=2.0, at=None, rationale="fixed by the test")


def replace_worker(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Workers try the optimizations of one entry of :data:`OPTIMIZATIONS`, without confirmation."""
    monkeypatch.setattr(processes, "_CHILD", _CHILD.replace("NAME", key))
    unconfirmed: Callable[..., Any] = lambda plan, *_, **__: (plan, False)  # noqa: E731
    monkeypatch.setattr(verbs, "confirm", unconfirmed)


def shorten_measurements(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Measure briefly, and report each trial as faster.

    Args:
        set_attribute: Sets an attribute of a module.
    """
    from uncork.engine.diagnose import observe  # noqa: PLC0415 - they import TensorFlow
    from uncork.engine.tune import tuner as walk  # noqa: PLC0415 - they import TensorFlow

    measured = walk.interleave

    def faster(base: Any, candidate: Any, **how: Any) -> Any:
        """Run one short block of each, then report 1.5x."""
        block_s = how["block_s"] / 10
        trial = measured(base, candidate, **{**how, "block_s": block_s, "budget_s": 0.0})
        said = compare([1.0, 1.01, 1.0], [1.5, 1.51, 1.5], min_ratio=how["min_ratio"])
        return replace_fields(trial, comparison=said)

    for first_or_second_look in ("interleave", "interleave_until_budget"):
        set_attribute(walk, first_or_second_look, faster)
    for name in ("_CAREFUL", "_BRIEF"):
        set_attribute(observe, name, getattr(observe, name).scaled(0.1))


def main(key: str, argv: Sequence[str]) -> int:
    make = child._make

    def listener(*of_job: Any) -> Any:
        from uncork.engine.tune import tuner as walk  # noqa: PLC0415 - they import TensorFlow
        from uncork.engine.worker import tune_job as trials  # noqa: PLC0415 - they import TensorFlow

        shorten_measurements(setattr)
        trials.Tuner = functools.partial(walk.Tuner, optimizations=OPTIMIZATIONS[key])
        return make(*of_job)

    child._make = listener
    return child.main(argv)
