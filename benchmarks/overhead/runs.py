"""Whole processes in turn: plain Python, watched, and ``uncork run`` with an empty plan."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.truth.catalog import Workload
from benchmarks.truth.examine import examine
from benchmarks.truth.plain import Plain
from benchmarks.truth.processes import run
from uncork.core.base.measurement import Comparison, compare
from uncork.core.base.record import Record, write_atomically
from uncork.core.documents.plan_file import serialize_plan

# The first epoch of a script traces, fills buffers and caches.
_TRIED_EPOCHS: Final = 4
_LONGEST_S: Final = 400.0

Way = Callable[[], "Cost"]


class Cost(Record, frozen=True, kw_only=True):
    """What one process took.

    Attributes:
        trained_s: Seconds of training, as the script tells them.
        wall_s: Of the whole process, from its start to its end.
        cpu_s: On all cores, of the process and whatever it started.
    """

    trained_s: float
    wall_s: float
    cpu_s: float


class Runs(Record, frozen=True, kw_only=True):
    """One script, run in all ways.

    Attributes:
        name: Of the script.
        epochs: Of each run.
        plain: By Python alone.
        others: Of each other way by name, what it took beside the one of the same place.
    """

    name: str
    epochs: int
    plain: tuple[Cost, ...]
    others: dict[str, tuple[Cost, ...]]

    def overhead(self, way: str, of: Callable[[Cost], float]) -> Comparison:
        """How many times as long it takes that way; paired, with a 95 % interval."""
        return compare([of(cost) for cost in self.plain], [of(cost) for cost in self.others[way]])


def empty_plan(workload: Workload, data: Path, work: Path) -> Path:
    """The plan of a diagnosis that tried nothing.

    Args:
        workload: Which script.
        data: The directory that ``tests/workloads/data.py`` wrote.
        work: Where the processes may leave their files.
    """
    found, plan = examine(workload, Plain(), data, work / "diagnosis", tune=False)
    if plan is None:
        raise RuntimeError(f"diagnose: {'; '.join(found.errors)}")
    file = work / "plan.json"
    write_atomically(file, serialize_plan(plan))
    return file


def epochs_for(script: Sequence[object], work: Path, seconds: float) -> int:
    """As many epochs as train about so long."""
    done = run([sys.executable, *script, "--epochs", _TRIED_EPOCHS], work)
    if done.exit_code != 0:
        raise RuntimeError(f"plain: exit code {done.exit_code}: {done.errors}")
    return max(_TRIED_EPOCHS, math.ceil(seconds / min(done.epochs_s)))


def cost_of(command: Sequence[object], work: Path) -> Cost:
    """Run it to its end. No other child of this process may end meanwhile."""
    before = _cpu_s()
    done = run(command, work, _LONGEST_S)
    if done.exit_code != 0 or done.trained_s is None:
        raise RuntimeError(f"exit code {done.exit_code}: {done.errors}")
    return Cost(trained_s=done.trained_s, wall_s=done.wall_s, cpu_s=_cpu_s() - before)


def in_turn(ways: Sequence[Way], rounds: int) -> list[tuple[Cost, ...]]:
    """A B C, then C B A, and so on: what drifts falls on all."""
    found: list[list[Cost]] = [[] for _ in ways]
    for number in range(rounds):
        order = list(zip(ways, found, strict=True))
        for way, costs in order if number % 2 == 0 else reversed(order):
            costs.append(way())
    return [tuple(costs) for costs in found]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
