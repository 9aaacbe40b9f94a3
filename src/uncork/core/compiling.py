"""What XLA takes to compile a step anew for each shape of a batch: a part of a training's time."""

from __future__ import annotations

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.measurement import Comparison
from uncork.core.record import Record
from uncork.core.validating import in_whole


class Compiling(Record, frozen=True, kw_only=True):
    """What a whole training takes, in seconds.

    Attributes:
        steps_s: Its steps, each of a shape that is compiled.
        least_s: To compile the step for the shapes that were seen, but for the first.
        likely_s: For those that there are, ones not seen yet included.
        most_s: If each step had another one.
    """

    steps_s: float
    least_s: float
    likely_s: float
    most_s: float

    @property
    def least_gain(self) -> float:
        """Speed-up where nothing is compiled, but for shapes that nobody has seen."""
        return (self.steps_s + self.least_s) / self.steps_s

    @property
    def likely_gain(self) -> float:
        """The same of all shapes that there are."""
        return (self.steps_s + self.likely_s) / self.steps_s


def compiling_of(diagnosis: WorkloadDiagnosis) -> Compiling | None:
    """What compiling anew comes to; None where it does not happen, or the length is not known."""
    new, work = diagnosis.new_shapes, diagnosis.workload
    steps = (work.steps_per_epoch or 0) * work.epochs
    if new is None or not steps:
        return None
    # One shape is compiled in any case.
    least_s, likely_s, most_s = (
        (min(shapes, steps) - 1) * new.compile_s for shapes in (new.shapes, new.expected, steps)
    )
    steps_s = steps * _compiled_s(diagnosis)
    return Compiling(steps_s=steps_s, least_s=least_s, likely_s=likely_s, most_s=most_s)


def _compiled_s(diagnosis: WorkloadDiagnosis) -> float:
    """Of a compiled step: while it was measured as it runs, new shapes were compiled on the way."""
    found = (diagnosis.ceilings.get(name, 0.0) for name in ("consumer", "supply"))
    most = min((ceiling for ceiling in found if ceiling > 0), default=0.0)
    measured = diagnosis.measurement.samples_per_s
    return diagnosis.step_s * (measured / most if most > measured else 1.0)


def compiling_comparison(compiling: Compiling, found: Comparison) -> Comparison:
    """What a comparison of compiled steps with ones that need no compiling says of a training.

    Args:
        compiling: Of the training as it is.
        found: Of the steps alone.

    Example:
        Steps that are a little slower, in a training of which compiling takes two thirds:

        >>> from uncork.core.measurement import compare
        >>> anew = Compiling(steps_s=10.0, least_s=20.0, likely_s=20.0, most_s=90.0)
        >>> round(compiling_comparison(anew, compare([1.0, 1.0], [0.9, 0.9])).ratio, 2)
        2.7
    """
    likely = in_whole(found, lambda faster: compiling.likely_gain * faster)
    slower = likely.high is not None and likely.high < 1.0
    return Comparison(
        ratio=likely.ratio,
        low=compiling.least_gain * found.low,
        high=likely.high,
        n=found.n,
        verdict=found.verdict if found.verdict == "faster" or slower else "not_proven",
        detectable=likely.detectable,
    )
