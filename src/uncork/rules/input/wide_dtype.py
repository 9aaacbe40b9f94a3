"""Numbers of eight bytes where four would do: ``wide_dtype``.

NumPy divides integers into float64, and every op behind it keeps that width until something narrows
the result for the model, which computes in float32 at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import WORTH, bound, input_share, interval, ms, place, wide_casts

# Of a stage's CPU time.
_TRIFLE: Final = 0.05


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each map or loader that was seen to cost much less in single precision."""
    if input_share(diagnosis) <= 1 - 1 / WORTH:
        return
    costs = costs_of(diagnosis, machine.cpus)
    for stage in diagnosis.stages:
        narrow = costs.narrowed(stage.index)
        spared_s = costs.cpu_s() - narrow.cpu_s()
        if spared_s <= _TRIFLE * (stage.cpu_s_per_step or 0.0):
            continue
        cast_s = _cast_s(diagnosis) if stage.python else 0.0
        narrow = narrow.with_step_sparing(cast_s, cast_s)
        upper = bound(diagnosis.step_s, narrow.step_s())
        if min(gain(costs, narrow), upper) < WORTH:
            continue
        verb = "reads and hands over" if stage.python else "computes in"
        yield Finding(
            cause="wide_dtype",
            share=min(input_share(diagnosis), 1 - 1 / upper),
            upper_bound=upper,
            interval=None if cast_s else interval(diagnosis, "input", upper),
            at=stage.wide_at or stage.at,
            evidence=(
                f"{place(stage)} {verb} float64, {ms(stage.cpu_s_per_step)} of CPU a step; "
                f"the same in float32 took {ms(spared_s)} less"
            ),
            remedy='astype("float32") where the numbers come from, or tf.cast first in the map',
        )


def _cast_s(diagnosis: WorkloadDiagnosis) -> float:
    """What the step takes to narrow the batch that a loader hands over."""
    in_step_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0)
    return in_step_s * sum(part.of_batch for part in wide_casts(diagnosis))
