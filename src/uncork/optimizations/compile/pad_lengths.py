"""Pad batches to few lengths, so that XLA compiles the step for few shapes.

XLA compiles for exact shapes. Rows that are padded to the longest of their batch have many lengths,
and each new length compiles the whole step again, which takes seconds to minutes. Padded a little
further, to the next multiple of 32 for example, they have few, and XLA reuses its kernels.

Legal as ``rounding`` where the padding has no effect: the model masks it in its layers, its loss
and its metrics. Uncork does not infer that from the model, but tests it: on the same batches, with
and without more padding, the weights and the reported metrics must be equal.
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
    return "XLA is off, so TensorFlow compiles nothing for a new length"


def _data_refusal(context: Context) -> str:
    return "" if context.is_loop else pipeline_refusal(context)


def _shape_refusal(context: Context) -> str:
    shapes = context.diagnosis.varying_shapes
    if shapes is None:
        return "all batches have one shape"
    if not shapes.padded_shapes:
        return (
            "the shapes differ in other axes than lengths, or the padding value is unknown, or "
            "the rows are padded already"
        )
    if not context.workload.steps_per_epoch:
        return (
            "the number of steps of an epoch is unknown: "
            "set it with .apply(tf.data.experimental.assert_cardinality(n))"
        )
    return ""


@final
class PadLengthsOptimization(Optimization):
    """Pad the lengths of a batch to multiples of a number."""

    name = "pad_lengths"
    stage = "compile"
    guarantee = "rounding"
    preconditions = (_xla_refusal, any_step_refusal, _data_refusal, _shape_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the multiple with the largest predicted gain."""
        work, shapes = context.workload, context.diagnosis.varying_shapes
        assert shapes is not None
        gains = {
            each: _gain(context, each.multiple, each.size_ratio) for each in shapes.padded_shapes
        }
        best = max(gains, key=lambda each: (gains[each], -each.multiple))
        return Proposal(
            edits=(_edit(context, best.multiple, shapes),),
            predicted=gains[best],
            at=work.step_setup_at or work.at,
            rationale=(
                f"XLA compiles {best.shape_count} shapes instead of {shapes.shape_count}, for "
                f"batches {best.size_ratio:.2f}x as large"
            ),
            source_edit=_source_edit(context, best.multiple, shapes),
        )


def _edit(context: Context, multiple: int, shapes: VaryingShapes) -> PaddingEdit:
    if context.is_loop:
        code = context.workload.step_code_digest
        return PadArguments(
            code_digest=code,
            call_signature=shapes.call_signature,
            multiple=multiple,
            axes=shapes.axes,
        )
    return PadLengths(multiple=multiple, axes=shapes.axes, has_validation=shapes.has_validation)


def _gain(context: Context, multiple: int, size_ratio: float) -> float:
    """The cost of a step is proportional to the size of its batch; 1 if the steps are unknown."""
    compiling = estimate_compile_time(context.diagnosis, multiple)
    return compiling.expected_gain(1 / size_ratio) if compiling else 1.0


def _source_edit(context: Context, multiple: int, shapes: VaryingShapes) -> str:
    """The padding of the first axis; a comment names the others."""
    first, *others = shapes.axes
    tensor, use = (
        (
            f"tensor {first.tensor_index} of a batch",
            "dataset = dataset.map(lambda x, y: (pad(x), y))",
        )
        if not context.is_loop
        else ("an argument of the step", "loss = train_step(pad(x), y)")
    )
    value = "" if not first.padding_value else f", constant_values={first.padding_value:g}"
    before = ", ".join(["[0, 0]"] * first.axis)
    other_axes = "".join(
        f"\n# also axis {each.axis} of tensor {each.tensor_index}, up to {each.max_length}"
        for each in others
    )
    validation = "\n# also the validation dataset" if shapes.has_validation else ""
    return (
        f"def pad(rows):  # {tensor}\n"
        f"    n = tf.shape(rows)[{first.axis}]\n"
        f"    missing = tf.maximum(0, tf.minimum(n + -n % {multiple}, {first.max_length}) - n)\n"
        f"    return tf.pad(rows, [{before}, [0, missing]]{value})\n"
        f"{use}{other_axes}{validation}"
    )
