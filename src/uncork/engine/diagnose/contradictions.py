"""Figures that cannot both hold start the measurement that decides between them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.costmodel.contradictions import Contradiction, decide, find_contradictions
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.batches import RecordedBatches
from uncork.engine.subject.subject import Subject
from uncork.training.variant import Variant

# How long batches are read and trained on, in blocks of the measurement.
_BLOCKS: Final = 4


def resolve_contradictions(
    subject: Subject,
    variant: Variant,
    found: WorkloadDiagnosis,
    journal: Journal,
    *,
    block_s: float,
    deadline_s: float = math.inf,
) -> WorkloadDiagnosis:
    """A diagnosis whose figures agree, with a note of those that did not.

    Args:
        subject: What is trained.
        variant: Which version of it was measured.
        found: All that was measured.
        journal: Told of the measurement.
        block_s: Seconds of one block of the measurement.
        deadline_s: By :func:`time.monotonic`; it is not begun after that, and a note says so.
    """
    contradictions = find_contradictions(found)
    if not contradictions:
        return found
    kept = None
    if time.monotonic() > deadline_s:
        return replace(found, notes=(*found.notes, *_notes(contradictions, kept)))
    journal.write("phase", "measuring the step on different batches from memory")
    with suppress(Exception):  # memory or data may be at an end: the contradiction is told
        kept = subject.measure_recorded_batches(variant, _BLOCKS * block_s)
    decided = found
    if kept is not None:
        epoch_s = (found.workload.steps_per_epoch or 0) * found.step_s
        in_steps = 0 < epoch_s <= block_s and not found.workload.has_explicit_steps
        decided = decide(replace(found, recorded_batches=replace(kept, is_start_in_steps=in_steps)))
    return replace(decided, notes=(*decided.notes, *_notes(contradictions, kept)))


def _notes(
    contradictions: Sequence[Contradiction], kept: RecordedBatches | None
) -> tuple[str, ...]:
    if kept is None:
        return tuple(
            f"two figures contradict each other, and no measurement could decide: {each.figures}"
            for each in contradictions
        )
    seen = (
        f"on {kept.batch_count} different batches from memory a step takes "
        f"{kept.new_step_s * 1e3:.3g} ms the first time and {kept.known_step_s * 1e3:.3g} ms "
        f"later; a new iterator takes {kept.start_s:.2g} s to start"
    )
    if kept.wait is not None:
        seen += f"; the training loses a further {max(0.0, kept.wait.median):.0%} of each step"
    return tuple(f"{each.figures}: measured again, {seen}" for each in contradictions)
