"""A step that is compiled again and again, without need: ``recompiling``.

By XLA for each new shape of a batch; or because the script makes a new function for each epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.compile_time import compiling_of
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.batches import NewShapes
from uncork.core.evidence.loop import Remade
from uncork.rules.base.thresholds import WORTH, bound, ms

# Of Keras, and of a loop of one's own.
_WITHOUT: Final = ("compile(..., jit_compile=False)", "@tf.function without jit_compile")


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding for each of the two."""
    del machine
    if diagnosis.new_shapes is not None:
        yield from _of_shapes(diagnosis, diagnosis.new_shapes)
    if diagnosis.remade is not None:
        yield from _of_epochs(diagnosis, diagnosis.remade)


def _of_shapes(diagnosis: WorkloadDiagnosis, new: NewShapes) -> Iterator[Finding]:
    """With what compiling comes to over the whole training."""
    work, anew = diagnosis.workload, compiling_of(diagnosis)
    if anew is None:
        return
    low, upper, high = (
        bound(anew.steps_s + compile_s, anew.steps_s)
        for compile_s in (anew.least_s, anew.likely_s, anew.most_s)
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
            f"for each, which takes {ms(new.compile_s + new.trace_s)}, and a step takes "
            f"{ms(anew.steps_s / (work.epochs * (work.steps_per_epoch or 1)))} without that"
        ),
        remedy=f"pad batches to a few lengths, or {_WITHOUT[work.kind == 'custom_loop']}",
        of="the training",
    )


def _of_epochs(diagnosis: WorkloadDiagnosis, remade: Remade) -> Iterator[Finding]:
    """With what it takes beside an epoch; one function for all of them is traced once."""
    steps = diagnosis.workload.steps_per_epoch
    if not steps:
        return
    epoch_s = steps * diagnosis.step_s
    upper = bound(epoch_s + remade.first_s, epoch_s)
    if upper < WORTH:
        return
    yield Finding(
        cause="recompiling",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=remade.at or diagnosis.workload.at,
        evidence=(
            f"a new function is made for each epoch: to trace and compile it takes "
            f"{remade.first_s:.2g} s, and an epoch of {steps:,} steps takes {epoch_s:.2g} s"
        ),
        remedy="define the tf.function once, outside the loop and the function that holds it",
        of="an epoch",
    )
