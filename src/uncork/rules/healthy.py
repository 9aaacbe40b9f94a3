"""No bottleneck that is worth removing: ``healthy``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.costmodel.run_breakdown import is_near_ceiling
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP


def find(diagnosis: WorkloadDiagnosis) -> Iterator[Finding]:
    """The only finding of a training that runs as fast as this machine allows.

    None where the noise hides too much of a step, or the training is not within 10 % of its
    ceiling, whether or not a rule knows why.
    """
    if not is_near_ceiling(diagnosis):
        return
    share = diagnosis.breakdown.get("step", 0.0)
    yield Finding(
        cause="healthy",
        share=share,
        upper_bound=1.0,
        at=diagnosis.workload.at,
        evidence=(
            f"the training step itself takes {share:.0%} of each step; no single bottleneck is "
            f"worth {MIN_FINDING_SPEEDUP - 1:.0%} or more"
        ),
        remedy="nothing worth doing here",
    )
