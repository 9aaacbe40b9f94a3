"""A step that is compiled again and again, without need: ``recompiling``.

By XLA for each new shape of a batch; or because the script makes a new function for each epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.batches import VaryingShapes
from uncork.core.evidence.loop import RecreatedFunction
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, speedup_bound

# Of Keras, and of a loop of one's own.
_WITHOUT: Final = ("compile(..., jit_compile=False)", "@tf.function without jit_compile")


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding for each of the two."""
    del machine
    if diagnosis.varying_shapes is not None:
        yield from _of_shapes(diagnosis, diagnosis.varying_shapes)
    if diagnosis.recreated_function is not None:
        yield from _of_epochs(diagnosis, diagnosis.recreated_function)


def _of_shapes(diagnosis: WorkloadDiagnosis, new: VaryingShapes) -> Iterator[Finding]:
    """With what compiling comes to over the whole training."""
    work, anew = diagnosis.workload, estimate_compile_time(diagnosis)
    if anew is None:
        return
    low, upper, high = (
        speedup_bound(anew.steps_s + compile_s, anew.steps_s)
        for compile_s in (anew.min_compile_s, anew.expected_compile_s, anew.max_compile_s)
    )
    if upper < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause="recompiling",
        share=1 - 1 / upper,
        upper_bound=upper,
        upper_bound_interval=(low, high),
        at=work.step_setup_at or work.at,
        evidence=(
            f"{new.batch_count} batches have {new.shape_count} different shapes; XLA compiles the "
            "step for each shape, which takes "
            f"{format_ms(new.compile_s_per_shape + new.trace_s_per_shape)}; without that, a step "
            f"takes {format_ms(anew.steps_s / (work.epochs * (work.steps_per_epoch or 1)))}"
        ),
        remedy=f"pad batches to a few lengths, or use {_WITHOUT[work.kind == 'custom_loop']}",
        share_of="the training",
    )


def _of_epochs(diagnosis: WorkloadDiagnosis, remade: RecreatedFunction) -> Iterator[Finding]:
    """With what it takes beside an epoch; one function for all of them is traced once."""
    steps = diagnosis.workload.steps_per_epoch
    if not steps:
        return
    epoch_s = steps * diagnosis.step_s
    upper = speedup_bound(epoch_s + remade.first_call_extra_s, epoch_s)
    if upper < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause="recompiling",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=remade.at or diagnosis.workload.at,
        evidence=(
            "the script creates a new function for each epoch: to trace and compile it takes "
            f"{remade.first_call_extra_s:.2g} s; an epoch of {steps:,} steps takes {epoch_s:.2g} s"
        ),
        remedy="define the tf.function once, outside the loop and the function that contains it",
        share_of="an epoch",
    )
