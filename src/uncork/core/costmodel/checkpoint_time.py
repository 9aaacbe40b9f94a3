"""What the checkpoints of a ``fit`` are worth, written beside the training: a part of its time."""

from __future__ import annotations

from uncork.core.base.measurement import Comparison
from uncork.core.costmodel.validation_time import in_whole, with_part_faster
from uncork.core.documents.diagnosis import WorkloadDiagnosis


def saving_share(diagnosis: WorkloadDiagnosis) -> float:
    """Part of the time from one save to the next that a save takes, 0 to 1; at most that.

    Args:
        diagnosis: Of the training; 0 of one that saves nothing.
    """
    found = diagnosis.saving
    return found.seconds / (found.every * diagnosis.step_s + found.seconds) if found else 0.0


def parts_of(diagnosis: WorkloadDiagnosis) -> tuple[float, float]:
    """From one save to the next: seconds that a trial leaves out, and a save with steps behind it.

    Args:
        diagnosis: Of a training that saves.
    """
    found, step_s = diagnosis.saving, diagnosis.step_s
    assert found is not None
    rest = max(0, found.every - found.beside)
    return rest * step_s, found.seconds + found.beside * step_s


def saving_comparison(diagnosis: WorkloadDiagnosis, found: Comparison) -> Comparison:
    """What a trial says of all that lies between two saves.

    Args:
        diagnosis: Of a training that saves.
        found: Of a save and the steps behind it.
    """
    rest_s, part_s = parts_of(diagnosis)
    return in_whole(found, lambda faster: with_part_faster(rest_s, part_s, faster))


def beside_gain(diagnosis: WorkloadDiagnosis, cpus: float) -> float:
    """Speed-up to be expected where only the copying holds the training up.

    The cores have as much to do as before, and the copies beside it.

    Args:
        diagnosis: Of the training; of one that saves nothing there is none.
        cpus: That the process may use.
    """
    found = diagnosis.saving
    if found is None:
        return 1.0
    steps_s = found.every * diagnosis.step_s
    busy_s = found.every * diagnosis.measurement.cpu_s_per_step + found.cpu_s + found.copying_s
    whole_s = steps_s + found.seconds
    left_s = max(steps_s + found.copying_s, busy_s / cpus)
    return max(1.0, whole_s / left_s) if left_s else 1.0
