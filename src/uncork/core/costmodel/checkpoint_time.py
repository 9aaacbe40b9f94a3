"""What the checkpoints of a ``fit`` are worth, written beside the training: a part of its time."""

from __future__ import annotations

from uncork.core.base.measurement import Comparison
from uncork.core.costmodel.validation_time import scale_comparison, whole_speedup
from uncork.core.documents.diagnosis import WorkloadDiagnosis


def checkpoint_share(diagnosis: WorkloadDiagnosis) -> float:
    """Part of the time from one save to the next that a save takes, 0 to 1; at most that.

    Args:
        diagnosis: Of the training; 0 of one that saves nothing.
    """
    found = diagnosis.checkpoint_cost
    return found.save_s / (found.every_steps * diagnosis.step_s + found.save_s) if found else 0.0


def checkpoint_trial_parts(diagnosis: WorkloadDiagnosis) -> tuple[float, float]:
    """From one save to the next: seconds that a trial leaves out, and a save with steps behind it.

    Args:
        diagnosis: Of a training that saves.
    """
    found, step_s = diagnosis.checkpoint_cost, diagnosis.step_s
    assert found is not None
    rest = max(0, found.every_steps - found.trial_steps)
    return rest * step_s, found.save_s + found.trial_steps * step_s


def checkpoint_comparison(diagnosis: WorkloadDiagnosis, comparison: Comparison) -> Comparison:
    """What a trial says of all that lies between two saves.

    Args:
        diagnosis: Of a training that saves.
        comparison: Of a save and the steps behind it.
    """
    rest_s, part_s = checkpoint_trial_parts(diagnosis)
    return scale_comparison(comparison, lambda faster: whole_speedup(rest_s, part_s, faster))


def async_checkpoint_gain(diagnosis: WorkloadDiagnosis, cpus: float) -> float:
    """Speed-up to be expected where only the copying holds the training up.

    The cores have as much to do as before, and the copies beside it.

    Args:
        diagnosis: Of the training; of one that saves nothing there is none.
        cpus: That the process may use.
    """
    found = diagnosis.checkpoint_cost
    if found is None:
        return 1.0
    steps_s = found.every_steps * diagnosis.step_s
    busy_s = (
        found.every_steps * diagnosis.measurement.cpu_s_per_step + found.save_cpu_s + found.copy_s
    )
    whole_s = steps_s + found.save_s
    left_s = max(steps_s + found.copy_s, busy_s / cpus)
    return max(1.0, whole_s / left_s) if left_s else 1.0
