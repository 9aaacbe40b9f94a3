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
from uncork.core.evidence.batches import BatchSizeTrial, is_nearly_divisible
from uncork.measure.benchmark.peak_memory import measure_peak_memory
from uncork.measure.machine.probe import available_memory_bytes
from uncork.training.optimizer.learning_rate import learning_rate_factor
from uncork.training.run.held_out import HeldOutSplit
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.training.variant import Variant, VariantRunner, compare_in_memory
from uncork.verify.criteria.noninferiority import noninferiority
from uncork.verify.criteria.training import (
    LossCurve,
    are_finite,
    final_losses,
    orders_needed,
    prove_training,
    samples_to_loss_ratio,
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
class LargerBatchTrials:
    """Tries them on samples that were recorded, from one snapshot.

    Attributes:
        held_out: What is trained on, and what is judged by.
        snapshot: Where every training starts, and what is given back.
        batch_size: As the script has it.
        steps_per_epoch: Likewise; None where epochs have no end.
        settings: How the step of a version runs.
        resident_runner: Its step on batches from memory.
    """

    held_out: HeldOutSplit
    snapshot: Snapshot
    batch_size: int
    steps_per_epoch: int | None
    settings: Callable[[Variant], StepSettings]
    resident_runner: Callable[[Variant], VariantRunner]

    def measure(self, variant: Variant, budget_s: float) -> tuple[BatchSizeTrial, ...]:
        """Each size that pays, the smallest first: speed, and loss after as many samples.

        From the first on whose loss is not finite there is none: a larger one diverges, too.
        """
        began = time.monotonic()
        try:
            faster = self._speeds(variant)
            if not faster:
                return ()
            steps = self._steps(variant, (budget_s - (time.monotonic() - began)) / _RUNS)
            written = [self._curve(variant, seed, steps) for seed in range(_LOOKED_AT)]
            if not are_finite(written):
                return ()
            found: list[BatchSizeTrial] = []
            for larger in (each for each in faster if steps // each.batch_multiplier >= _FEWEST):
                sized = variant.with_step_edits((larger,))
                judged = self._judged(sized, faster[larger], steps, written)
                if judged is None:
                    break
                found.append(judged)
            return tuple(found)
        finally:
            self.snapshot.restore()

    def prove(self, variant: Variant, budget_s: float) -> Proof:
        """The original against this version, over orders that no size was chosen by."""
        original = Variant(pipeline=None)
        times = variant.batch_multiplier
        fewest, most = _PROVED
        try:
            steps = self._steps(original, budget_s / (2 * most))
            if steps // times < _FEWEST:
                detail = (
                    f"there was time for {steps // times} of its steps, too few for a judgement"
                )
                return Proof(kind="training", passed=False, detail=detail)
            ours: list[LossCurve] = []
            theirs: list[LossCurve] = []
            needed = fewest
            while len(ours) < needed:
                for seed in range(_OTHER_ORDERS + len(ours), _OTHER_ORDERS + needed):
                    ours.append(self._curve(original, seed, steps))
                    theirs.append(self._curve(variant, seed, steps))
                needed = orders_needed(ours, theirs, most)
            return prove_training(ours, theirs, steps * self.batch_size)
        finally:
            self.snapshot.restore()

    def _speeds(self, version: Variant) -> dict[LargerBatch, Comparison]:
        """Of each size, as long as it gains on the one before and as there is memory."""
        base = self.resident_runner(version)
        with measure_peak_memory() as peak:
            base.prime()
        taken, found = [(1, peak.added_bytes)], dict[LargerBatch, Comparison]()
        for times in _TIMES:
            larger = LargerBatch(
                batch_multiplier=times,
                learning_rate_multiplier=learning_rate_factor(self.snapshot.model.optimizer, times),
            )
            if not (self._fill_epochs(times) and _fits(taken, times)):
                break
            try:
                with measure_peak_memory() as peak:
                    sized = self.resident_runner(version.with_step_edits((larger,)))
                    compared = compare_in_memory(base, sized, _BLOCK_S)
            except Exception:  # a model for one size of batch; no memory left on the device
                break
            before = [each.ratio for each in found.values()]
            if compared.ratio < _PAYS * (before[-1] if before else 1.0):
                break
            taken.append((times, peak.added_bytes))
            found[larger] = compared
        return found

    def _fill_epochs(self, times: int) -> bool:
        """So large batches are full, all but a few."""
        steps = self.steps_per_epoch
        return steps is None or is_nearly_divisible(steps, times)

    def _judged(
        self, sized: Variant, faster: Comparison, steps: int, written: list[LossCurve]
    ) -> BatchSizeTrial | None:
        """What a size makes of as many samples, and what it takes to the same loss."""
        curves = [self._curve(sized, seed, steps) for seed in range(_LOOKED_AT)]
        if not are_finite(curves):
            return None
        told = noninferiority(final_losses(written), final_losses(curves))
        cost = samples_to_loss_ratio(written, curves)
        if cost is None:
            cost = samples_to_loss_ratio(written, [self._curve(sized, 0, _DEAREST * steps)])
        return BatchSizeTrial(
            batch_multiplier=sized.batch_multiplier,
            learning_rate_multiplier=learning_rate_factor(
                self.snapshot.model.optimizer, sized.batch_multiplier
            ),
            speedup=faster,
            samples_per_training=steps * self.batch_size,
            baseline_loss=statistics.fmean(final_losses(written)),
            loss_increase=told.bias,
            loss_increase_error=told.error,
            loss_noise=told.margin,
            samples_ratio=cost,
        )

    def _steps(self, version: Variant, seconds: float) -> int:
        """Steps of the script's batch for which there is time."""
        few, more = _TIMED
        self._curve(version, 0, few)  # compiles
        few_s, more_s = (self._seconds(version, steps) for steps in _TIMED)
        step_s = max(1e-6, (more_s - few_s) / (more - few))
        least, most = _STEPS
        steps = (seconds - few_s) / step_s
        return int(min(most, max(least, steps))) // least * least

    def _seconds(self, version: Variant, steps: int) -> float:
        began = time.perf_counter()
        self._curve(version, 0, steps)
        return time.perf_counter() - began

    def _curve(self, version: Variant, seed: int, steps: int) -> LossCurve:
        """After as many samples as so many of the script's steps have."""
        return self.held_out.loss_curve(
            self.settings(version),
            self.snapshot,
            seed=seed,
            batch_size=self.batch_size * version.batch_multiplier,
            steps=steps // version.batch_multiplier,
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
    return more + each * (times - larger) <= _MARGIN * available_memory_bytes()
