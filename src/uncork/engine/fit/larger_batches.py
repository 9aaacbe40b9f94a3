"""Larger batches of a ``fit``: how fast they train, and what they make of as many samples."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.documents.plan import Proof
from uncork.core.edits.step import LargerBatch
from uncork.core.evidence.batches import BatchSize, nearly_whole
from uncork.measure.benchmark.peak_memory import peak_memory
from uncork.measure.machine.probe import available_memory
from uncork.training.optimizer.learning_rate import rate_for
from uncork.training.run.held_out import HeldOut
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Version, VersionRunner, against
from uncork.verify.criteria.noninferiority import noninferiority
from uncork.verify.criteria.training import (
    Curve,
    ends,
    finite,
    orders_needed,
    price,
    prove_training,
)

# Times as large; each is tried only if the one before it paid.
_TIMES: Final = (2, 4, 8, 16)
# Samples/s over those of half the batch. Less is not worth another training.
_PAYS: Final = 1.15
_BLOCK_S: Final = 0.2
# Of the memory that is left; what a step takes beside it is not known to the last byte.
_MARGIN: Final = 0.8
# Orders of the data that a size is looked at with, and more that prove it.
_LOOKED_AT: Final = 4
_PROVED: Final = (6, 12)
_OTHER_ORDERS: Final = 100
# Steps of the batch as it is, and the fewest of a larger one: a handful trains nothing.
_STEPS: Final = (64, 4096)
_FEWEST: Final = 16
_POINTS: Final = 4
# Of a training that is timed: what is there beside its steps goes into both.
_TIMED: Final = (64, 320)
# What a look takes, in trainings of the batch as it is: those of larger ones are shorter.
_RUNS: Final = 10
# Times the samples that a larger batch is given to come to the same loss.
_DEAREST: Final = 4


@dataclass(frozen=True)
class LargerBatches:
    """Tries them on samples that were recorded, from one snapshot.

    Attributes:
        held_out: What is trained on, and what is judged by.
        snapshot: Where every training starts, and what is given back.
        batch_size: As the script has it.
        steps_per_epoch: Likewise; None where epochs have no end.
        settings: How the step of a version runs.
        resident: Its step on batches from memory.
    """

    held_out: HeldOut
    snapshot: Snapshot
    batch_size: int
    steps_per_epoch: int | None
    settings: Callable[[Version], StepSettings]
    resident: Callable[[Version], VersionRunner]

    def look(self, version: Version, budget_s: float) -> tuple[BatchSize, ...]:
        """Each size that pays, the smallest first: speed, and loss after as many samples.

        From the first on whose loss is not finite there is none: a larger one diverges, too.
        """
        began = time.monotonic()
        try:
            faster = self._speeds(version)
            if not faster:
                return ()
            steps = self._steps(version, (budget_s - (time.monotonic() - began)) / _RUNS)
            written = [self._curve(version, seed, steps) for seed in range(_LOOKED_AT)]
            if not finite(written):
                return ()
            found: list[BatchSize] = []
            for larger in (each for each in faster if steps // each.times >= _FEWEST):
                sized = version.with_step_edits((larger,))
                judged = self._judged(sized, faster[larger], steps, written)
                if judged is None:
                    break
                found.append(judged)
            return tuple(found)
        finally:
            self.snapshot.restore()

    def prove(self, version: Version, budget_s: float) -> Proof:
        """The original against this version, over orders that no size was chosen by."""
        original = Version(pipeline=None)
        times = version.times
        fewest, most = _PROVED
        try:
            steps = self._steps(original, budget_s / (2 * most))
            if steps // times < _FEWEST:
                detail = f"there was time for {steps // times} of its steps, too few to judge it by"
                return Proof(kind="training", passed=False, detail=detail)
            ours: list[Curve] = []
            theirs: list[Curve] = []
            needed = fewest
            while len(ours) < needed:
                for seed in range(_OTHER_ORDERS + len(ours), _OTHER_ORDERS + needed):
                    ours.append(self._curve(original, seed, steps))
                    theirs.append(self._curve(version, seed, steps))
                needed = orders_needed(ours, theirs, most)
            return prove_training(ours, theirs, steps * self.batch_size)
        finally:
            self.snapshot.restore()

    def _speeds(self, version: Version) -> dict[LargerBatch, Comparison]:
        """Of each size, as long as it gains on the one before and as there is memory."""
        base = self.resident(version)
        with peak_memory() as peak:
            base.prime()
        taken, found = [(1, peak.bytes)], dict[LargerBatch, Comparison]()
        for times in _TIMES:
            larger = LargerBatch(times=times, rate=rate_for(self.snapshot.model.optimizer, times))
            if not (self._fill_epochs(times) and _fits(taken, times)):
                break
            try:
                with peak_memory() as peak:
                    sized = self.resident(version.with_step_edits((larger,)))
                    compared = against(base, sized, _BLOCK_S)
            except Exception:  # a model for one size of batch; no memory left on the device
                break
            before = [each.ratio for each in found.values()]
            if compared.ratio < _PAYS * (before[-1] if before else 1.0):
                break
            taken.append((times, peak.bytes))
            found[larger] = compared
        return found

    def _fill_epochs(self, times: int) -> bool:
        """So large batches are full, all but a few."""
        steps = self.steps_per_epoch
        return steps is None or nearly_whole(steps, times)

    def _judged(
        self, sized: Version, faster: Comparison, steps: int, written: list[Curve]
    ) -> BatchSize | None:
        """What a size makes of as many samples, and what it takes to the same loss."""
        curves = [self._curve(sized, seed, steps) for seed in range(_LOOKED_AT)]
        if not finite(curves):
            return None
        told = noninferiority(ends(written), ends(curves))
        cost = price(written, curves)
        if cost is None:
            cost = price(written, [self._curve(sized, 0, _DEAREST * steps)])
        return BatchSize(
            times=sized.times,
            rate=rate_for(self.snapshot.model.optimizer, sized.times),
            faster=faster,
            samples=steps * self.batch_size,
            loss=statistics.fmean(ends(written)),
            higher=told.bias,
            error=told.error,
            noise=told.margin,
            price=cost,
        )

    def _steps(self, version: Version, seconds: float) -> int:
        """Steps of the script's batch for which there is time."""
        few, more = _TIMED
        self._curve(version, 0, few)  # compiles
        few_s, more_s = (self._seconds(version, steps) for steps in _TIMED)
        step_s = max(1e-6, (more_s - few_s) / (more - few))
        least, most = _STEPS
        steps = (seconds - few_s) / step_s
        return int(min(most, max(least, steps))) // least * least

    def _seconds(self, version: Version, steps: int) -> float:
        began = time.perf_counter()
        self._curve(version, 0, steps)
        return time.perf_counter() - began

    def _curve(self, version: Version, seed: int, steps: int) -> Curve:
        """After as many samples as so many of the script's steps have."""
        return self.held_out.curve(
            self.settings(version),
            self.snapshot,
            seed=seed,
            batch_size=self.batch_size * version.times,
            steps=steps // version.times,
            points=_POINTS,
        )


def _fits(taken: list[tuple[int, int]], times: int) -> bool:
    """By a line through what the two sizes before it took; the first through nothing at all.

    Example:
        >>> _fits([(1, 1 << 10), (2, 1 << 11)], 4), _fits([(1, 1 << 60)], 2)
        (True, False)
    """
    (smaller, less), (larger, more) = [(0, 0), *taken][-2:]
    each = max(0.0, (more - less) / (larger - smaller))
    return more + each * (times - larger) <= _MARGIN * available_memory()
