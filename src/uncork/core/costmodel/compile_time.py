"""What XLA takes to compile a step anew for each shape of a batch: a part of a training's time."""

from __future__ import annotations

import math
from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record, replace
from uncork.core.costmodel.validation_time import scale_comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of the whole training, what a finding must promise.
_WORTH: Final = 1.1
# Fewer shapes are all compiled before anything is measured.
_MANY: Final = 8


class CompileTime(Record, frozen=True, kw_only=True):
    """What a whole training takes, in seconds.

    Attributes:
        steps_s: Its steps, each of a shape that is compiled.
        min_compile_s: To trace and compile it for the shapes that were seen, but for the first.
        expected_compile_s: For those that there are, ones not seen yet included.
        max_compile_s: If each step had another one.
        remaining_s: What is still to be done for batches that are filled up to few shapes; or
            without XLA, where the step is traced for each of them.
    """

    steps_s: float
    min_compile_s: float
    expected_compile_s: float
    max_compile_s: float
    remaining_s: float = 0.0

    def min_gain(self, step_speedup: float = 1.0) -> float:
        """Speed-up of the whole by what is compiled no more, of the shapes that were seen alone.

        Args:
            step_speedup: Speed-up of the steps themselves.
        """
        return self._gain(self.min_compile_s, step_speedup)

    def expected_gain(self, step_speedup: float = 1.0) -> float:
        """The same of all shapes that there are."""
        return self._gain(self.expected_compile_s, step_speedup)

    def step_speedup_for(self, gain: float) -> float:
        """How many times as fast the steps must be for such a least gain of the whole."""
        left_s = (self.steps_s + self.min_compile_s) / gain - self.remaining_s
        return self.steps_s / left_s if left_s > 0 else math.inf

    def _gain(self, compile_s: float, faster: float) -> float:
        return (self.steps_s + compile_s) / (self.steps_s / faster + self.remaining_s)


def estimate_compile_time(diagnosis: WorkloadDiagnosis, multiple: int = 0) -> CompileTime | None:
    """What compiling anew comes to; None where it does not happen, or the length is not known.

    Args:
        diagnosis: Of the training.
        multiple: Of which lengths are to be made multiples; 0 where nothing is to be compiled.
    """
    new, work = diagnosis.varying_shapes, diagnosis.workload
    steps = (work.steps_per_epoch or 0) * work.epochs
    if new is None or not steps:
        return None
    # One shape is compiled in any case.
    one_s = new.compile_s_per_shape + new.trace_s_per_shape
    least_s, likely_s, most_s = (
        (min(shapes, steps) - 1) * one_s
        for shapes in (new.shape_count, new.expected_shape_count, steps)
    )
    left = next(
        (each.expected_shape_count for each in new.padded_shapes if each.multiple == multiple), 1.0
    )
    left, left_s = (left, one_s) if multiple else (new.expected_shape_count, new.trace_s_per_shape)
    return CompileTime(
        steps_s=steps * _compiled_s(diagnosis),
        min_compile_s=least_s,
        expected_compile_s=likely_s,
        max_compile_s=most_s,
        remaining_s=(min(left, steps) - 1) * left_s,
    )


def with_compile_share(diagnosis: WorkloadDiagnosis) -> WorkloadDiagnosis:
    """The same, what its steps wait for the compiler taken from what they wait for input.

    Both are what a step takes longer than on batches from memory. Of these the input can take no
    more than it takes to make a batch by itself.
    """
    anew, supply = estimate_compile_time(diagnosis), diagnosis.ceilings.get("supply", 0.0)
    waited = diagnosis.breakdown.get("input", 0.0)
    new = diagnosis.varying_shapes
    if anew is None or new is None or new.shape_count < _MANY or anew.expected_gain() < _WORTH:
        return diagnosis
    if supply <= 0 or waited <= 0:
        return diagnosis
    own = min(waited, diagnosis.measurement.samples_per_s / supply)
    intervals = dict(diagnosis.breakdown_intervals)
    if "input" in intervals:
        found, part = intervals["input"], own / waited
        high = None if found.high is None else found.high * part
        ends = {"median": found.median * part, "low": found.low * part, "high": high}
        intervals["input"] = replace(found, **ends)
    breakdown = {**diagnosis.breakdown, "input": own, "compile": waited - own}
    return replace(diagnosis, breakdown=breakdown, breakdown_intervals=intervals)


def _compiled_s(diagnosis: WorkloadDiagnosis) -> float:
    """Of a compiled step: while it was measured as it runs, new shapes were compiled on the way."""
    found = (diagnosis.ceilings.get(name, 0.0) for name in ("consumer", "supply"))
    most = min((ceiling for ceiling in found if ceiling > 0), default=0.0)
    measured = diagnosis.measurement.samples_per_s
    return diagnosis.step_s * (measured / most if most > measured else 1.0)


def compile_comparison(compile_time: CompileTime, comparison: Comparison) -> Comparison:
    """What a comparison of compiled steps with ones that need less compiling says of a training.

    Args:
        compile_time: Of the training as it is.
        comparison: Of the steps alone.

    Example:
        Steps that are a little slower, in a training of which compiling takes two thirds:

        >>> from uncork.core.base.measurement import compare
        >>> anew = CompileTime(
        ...     steps_s=10.0, min_compile_s=20.0, expected_compile_s=20.0, max_compile_s=90.0
        ... )
        >>> round(compile_comparison(anew, compare([1.0, 1.0], [0.9, 0.9])).ratio, 2)
        2.7
    """
    likely = scale_comparison(comparison, compile_time.expected_gain)
    slower = likely.high is not None and likely.high < 1.0
    return Comparison(
        ratio=likely.ratio,
        low=compile_time.min_gain(comparison.low),
        high=likely.high,
        n=comparison.n,
        verdict=comparison.verdict if comparison.verdict == "faster" or slower else "not_proven",
        min_detectable_ratio=likely.min_detectable_ratio,
    )
