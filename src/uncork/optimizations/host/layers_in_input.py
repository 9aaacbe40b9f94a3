"""Let the input pipeline run the first layers of a model that have no weights to train.

Splitting text, looking up words, rotating and cropping images: inside the model they are part of
the training step, which waits for each of them; in the pipeline they run on other cores. Legal
because their output depends on the batch alone, and the same layers run on the same batches in the
same order. Only the training step starts after them: ``evaluate``, ``predict`` and saving use the
whole model. Layers with random numbers run on one batch after the other, with the numbers that the
step would have sampled, but ahead of it: the state of their seeds is further on after the training,
or in a checkpoint. That is ``resampled``.
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
    # Keras builds a pipeline from arrays.
    return "" if context.workload.data_kind == "numpy" else pipeline_refusal(context)


def _refusal(context: Context) -> str:
    workload = context.workload
    if not workload.preprocessing_layers:
        return "the model starts with a layer that learns, or with code of its own"
    if context.diagnosis.transfer is not None:
        device = context.diagnosis.transfer.device
        return f"the outputs of the first layers would have to be sent to {device}"
    if workload.is_fit_in_loop:
        return "each call of fit runs a few steps only, and recreates its dataset"
    return ""


@final
class LayersInInputOptimization(Optimization):
    """Move the first layers from the training step to the input pipeline."""

    name = "layers_in_input"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_data_refusal, step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where ops of the batch alone take much of the step, and cores are idle."""
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
            rationale=f"the first layers ({names}) run in the pipeline, not in the training step",
            source_edit="dataset.map(lambda x, y: (first_layers(x, training=True), y), ...)\n"
            "model = keras.Sequential([...])  # without them",
        )


def _predicted(context: Context, parts: list[KernelGroup]) -> float:
    """All cores together still do the work; only one of them with random numbers."""
    diagnosis = context.diagnosis
    share = sum(part.batch_only_share for part in parts)
    moved_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0) * share
    cpu_s = diagnosis.consumer_cpu_s or diagnosis.measurement.cpu_s_per_step
    serial_s = moved_s if context.workload.is_preprocessing_random else 0.0
    remaining_s = max(diagnosis.step_s - moved_s, cpu_s / context.machine.cpus, serial_s)
    return max(1.0, diagnosis.step_s / remaining_s) if remaining_s else 1.0
