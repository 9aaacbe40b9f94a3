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
from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import PadArguments, PaddingEdit, PadLengths
from uncork.core.evidence.batches import VaryingShapes
from uncork.optimizations.base.preconditions import (
    function_edit_refusal,
    pipeline_refusal,
    step_edit_refusal,
)
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class PadLengthsOptimization(Optimization):
    """Make the lengths of a batch multiples of a number."""

    name = "pad_lengths"
    stage = "compile"
    guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Of the multiples that were looked at, the one that promises most."""
        del machine, policy
        work, new = diagnosis.workload, diagnosis.varying_shapes
        forbidden = _forbidden(diagnosis)
        if forbidden or new is None:
            return forbidden or Skipped(reason="all batches have one shape")
        gains = {
            each: _gain(diagnosis, each.multiple, each.size_ratio) for each in new.padded_shapes
        }
        best = max(gains, key=lambda each: (gains[each], -each.multiple))
        if gains[best] < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(gains[best])
        return Proposal(
            edits=(_edit(diagnosis, best.multiple, new),),
            predicted=gains[best],
            at=work.step_setup_at or work.at,
            rationale=(
                f"{best.shape_count} shapes are compiled where {new.shape_count} were seen, of "
                "batches "
                f"{best.size_ratio:.2f}x as large"
            ),
            source_edit=_source_edit(diagnosis, best.multiple, new),
        )


def _edit(diagnosis: WorkloadDiagnosis, multiple: int, new: VaryingShapes) -> PaddingEdit:
    if diagnosis.workload.kind == "custom_loop":
        code = diagnosis.workload.step_code_digest
        return PadArguments(
            code_digest=code, call_signature=new.call_signature, multiple=multiple, axes=new.axes
        )
    return PadLengths(multiple=multiple, axes=new.axes, has_validation=new.has_validation)


def _forbidden(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    work, new = diagnosis.workload, diagnosis.varying_shapes
    if not work.jit_compile:
        return Skipped(reason="XLA is off, and TensorFlow compiles nothing for a new length")
    forbidden = step_edit_refusal(diagnosis) or pipeline_refusal(diagnosis)
    if work.kind == "custom_loop":
        forbidden = function_edit_refusal(diagnosis)
    if forbidden or new is None:
        return forbidden
    if not new.padded_shapes:
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
    compiling = estimate_compile_time(diagnosis, multiple)
    return compiling.expected_gain(1 / larger) if compiling else 1.0


def _source_edit(diagnosis: WorkloadDiagnosis, multiple: int, new: VaryingShapes) -> str:
    """Of the first axis; where there are more, what they are."""
    first, *others = new.axes
    whose, use = (
        (
            f"tensor {first.tensor_index} of a batch",
            "dataset = dataset.map(lambda x, y: (fill_up(x), y))",
        )
        if diagnosis.workload.kind == "fit"
        else ("an argument of the step", "loss = train_step(fill_up(x), y)")
    )
    value = "" if not first.padding_value else f", constant_values={first.padding_value:g}"
    before = ", ".join(["[0, 0]"] * first.axis)
    told = "".join(
        f"\n# likewise axis {each.axis} of tensor {each.tensor_index}, up to {each.max_length}"
        for each in others
    )
    validated = "\n# likewise the dataset that is validated on" if new.has_validation else ""
    return (
        f"def fill_up(rows):  # {whose}\n"
        f"    n = tf.shape(rows)[{first.axis}]\n"
        f"    missing = tf.maximum(0, tf.minimum(n + -n % {multiple}, {first.max_length}) - n)\n"
        f"    return tf.pad(rows, [{before}, [0, missing]]{value})\n"
        f"{use}{told}{validated}"
    )
