"""What of a measured step is whose: the costs behind a diagnosis."""

from __future__ import annotations

import math
from typing import Final

from uncork.core.base.record import replace
from uncork.core.costmodel import stage_cost as stage_costs
from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import INFINITE_LENGTH, Stage
from uncork.core.evidence.stage_graph import subtree_indices

# Seconds of a call for a batch at most, beside making it.
_CALL_S: Final = 5e-4
# Of all CPU time, what a consumer takes at most that only drops what it is given.
_NOTHING: Final = 0.05
# Of all CPU time, what it and that of the consumer alone may be wrong by.
_UNSURE: Final = 0.1
# Of what stages cost one by one, the most that they are taken to cost more in the training.
_MOST_OVERHEAD: Final = 1.0


def attribute_costs(diagnosis: WorkloadDiagnosis, cpus: float) -> StepCosts:
    """The costs behind a diagnosis. The consumer's come from its ceiling.

    CPU time that neither the consumer alone nor the stages one by one account for is taken to be
    the input's, and to go where its stages go: once they are kept in memory, a training costs what
    it costs alone. Not what is made ahead for nobody, and not more than the stages cost themselves.
    Where the consumer by itself was not measured, the time is its. Where it costs nothing to speak
    of, as that of a dataset by itself, stages are dearer in time as well. Stages that cost more one
    by one than the whole training leaves them were timed in a bad moment: they cost that much.
    """
    batch = diagnosis.measurement.samples_per_s * diagnosis.step_s
    consumer = diagnosis.ceilings.get("consumer", 0.0)
    input_cpu = sum(s.cpu_s_per_step or 0.0 for s in diagnosis.stages)
    all_cpu, own_cpu = diagnosis.measurement.cpu_s_per_step, diagnosis.consumer_cpu_s
    stages, overhead, nobodys_s = diagnosis.stages, 0.0, 0.0
    consumer_cpu = max(0.0, all_cpu - input_cpu) if own_cpu is None else min(own_cpu, all_cpu)
    if own_cpu is not None and own_cpu < _NOTHING * all_cpu and 0 < input_cpu < all_cpu:
        stages, consumer_cpu = (
            tuple(stage_costs.scale_all_costs(s, all_cpu / input_cpu) for s in stages),
            0.0,
        )
    elif own_cpu is not None and (factor := _fitting(diagnosis, input_cpu, consumer_cpu)) < 1:
        stages = tuple(stage_costs.scale_all_costs(s, factor) for s in stages)
    elif own_cpu is not None:
        nobodys_s = unexplained_cpu_s(diagnosis)
        in_vain_s = max((discarded_cpu_s(diagnosis, s) for s in stages), default=0.0)
        if input_cpu:
            overhead = min(_MOST_OVERHEAD, (nobodys_s - in_vain_s) / input_cpu)
            nobodys_s -= overhead * input_cpu
    costs = StepCosts(
        consumer_s=batch / consumer if consumer else diagnosis.step_s,
        consumer_cpu_s=consumer_cpu,
        stages=stages,
        cpus=cpus,
        busy_core_speed_ratio=diagnosis.busy_core_speed_ratio,
        measured_step_s=diagnosis.step_s,
        input_overhead=overhead,
        unattributed_cpu_s=nobodys_s,
    )
    return replace(costs, busy_core_speed_ratio=_together(costs))


def _fitting(diagnosis: WorkloadDiagnosis, input_cpu: float, consumer_cpu: float) -> float:
    """What is left for the input, over what its stages cost one by one; 1 where they fit in.

    What is made below a shuffle may have been made before the measured steps, when its buffer was
    filled. Python code may work in processes of its own, whose time is not counted.
    """
    all_cpu, stages = diagnosis.measurement.cpu_s_per_step, diagnosis.stages
    left = max(all_cpu - consumer_cpu, _UNSURE * all_cpu)
    shuffles = [position for position, stage in enumerate(stages) if stage.kind == "shuffle"]
    before = sum(s.cpu_s_per_step or 0.0 for s in stages[: max(shuffles, default=0)])
    if any(stage.has_python_code for stage in stages) or before > _UNSURE * input_cpu or left <= 0:
        return 1.0
    return min(1.0, left / input_cpu) if input_cpu else 1.0


def _together(costs: StepCosts) -> float:
    """How slow cores are together, no slower than the training itself shows.

    It was measured apart, and perhaps in a bad moment of the machine.
    """
    at_best_s, told_s = replace(costs, busy_core_speed_ratio=1.0).step_s(), costs.step_s()
    if told_s <= max(costs.measured_step_s, at_best_s):
        return costs.busy_core_speed_ratio
    part = max(0.0, costs.measured_step_s - at_best_s) / (told_s - at_best_s)
    return 1.0 / (1.0 + (1.0 / costs.busy_core_speed_ratio - 1.0) * part)


def unexplained_cpu_s(diagnosis: WorkloadDiagnosis) -> float:
    """CPU seconds of a step that neither its input nor the training by itself accounts for."""
    own = diagnosis.consumer_cpu_s
    input_cpu = sum(s.cpu_s_per_step or 0.0 for s in diagnosis.stages)
    return 0.0 if own is None else max(0.0, diagnosis.measurement.cpu_s_per_step - input_cpu - own)


def discarded_cpu_s(diagnosis: WorkloadDiagnosis, stage: Stage) -> float:
    """CPU seconds of a step for what a stage prepares ahead and nobody takes.

    Where a pass ends before the data does, what is ready by then was made in vain. That is at most
    all it was told to prepare, and at most what neither the training nor the input accounts for.
    """
    steps, known = diagnosis.workload.steps_per_epoch, diagnosis.consumer_cpu_s
    if not (stage.prefetched_elements and steps and stage.elements_per_step) or known is None:
        return 0.0
    if diagnosis.workload.kind == "fit" and diagnosis.stages[-1].length != steps:
        return 0.0  # Keras takes the next epoch from where this one ended
    asked = steps * stage.elements_per_step
    length = math.inf if stage.length in (None, INFINITE_LENGTH) else stage.length or 0
    left = max(0.0, min(stage.prefetched_elements, length - asked))
    below = (diagnosis.stages[i].cpu_s_per_step or 0.0 for i in subtree_indices(stage))
    most = left * sum(below) / stage.elements_per_step / steps
    return min(most, unexplained_cpu_s(diagnosis))


def overlapped_step_s(diagnosis: WorkloadDiagnosis, cpus: float) -> float:
    """Seconds of a step whose input is made ahead, where it is made between the steps now.

    What a step waits for its batch beyond the making of it is the call for it, and stays.
    """
    costs = attribute_costs(diagnosis, cpus)
    waited_s = diagnosis.breakdown.get("input", 0.0) * diagnosis.step_s
    made_s = max(costs.serial_s(), (1.0 + costs.input_overhead) * costs.stages_cpu_s() / cpus)
    call_s = min(_CALL_S, max(0.0, waited_s - made_s))
    return max(costs.step_s(), costs.consumer_s + call_s)
