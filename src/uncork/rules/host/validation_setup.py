"""A validation that takes much longer a sample than training does: ``validation_setup``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP

# Times as fast on batches from memory.
_WAITING: Final = 1.5
_FEED: Final = "cache the validation data, and run its maps in parallel: 'uncork tune' tries this"
_BATCHES: Final = "use validation batches as large as in training, cached; or validation_freq=N"


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding; its bound is a validation as fast as training on what is in memory."""
    del machine
    found, work = diagnosis.validation, diagnosis.workload
    consumer = diagnosis.ceilings.get("consumer", 0.0)
    if found is None or not work.steps_per_epoch or consumer <= 0:
        return
    epoch_s = work.steps_per_epoch * diagnosis.step_s
    takes_s, could_s = (
        s / found.every_epochs for s in (found.validation_s, found.sample_count / consumer)
    )
    upper = (epoch_s + takes_s) / (epoch_s + min(takes_s, could_s))
    if upper < MIN_FINDING_SPEEDUP:
        return
    share = takes_s / (epoch_s + takes_s)
    waits = found.feed is not None and found.feed.resident_speedup >= _WAITING
    yield Finding(
        cause="validation_setup",
        share=share,
        upper_bound=upper,
        at=found.at or work.at,
        evidence=(
            f"one validation takes {found.validation_s:.2g} s, {share:.0%} of an epoch with its "
            f"validation; the steps of an epoch take {epoch_s:.2g} s; at the speed of the training "
            f"step, a validation would take {found.sample_count / consumer:.2g} s"
        ),
        remedy=_FEED if waits else _BATCHES,
        share_of="an epoch and its validation",
    )
