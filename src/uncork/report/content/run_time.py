"""What a whole run takes beside its steps: preparations, callbacks, validations, checkpoints."""

from __future__ import annotations

from typing import Final

from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import WorkloadDiagnosis

# Of the run, what is not steps, to be shown at all; and of a part, to have a row.
_WORTH_SHOWING: Final = 0.05
_WORTH_A_ROW: Final = 0.005


class RunPart(Record, frozen=True, kw_only=True):
    """One part of the whole run.

    Attributes:
        label: What it is.
        seconds: Of it, counted from what was measured of one.
        share: Of the whole run, 0 to 1.
        at: ``file.py:line`` where it is asked for; None where no line is known.
    """

    label: str
    seconds: float
    share: float
    at: str | None = None


def run_parts(diagnosis: WorkloadDiagnosis) -> tuple[RunPart, ...]:
    """In the order in which they come; none where the steps are nearly all, or nobody knows.

    Imports, and what the script does behind its training, are not among them. What passes between
    epochs is part of the steps. Their shares add up to 1.

    Args:
        diagnosis: Of a training of known length.
    """
    work, found = diagnosis.workload, _seconds(diagnosis)
    whole = sum(seconds for _, seconds, _ in found)
    steps_s = (work.steps_per_epoch or 0) * work.epochs * diagnosis.step_s
    if work.is_fit_in_loop or work.is_epoch_count_assumed or not steps_s:
        return ()
    if whole - steps_s < _WORTH_SHOWING * whole:
        return ()
    shown = [each for each in found if each[1] >= _WORTH_A_ROW * whole]
    rest = whole - sum(seconds for _, seconds, _ in shown)
    if rest > 0:
        shown.append(("everything else", rest, None))
    return tuple(
        RunPart(label=label, seconds=seconds, share=seconds / whole, at=at)
        for label, seconds, at in shown
    )


def _seconds(diagnosis: WorkloadDiagnosis) -> list[tuple[str, float, str | None]]:
    work = diagnosis.workload
    steps = (work.steps_per_epoch or 0) * work.epochs
    found: list[tuple[str, float, str | None]] = []
    if diagnosis.startup_lines:
        before_s = sum(line.seconds for line in diagnosis.startup_lines)
        found.append(("before the training", before_s, diagnosis.startup_lines[0].at))
    found.append(("tracing, the first step", diagnosis.first_step_s, None))
    found.append((f"{steps:,} steps", steps * diagnosis.step_s, work.at))
    saving = diagnosis.checkpoint_cost
    saved = saving.name.split(" and ") if saving else []
    for callback in diagnosis.callbacks:
        if callback.action_s and callback.name in saved:
            continue  # its saves are told as such
        label = f"{callback.name or 'a callback'}, each batch"
        found.append((label, steps * callback.batch_s, callback.at))
        if callback.epoch_s:
            label = f"{callback.name or 'a callback'}, each epoch"
            found.append((label, work.epochs * callback.epoch_s, callback.epoch_hook_at))
    validation = diagnosis.validation
    if validation:
        label = f"{validation.validation_count:,} validations"
        found.append((label, validation.validation_count * validation.validation_s, validation.at))
    if saving:
        times = steps // saving.every_steps
        label = f"{'at most ' * saving.is_save_best_only}{times:,} saves by {saving.name}"
        found.append((label, times * saving.save_s, saving.at))
    return found
