"""What a script leaves to timing: two runs of it differ there, whatever is done to it or not."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.stage import Stage


def repeated(found: WorkloadDiagnosis) -> tuple[str, ...]:
    """What there is to say of a training of both kinds."""
    timing = left_to_timing(found.stages, in_turn=found.deterministic)
    return (*timing, *asked_again(found.stages))


def left_to_timing(stages: Sequence[Stage], *, in_turn: bool = False) -> tuple[str, ...]:
    """A sentence where maps draw random numbers in parallel calls; else nothing.

    Seeds fix which numbers such a map draws, not which of its elements gets which: the call that
    comes first takes the next ones. A proof seeds both sides alike and makes the calls in turn, so
    what it calls equal bit for bit is equal but for that. ``enable_op_determinism`` has TensorFlow
    make the calls of such a map in turn.

    Args:
        stages: The input pipeline as the script has it.
        in_turn: The script has enabled that.

    Example:
        >>> augment = Stage(index=1, kind="map", at="train.py:9", random=True, parallelism=8)
        >>> left_to_timing([augment])[0].partition(":")[0]
        'two runs of the script may differ, with Uncork or without'
    """
    racing = (s for s in stages if s.random and s.kind != "shuffle")
    places = dict.fromkeys(s.at or s.kind for s in racing if s.parallelism not in (None, 1))
    if not places or in_turn:
        return ()
    where = ", ".join(places)
    return (
        "two runs of the script may differ, with Uncork or without: which element gets which "
        f"random numbers is left to timing at {where}, but under enable_op_determinism()",
    )


def asked_again(stages: Sequence[Stage]) -> tuple[str, ...]:
    """A sentence where looking at a pipeline calls Python code of its author's; else nothing.

    What it returns is thrown away or given back; what it does to files, services or a count of its
    own stays done.

    Args:
        stages: The input pipeline as the script has it.

    Example:
        >>> asked_again([Stage(index=0, kind="from_generator", at="train.py:9", python=True)])[0]
        'Python code of the input (train.py:9) was called more often than a training calls it'
    """
    places = dict.fromkeys(s.python_at or s.at or s.kind for s in stages if s.python)
    if not places:
        return ()
    where = ", ".join(places)
    return (f"Python code of the input ({where}) was called more often than a training calls it",)
