"""A script and its expert's version in plain Python: how slow is it, and how much does the fix win?

Uncork has no part in it, so this stays true when Uncork changes, as long as the scripts do not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.truth.catalog import CORRECTNESS, UNEVEN, Workload
from benchmarks.truth.processes import Run, run
from uncork.core.base.record import Record, digest

SHOWN_EPOCHS: Final = 2
# A fix is measured once more, in the other order and for longer: in the first epochs tf.data's
# autotuner is still at work, and a single one may be disturbed.
_LONGER_EPOCHS: Final = 5
# One epoch that something else disturbed decides here whether a fix wins the 20 % that it must.
_DOUBTFUL: Final = (0.95, 1.25)


class Effect(Record, frozen=True, kw_only=True):
    """What a run did, as far as another one can be held against it.

    Attributes:
        exit_code: Of the process; None when it was stopped.
        output: Digest of its lines, times left out.
        weights: Digest of what it saved.
    """

    exit_code: int | None
    output: str
    weights: str


class Plain(Record, frozen=True, kw_only=True):
    """Both versions, trained.

    Attributes:
        effect: Of a short training of the script; None when it was not run.
        slow_s: Seconds of short trainings.
        fixed_s: The same of the expert's version; empty where there is none.
        slow_epoch_s: Seconds of later epochs.
        fixed_epoch_s: The same of the expert's version.
        slow_whole_s: Seconds of the training as long as the script makes it, where epochs differ.
        fixed_whole_s: The same of the expert's version.
        errors: What went wrong.
        wall_s: What all of it took.
    """

    effect: Effect | None = None
    slow_s: tuple[float, ...] = ()
    fixed_s: tuple[float, ...] = ()
    slow_epoch_s: tuple[float, ...] = ()
    fixed_epoch_s: tuple[float, ...] = ()
    slow_whole_s: tuple[float, ...] = ()
    fixed_whole_s: tuple[float, ...] = ()
    errors: tuple[str, ...] = ()
    wall_s: float = 0.0


def train(workload: Workload, data: Path, work: Path) -> Plain:
    """Run the script and its fix, one after the other.

    Args:
        workload: Which one.
        data: The directory that ``tests/workloads/data.py`` wrote.
        work: Where the processes may leave their files.
    """
    begin = time.perf_counter()
    slow = run([sys.executable, workload.script, data, "--epochs", SHOWN_EPOCHS], work / "plain")
    errors = list(_wrong("plain", slow))
    pairs: list[tuple[Run, Run]] = []
    whole: tuple[Run, ...] = ()
    if workload.fixed is not None and not errors:
        errors.extend(_fix(workload, data, work, slow, pairs))
        if workload.name.startswith(UNEVEN):
            whole = _pair(workload, data, work / "whole", workload.epochs)
    return Plain(
        effect=effect(slow),
        slow_s=_seconds(slow),
        fixed_s=_seconds(pairs[0][1]) if pairs else (),
        slow_epoch_s=_later([pair[0] for pair in pairs] or [slow]),
        fixed_epoch_s=_later([pair[1] for pair in pairs]),
        slow_whole_s=_seconds(whole[0]) if whole else (),
        fixed_whole_s=_seconds(whole[1]) if whole else (),
        errors=tuple(errors),
        wall_s=time.perf_counter() - begin,
    )


def effect(done: Run) -> Effect:
    """What is the same whenever a run is repeated."""
    output = digest(*(line.encode() for line in done.lines))
    return Effect(exit_code=done.exit_code, output=output, weights=done.weights)


def ratio(slow: tuple[float, ...], fixed: tuple[float, ...]) -> float | None:
    """How many times faster; None when one is missing or took no time at all.

    The least of each counts: what else the machine does can only make an epoch longer.
    """
    if not slow or not fixed or min(*slow, *fixed) <= 0:
        return None
    return min(slow) / min(fixed)


def _fix(
    workload: Workload, data: Path, work: Path, plain: Run, pairs: list[tuple[Run, Run]]
) -> Iterator[str]:
    """A B; a longer B A where they are judged by it; another where that leaves it in doubt."""
    first = run([sys.executable, workload.fixed, data, "--epochs", SHOWN_EPOCHS], work / "fixed")
    yield from _wrong("fixed", first)
    pairs.append((plain, first))
    if workload.cause not in CORRECTNESS and not workload.name.startswith(UNEVEN):
        pairs.append(_pair(workload, data, work / "longer", _LONGER_EPOCHS))
        found = ratio(*map(_later, zip(*pairs, strict=True)))
        if found is not None and _DOUBTFUL[0] <= found < _DOUBTFUL[1]:
            pairs.append(_pair(workload, data, work / "longest", _LONGER_EPOCHS))


def _pair(workload: Workload, data: Path, work: Path, count: int) -> tuple[Run, Run]:
    epochs = ("--epochs", count)
    better = run([sys.executable, workload.fixed, data, *epochs], work / "fixed")
    return run([sys.executable, workload.script, data, *epochs], work / "plain"), better


def _wrong(what: str, done: Run) -> Iterator[str]:
    if done.exit_code != 0:
        yield f"{what}: exit code {done.exit_code}: {done.errors}"
    elif done.trained_s is None:
        yield f"{what}: its last line does not say 'trained N samples in S s'"
    elif not done.weights:
        yield f"{what}: it saved no weights"


def _seconds(done: Run) -> tuple[float, ...]:
    return () if done.trained_s is None else (done.trained_s,)


def _later(runs: Sequence[Run]) -> tuple[float, ...]:
    """Epochs of the longer runs, where there are any."""
    return tuple(seconds for run in runs[1:] or runs for seconds in _epochs(run))


def _epochs(done: Run) -> tuple[float, ...]:
    """The later half of them."""
    return done.epochs_s[len(done.epochs_s) // 2 :]
