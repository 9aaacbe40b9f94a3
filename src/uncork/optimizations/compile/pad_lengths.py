"""Fill batches up to few lengths, so that XLA compiles the step for few.

XLA compiles for exact shapes. Rows that are filled up to the longest of their batch have many
lengths, and each new one is another compilation of the whole step, of seconds to minutes. Filled up
a little further, to the next multiple of 32, say, they have few, and XLA's kernels are kept.

Legal as ``rounding`` where what rows are filled up with counts nowhere: a model that masks it, in
its layers, its loss and its metrics. That is not read off the model, but tried: on the same
batches, as they are and filled up, the weights must come out alike, and what the training tells.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.compile_time import compiling_of
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import FillsUp, PadArguments, PadLengths
from uncork.core.evidence.batches import NewShapes
from uncork.optimizations.base.preconditions import no_function_edit, no_pipeline, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)


@final
class FillBatchesUp(Optimization):
    """Make the lengths of a batch multiples of a number."""

    name = "pad_lengths"
    stage = "compile"
    guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Of the multiples that were looked at, the one that promises most."""
        del machine, policy
        work, new = diagnosis.workload, diagnosis.new_shapes
        forbidden = _forbidden(diagnosis)
        if forbidden or new is None:
            return forbidden or Skipped(reason="all batches have one shape")
        gains = {each: _gain(diagnosis, each.multiple, each.larger) for each in new.padded}
        best = max(gains, key=lambda each: (gains[each], -each.multiple))
        if gains[best] < WORTH_TRYING:
            return not_worth(gains[best])
        return Proposal(
            edits=(_edit(diagnosis, best.multiple, new),),
            predicted=gains[best],
            at=work.step_at or work.at,
            why=f"{best.shapes} shapes are compiled where {new.shapes} were seen, of batches "
            f"{best.larger:.2f}x as large",
            source_edit=_source_edit(diagnosis, best.multiple, new),
        )


def _edit(diagnosis: WorkloadDiagnosis, multiple: int, new: NewShapes) -> FillsUp:
    if diagnosis.workload.kind == "custom_loop":
        code = diagnosis.workload.step_code
        return PadArguments(code=code, form=new.form, multiple=multiple, axes=new.axes)
    return PadLengths(multiple=multiple, axes=new.axes, validation=new.validation)


def _forbidden(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    work, new = diagnosis.workload, diagnosis.new_shapes
    if not work.jit_compile:
        return Skipped(reason="XLA is off, and TensorFlow compiles nothing for a new length")
    forbidden = no_step_edit(diagnosis) or no_pipeline(diagnosis)
    if work.kind == "custom_loop":
        forbidden = no_function_edit(diagnosis)
    if forbidden or new is None:
        return forbidden
    if not new.padded:
        return Skipped(
            reason="what differs is no length, or nobody knows what rows are filled up with, or "
            "they are filled up already"
        )
    if not work.steps_per_epoch:
        return Skipped(
            reason="nobody knows of how many steps the training is: "
            ".apply(tf.data.experimental.assert_cardinality(n)) tells it"
        )
    return None


def _gain(diagnosis: WorkloadDiagnosis, multiple: int, larger: float) -> float:
    """A step is taken to cost by the numbers of its batch; 1 where the steps are not known."""
    compiling = compiling_of(diagnosis, multiple)
    return compiling.likely_gain(1 / larger) if compiling else 1.0


def _source_edit(diagnosis: WorkloadDiagnosis, multiple: int, new: NewShapes) -> str:
    """Of the first axis; where there are more, what they are."""
    first, *others = new.axes
    whose, use = (
        (f"tensor {first.tensor} of a batch", "dataset = dataset.map(lambda x, y: (fill_up(x), y))")
        if diagnosis.workload.kind == "fit"
        else ("an argument of the step", "loss = train_step(fill_up(x), y)")
    )
    value = "" if not first.fill else f", constant_values={first.fill:g}"
    before = ", ".join(["[0, 0]"] * first.axis)
    told = "".join(
        f"\n# likewise axis {each.axis} of tensor {each.tensor}, up to {each.longest}"
        for each in others
    )
    validated = "\n# likewise the dataset that is validated on" if new.validation else ""
    return (
        f"def fill_up(rows):  # {whose}\n"
        f"    n = tf.shape(rows)[{first.axis}]\n"
        f"    missing = tf.maximum(0, tf.minimum(n + -n % {multiple}, {first.longest}) - n)\n"
        f"    return tf.pad(rows, [{before}, [0, missing]]{value})\n"
        f"{use}{told}{validated}"
    )
