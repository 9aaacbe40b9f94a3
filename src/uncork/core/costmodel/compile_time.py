"""What XLA takes to compile a step anew for each shape of a batch: a part of a training's time."""

from __future__ import annotations

import math
from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.base.record import Record, replace
from uncork.core.costmodel.validation_time import in_whole
from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of the whole training, what a finding must promise.
_WORTH: Final = 1.1
# Fewer shapes are all compiled before anything is measured.
_MANY: Final = 8


class Compiling(Record, frozen=True, kw_only=True):
    """What a whole training takes, in seconds.

    Attributes:
        steps_s: Its steps, each of a shape that is compiled.
        least_s: To trace and compile it for the shapes that were seen, but for the first.
        likely_s: For those that there are, ones not seen yet included.
        most_s: If each step had another one.
        rest_s: What is still to be done for batches that are filled up to few shapes; or without
            XLA, where the step is traced for each of them.
    """

    steps_s: float
    least_s: float
    likely_s: float
    most_s: float
    rest_s: float = 0.0

    def least_gain(self, faster: float = 1.0) -> float:
        """Speed-up of the whole by what is compiled no more, of the shapes that were seen alone.

        Args:
            faster: Speed-up of the steps themselves.
        """
        return self._gain(self.least_s, faster)

    def likely_gain(self, faster: float = 1.0) -> float:
        """The same of all shapes that there are."""
        return self._gain(self.likely_s, faster)

    def faster_for(self, gain: float) -> float:
        """How many times as fast the steps must be for such a least gain of the whole."""
        left_s = (self.steps_s + self.least_s) / gain - self.rest_s
        return self.steps_s / left_s if left_s > 0 else math.inf

    def _gain(self, compile_s: float, faster: float) -> float:
        return (self.steps_s + compile_s) / (self.steps_s / faster + self.rest_s)


def compiling_of(diagnosis: WorkloadDiagnosis, multiple: int = 0) -> Compiling | None:
    """What compiling anew comes to; None where it does not happen, or the length is not known.

    Args:
        diagnosis: Of the training.
        multiple: Of which lengths are to be made multiples; 0 where nothing is to be compiled.
    """
    new, work = diagnosis.new_shapes, diagnosis.workload
    steps = (work.steps_per_epoch or 0) * work.epochs
    if new is None or not steps:
        return None
    # One shape is compiled in any case.
    one_s = new.compile_s + new.trace_s
    least_s, likely_s, most_s = (
        (min(shapes, steps) - 1) * one_s for shapes in (new.shapes, new.expected, steps)
    )
    left = next((each.expected for each in new.padded if each.multiple == multiple), 1.0)
    left, left_s = (left, one_s) if multiple else (new.expected, new.trace_s)
    return Compiling(
        steps_s=steps * _compiled_s(diagnosis),
        least_s=least_s,
        likely_s=likely_s,
        most_s=most_s,
        rest_s=(min(left, steps) - 1) * left_s,
    )


def with_compiling(diagnosis: WorkloadDiagnosis) -> WorkloadDiagnosis:
    """The same, what its steps wait for the compiler taken from what they wait for input.

    Both are what a step takes longer than on batches from memory. Of these the input can take no
    more than it takes to make a batch by itself.
    """
    anew, supply = compiling_of(diagnosis), diagnosis.ceilings.get("supply", 0.0)
    waited = diagnosis.breakdown.get("input", 0.0)
    new = diagnosis.new_shapes
    if anew is None or new is None or new.shapes < _MANY or anew.likely_gain() < _WORTH:
        return diagnosis
    if supply <= 0 or waited <= 0:
        return diagnosis
    own = min(waited, diagnosis.measurement.samples_per_s / supply)
    intervals = dict(diagnosis.intervals)
    if "input" in intervals:
        found, part = intervals["input"], own / waited
        high = None if found.high is None else found.high * part
        ends = {"median": found.median * part, "low": found.low * part, "high": high}
        intervals["input"] = replace(found, **ends)
    breakdown = {**diagnosis.breakdown, "input": own, "compile": waited - own}
    return replace(diagnosis, breakdown=breakdown, intervals=intervals)


def _compiled_s(diagnosis: WorkloadDiagnosis) -> float:
    """Of a compiled step: while it was measured as it runs, new shapes were compiled on the way."""
    found = (diagnosis.ceilings.get(name, 0.0) for name in ("consumer", "supply"))
    most = min((ceiling for ceiling in found if ceiling > 0), default=0.0)
    measured = diagnosis.measurement.samples_per_s
    return diagnosis.step_s * (measured / most if most > measured else 1.0)


def compiling_comparison(compiling: Compiling, found: Comparison) -> Comparison:
    """What a comparison of compiled steps with ones that need less compiling says of a training.

    Args:
        compiling: Of the training as it is.
        found: Of the steps alone.

    Example:
        Steps that are a little slower, in a training of which compiling takes two thirds:

        >>> from uncork.core.base.measurement import compare
        >>> anew = Compiling(steps_s=10.0, least_s=20.0, likely_s=20.0, most_s=90.0)
        >>> round(compiling_comparison(anew, compare([1.0, 1.0], [0.9, 0.9])).ratio, 2)
        2.7
    """
    likely = in_whole(found, compiling.likely_gain)
    slower = likely.high is not None and likely.high < 1.0
    return Comparison(
        ratio=likely.ratio,
        low=compiling.least_gain(found.low),
        high=likely.high,
        n=found.n,
        verdict=found.verdict if found.verdict == "faster" or slower else "not_proven",
        detectable=likely.detectable,
    )
