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

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import LayersInInput
from uncork.core.evidence.kernels import KernelPart
from uncork.optimizations.base.preconditions import no_pipeline, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)


@final
class PreprocessBeside(Optimization):
    """Take the first layers out of the training step, and let the pipeline call them."""

    name = "layers_in_input"
    stage = "host"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where ops of the batch alone take a good part of the step, and cores are idle."""
        arrays = diagnosis.workload.data == "numpy"  # Keras makes a pipeline of them
        no_data = None if arrays else no_pipeline(diagnosis)
        forbidden = no_data or no_step_edit(diagnosis) or _forbidden(diagnosis)
        if forbidden:
            return forbidden
        work = diagnosis.workload
        parts = [part for part in diagnosis.kernels if part.of_batch]
        predicted = _predicted(diagnosis, machine, parts)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        most = max(parts, key=lambda part: part.of_batch)
        names = ", ".join(work.first_layers)
        return Proposal(
            edits=(LayersInInput(layers=work.first_layers, draws=work.first_layers_draw),),
            predicted=predicted,
            at=most.of_batch_at or most.at or work.at,
            why=f"what the model begins with ({names}) runs beside the training step",
            source_edit="dataset.map(lambda x, y: (first_layers(x, training=True), y), ...)\n"
            "model = keras.Sequential([...])  # without them",
        )


def _predicted(diagnosis: WorkloadDiagnosis, machine: Machine, parts: list[KernelPart]) -> float:
    """All cores together must do the work nevertheless; one of them, where numbers are drawn."""
    share = sum(part.of_batch for part in parts)
    moved_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0) * share
    cpu_s = diagnosis.consumer_cpu_s or diagnosis.measurement.cpu_s_per_step
    in_turn_s = moved_s if diagnosis.workload.first_layers_draw else 0.0
    left_s = max(diagnosis.step_s - moved_s, cpu_s / machine.cpus, in_turn_s)
    return max(1.0, diagnosis.step_s / left_s) if left_s else 1.0


def _forbidden(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    workload = diagnosis.workload
    if not workload.first_layers:
        return Skipped(
            reason="the model begins with a layer that learns, or what it does before is its own "
            "code"
        )
    if diagnosis.transfer is not None:
        return Skipped(
            reason=f"what they make would have to be sent to {diagnosis.transfer.device} beside "
            "each batch"
        )
    if workload.called_in_loop:
        return Skipped(reason="fit is called for a few steps at a time, and its data made anew")
    return None
