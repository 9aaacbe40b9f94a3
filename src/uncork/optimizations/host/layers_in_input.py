"""Let the input pipeline run the layers that a model begins with and that learn nothing.

Cutting up text, looking up words, turning and cropping images: inside the model they are part of
the training step, which waits for each of them; beside it they keep other cores busy. Legal because
what they make depends on the batch alone, and the same layers are called on the same batches in the
same order. Only in the graph of the training step does the model go on from there: it is evaluated,
saved and asked to predict as it is. Layers that draw random numbers do so for one batch after the
other, with the numbers that the step would have drawn, but ahead of it: the state of their seeds,
once the training is over or saved in its midst, is further on. That is ``resampled``.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.step import LayersInInput
from uncork.core.evidence.kernels import KernelGroup
from uncork.optimizations.base.preconditions import pipeline_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)


def _data_refusal(context: Context) -> str:
    # Of arrays Keras makes a pipeline.
    return "" if context.workload.data_kind == "numpy" else pipeline_refusal(context)


def _refusal(context: Context) -> str:
    workload = context.workload
    if not workload.preprocessing_layers:
        return "the model begins with a layer that learns, or what it does before is its own code"
    if context.diagnosis.transfer is not None:
        device = context.diagnosis.transfer.device
        return f"what they make would have to be sent to {device} beside each batch"
    if workload.is_fit_in_loop:
        return "fit is called for a few steps at a time, and its data made anew"
    return ""


@final
class LayersInInputOptimization(Optimization):
    """Take the first layers out of the training step, and let the pipeline call them."""

    name = "layers_in_input"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_data_refusal, step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where ops of the batch alone take a good part of the step, and cores are idle."""
        work = context.workload
        parts = [part for part in context.diagnosis.kernels if part.batch_only_share]
        predicted = _predicted(context, parts)
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        most = max(parts, key=lambda part: part.batch_only_share)
        names = ", ".join(work.preprocessing_layers)
        return Proposal(
            edits=(
                LayersInInput(
                    layer_names=work.preprocessing_layers, is_random=work.is_preprocessing_random
                ),
            ),
            predicted=predicted,
            at=most.batch_only_at or most.at or work.at,
            rationale=f"what the model begins with ({names}) runs beside the training step",
            source_edit="dataset.map(lambda x, y: (first_layers(x, training=True), y), ...)\n"
            "model = keras.Sequential([...])  # without them",
        )


def _predicted(context: Context, parts: list[KernelGroup]) -> float:
    """All cores together must do the work nevertheless; one of them, where numbers are drawn."""
    diagnosis = context.diagnosis
    share = sum(part.batch_only_share for part in parts)
    moved_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0) * share
    cpu_s = diagnosis.consumer_cpu_s or diagnosis.measurement.cpu_s_per_step
    in_turn_s = moved_s if context.workload.is_preprocessing_random else 0.0
    left_s = max(diagnosis.step_s - moved_s, cpu_s / context.machine.cpus, in_turn_s)
    return max(1.0, diagnosis.step_s / left_s) if left_s else 1.0
