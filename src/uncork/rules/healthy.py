"""No bottleneck that is worth removing: ``healthy``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP

# Ratio of what the training step allows to what was measured.
_TOO_MUCH: Final = 1.5


def find(diagnosis: WorkloadDiagnosis) -> Iterator[Finding]:
    """The only finding of a training that runs as fast as this machine allows.

    None where the noise hides too much of a step, or much is to be won and no rule knows how.
    """
    share = diagnosis.breakdown.get("step", 0.0)
    if diagnosis.is_inconclusive or diagnosis.headroom > _TOO_MUCH:
        return
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
