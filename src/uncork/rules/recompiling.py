"""A step that XLA compiles anew for each new shape of a batch: ``recompiling``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, ms


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, with what compiling comes to over the whole training."""
    del machine
    new, work = diagnosis.new_shapes, diagnosis.workload
    steps = (work.steps_per_epoch or 0) * work.epochs
    if new is None or not steps:
        return
    trained_s = steps * diagnosis.step_s
    # One shape is compiled in any case.
    low, upper, high = (
        bound(trained_s + (min(shapes, steps) - 1) * new.compile_s, trained_s)
        for shapes in (new.shapes, new.expected, steps)
    )
    if upper < WORTH:
        return
    yield Finding(
        cause="recompiling",
        share=1 - 1 / upper,
        upper_bound=upper,
        interval=(low, high),
        at=work.step_at or work.at,
        evidence=(
            f"{new.batches} batches have {new.shapes} different shapes; XLA compiles the step anew "
            f"for each, which takes {ms(new.compile_s)}, and a step takes {ms(diagnosis.step_s)}"
        ),
        remedy="pad batches to a few lengths, or compile without jit_compile=True",
    )
