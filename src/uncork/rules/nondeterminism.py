"""What a script leaves to timing: two runs of it differ there, whatever is done to it or not."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import Stage


def nondeterminism_notes(diagnosis: WorkloadDiagnosis) -> tuple[str, ...]:
    """What there is to say of a training of both kinds."""
    timing = timing_notes(diagnosis.stages, is_deterministic=diagnosis.has_deterministic_ops)
    return (*timing, *repeated_call_notes(diagnosis.stages))


def timing_notes(stages: Sequence[Stage], *, is_deterministic: bool = False) -> tuple[str, ...]:
    """A sentence where maps draw random numbers in parallel calls; else nothing.

    Seeds fix which numbers such a map draws, not which of its elements gets which: the call that
    comes first takes the next ones. A proof seeds both sides alike and makes the calls in turn, so
    what it calls equal bit for bit is equal but for that. ``enable_op_determinism`` has TensorFlow
    make the calls of such a map in turn.

    Args:
        stages: The input pipeline as the script has it.
        is_deterministic: The script has enabled that.

    Example:
        >>> augment = Stage(index=1, kind="map", at="train.py:9", is_random=True, parallelism=8)
        >>> timing_notes([augment])[0].partition(":")[0]
        'two runs of the script may differ, with or without Uncork'
    """
    racing = (s for s in stages if s.is_random and s.kind != "shuffle")
    places = dict.fromkeys(s.at or s.kind for s in racing if s.parallelism not in (None, 1))
    if not places or is_deterministic:
        return ()
    where = ", ".join(places)
    return (
        f"two runs of the script may differ, with or without Uncork: at {where}, timing decides "
        "which element gets which random numbers, except under enable_op_determinism()",
    )


def repeated_call_notes(stages: Sequence[Stage]) -> tuple[str, ...]:
    """A sentence where looking at a pipeline calls Python code of its author's; else nothing.

    What it returns is thrown away or given back; what it does to files, services or a count of its
    own stays done.

    Args:
        stages: The input pipeline as the script has it.

    Example:
        >>> repeated_call_notes(
        ...     [Stage(index=0, kind="from_generator", at="train.py:9", has_python_code=True)]
        ... )[0]
        'Uncork called Python code of the input (train.py:9) more often than a training does'
    """
    places = dict.fromkeys(s.python_code_at or s.at or s.kind for s in stages if s.has_python_code)
    if not places:
        return ()
    where = ", ".join(places)
    return (f"Uncork called Python code of the input ({where}) more often than a training does",)
