"""Pairs of figures that cannot both hold, and what the measurement that decides makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from uncork.core.base.measurement import Spread
from uncork.core.base.record import Record, replace
from uncork.core.costmodel.run_breakdown import unexplained_wait_s
from uncork.core.documents.diagnosis import MIN_PART_SHARE, WorkloadDiagnosis
from uncork.core.evidence.batches import RecordedBatches

Deciding = Literal["recorded batches"]
# Times as fast as the step can be, by its ceiling: more than noise.
_TOO_FAST: Final = 1.1
# Times as long on a batch that is new to the step: it was traced or compiled for it.
_COMPILED: Final = 1.5


class Contradiction(Record, frozen=True, kw_only=True):
    """Two figures of one diagnosis that cannot both hold.

    Attributes:
        figures: Both, as a sentence without its end.
        deciding: The measurement that says which one is wrong.
    """

    figures: str
    deciding: Deciding = "recorded batches"


def find_contradictions(diagnosis: WorkloadDiagnosis) -> tuple[Contradiction, ...]:
    """All of :data:`PAIRS` that contradict each other in a diagnosis of a ``fit``.

    A loop of the user's own waits for whatever stands in it beside its step, input or not.

    Args:
        diagnosis: As measured, before :func:`decide`.
    """
    if diagnosis.workload.kind != "fit" or diagnosis.workload.is_fit_in_loop:
        return ()
    return tuple(found for pair in PAIRS for found in pair(diagnosis))


def _wait_without_reason(diagnosis: WorkloadDiagnosis) -> Iterator[Contradiction]:
    """Steps wait for an input that by itself is much faster."""
    if unexplained_wait_s(diagnosis) > MIN_PART_SHARE * diagnosis.step_s:
        yield Contradiction(
            figures=(
                f"steps wait {diagnosis.breakdown.get('input', 0.0):.0%} of their time for input, "
                f"which alone supplies {diagnosis.ceilings['supply']:,.0f} samples/s where "
                f"{diagnosis.measurement.samples_per_s:,.0f} are trained"
            )
        )


def _faster_than_its_ceiling(diagnosis: WorkloadDiagnosis) -> Iterator[Contradiction]:
    """The training is faster than its step on one batch from memory."""
    ceiling = diagnosis.ceilings.get("consumer", 0.0)
    measured = diagnosis.measurement.samples_per_s
    if 0 < _TOO_FAST * ceiling < measured:
        yield Contradiction(
            figures=(
                f"the training runs at {measured:,.0f} samples/s, its step alone, on one batch "
                f"from memory, at {ceiling:,.0f}"
            )
        )


def _epoch_longer_than_its_steps(diagnosis: WorkloadDiagnosis) -> Iterator[Contradiction]:
    """A new iterator takes long until its first steps, which the time of a step does not show."""
    steps, warmup_s = diagnosis.workload.steps_per_epoch or 0, diagnosis.measurement.warmup_s
    epoch_s = steps * diagnosis.step_s
    if epoch_s > 0 and warmup_s > MIN_PART_SHARE * (epoch_s + warmup_s) and warmup_s > _WARM_S:
        yield Contradiction(
            figures=(
                f"the {steps:,} steps of an epoch take {epoch_s:.2g} s; from a new iterator to "
                f"steps of steady length it takes {warmup_s:.2g} s"
            )
        )


# Seconds of a block that pass before it is timed in any case.
_WARM_S: Final = 1.0
PAIRS: Final[tuple[Callable[[WorkloadDiagnosis], Iterator[Contradiction]], ...]] = (
    _wait_without_reason,
    _faster_than_its_ceiling,
    _epoch_longer_than_its_steps,
)


def decide(diagnosis: WorkloadDiagnosis) -> WorkloadDiagnosis:
    """The same, its shares by what different batches from memory have shown.

    What the training takes longer than on all of them is the wait; the rest is the step's own. Of
    the wait, what a batch takes when the step meets it for the first time, and no more when it
    comes again, is compiling.

    Args:
        diagnosis: With its ``recorded_batches``; any other stays as it is.
    """
    kept = diagnosis.recorded_batches
    if kept is None or kept.known_step_s <= 0:
        return diagnosis
    return _with_compiling(_with_wait(diagnosis, _wait(diagnosis, kept)), kept)


def _wait(diagnosis: WorkloadDiagnosis, kept: RecordedBatches) -> Spread:
    """Part of a step that is lost beyond the step on different batches from memory.

    Of two measurements of it the smaller one, where the input by itself is fast: it says so, too.
    """
    step = 1.0 - kept.known_step_s / diagnosis.step_s
    found = kept.wait or Spread(median=step, low=step, high=step, n=1)
    before = diagnosis.breakdown_intervals.get("input")
    is_waiting = diagnosis.breakdown.get("input", 0.0) > 0
    if before is not None and is_waiting and before.median < found.median:
        return before
    return found


def _with_wait(diagnosis: WorkloadDiagnosis, wait: Spread) -> WorkloadDiagnosis:
    """With another share of waiting for input; what it loses or gains is the step's."""
    others = ("host", "unknown", "compile")
    taken = {name: diagnosis.breakdown.get(name, 0.0) for name in others}
    if diagnosis.breakdown.get("input", 0.0) <= 0:  # its noise is told anew
        taken["unknown"] = 0.0
    left = max(0.0, 1.0 - sum(taken.values()))
    waited = min(left, max(0.0, wait.median))
    is_proven = wait.low > 0
    breakdown = {
        **diagnosis.breakdown,
        **{name: share for name, share in taken.items() if name in diagnosis.breakdown},
        "input": waited if is_proven else 0.0,
        "step": left - waited,
        "unknown": taken["unknown"] + (0.0 if is_proven else waited),
    }
    samples_per_s = diagnosis.measurement.samples_per_s
    speedup = 1.0 / max(1e-9, 1.0 - waited - taken["compile"])
    return replace(
        diagnosis,
        breakdown=breakdown,
        breakdown_intervals={**diagnosis.breakdown_intervals, "input": wait},
        ceilings={**diagnosis.ceilings, "consumer": samples_per_s * speedup},
        headroom=max(1.0, speedup),
    )


def _with_compiling(diagnosis: WorkloadDiagnosis, kept: RecordedBatches) -> WorkloadDiagnosis:
    """With what new batches take moved from the wait for input to compiling."""
    waited, supply = diagnosis.breakdown.get("input", 0.0), diagnosis.ceilings.get("supply", 0.0)
    if kept.new_step_s < _COMPILED * kept.known_step_s or waited <= 0:
        return diagnosis
    own = min(waited, diagnosis.measurement.samples_per_s / supply) if supply > 0 else 0.0
    anew = min(waited - own, (kept.new_step_s - kept.known_step_s) / diagnosis.step_s)
    compiling = diagnosis.breakdown.get("compile", 0.0) + anew
    breakdown = {**diagnosis.breakdown, "input": waited - anew, "compile": compiling}
    found, part = diagnosis.breakdown_intervals["input"], (waited - anew) / waited
    high = None if found.high is None else found.high * part
    ends = {"median": found.median * part, "low": found.low * part, "high": high}
    intervals = {**diagnosis.breakdown_intervals, "input": replace(found, **ends)}
    return replace(diagnosis, breakdown=breakdown, breakdown_intervals=intervals)
