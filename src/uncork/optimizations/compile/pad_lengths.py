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

from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.edits.step import PadArguments, PaddingEdit, PadLengths
from uncork.core.evidence.batches import VaryingShapes
from uncork.optimizations.base.preconditions import any_step_refusal, pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _xla_refusal(context: Context) -> str:
    if context.workload.jit_compile:
        return ""
    return "XLA is off, and TensorFlow compiles nothing for a new length"


def _data_refusal(context: Context) -> str:
    return "" if context.is_loop else pipeline_refusal(context)


def _shape_refusal(context: Context) -> str:
    shapes = context.diagnosis.varying_shapes
    if shapes is None:
        return "all batches have one shape"
    if not shapes.padded_shapes:
        return (
            "what differs is no length, or nobody knows what rows are filled up with, or "
            "they are filled up already"
        )
    if not context.workload.steps_per_epoch:
        return (
            "nobody knows of how many steps the training is: "
            ".apply(tf.data.experimental.assert_cardinality(n)) tells it"
        )
    return ""


@final
class PadLengthsOptimization(Optimization):
    """Make the lengths of a batch multiples of a number."""

    name = "pad_lengths"
    stage = "compile"
    guarantee = "rounding"
    preconditions = (_xla_refusal, any_step_refusal, _data_refusal, _shape_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Of the multiples that were looked at, the one that promises most."""
        work, new = context.workload, context.diagnosis.varying_shapes
        assert new is not None
        gains = {each: _gain(context, each.multiple, each.size_ratio) for each in new.padded_shapes}
        best = max(gains, key=lambda each: (gains[each], -each.multiple))
        return Proposal(
            edits=(_edit(context, best.multiple, new),),
            predicted=gains[best],
            at=work.step_setup_at or work.at,
            rationale=(
                f"{best.shape_count} shapes are compiled where {new.shape_count} were seen, of "
                f"batches {best.size_ratio:.2f}x as large"
            ),
            source_edit=_source_edit(context, best.multiple, new),
        )


def _edit(context: Context, multiple: int, new: VaryingShapes) -> PaddingEdit:
    if context.is_loop:
        code = context.workload.step_code_digest
        return PadArguments(
            code_digest=code, call_signature=new.call_signature, multiple=multiple, axes=new.axes
        )
    return PadLengths(multiple=multiple, axes=new.axes, has_validation=new.has_validation)


def _gain(context: Context, multiple: int, larger: float) -> float:
    """A step is taken to cost by the numbers of its batch; 1 where the steps are not known."""
    compiling = estimate_compile_time(context.diagnosis, multiple)
    return compiling.expected_gain(1 / larger) if compiling else 1.0


def _source_edit(context: Context, multiple: int, new: VaryingShapes) -> str:
    """Of the first axis; where there are more, what they are."""
    first, *others = new.axes
    whose, use = (
        (
            f"tensor {first.tensor_index} of a batch",
            "dataset = dataset.map(lambda x, y: (fill_up(x), y))",
        )
        if not context.is_loop
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
