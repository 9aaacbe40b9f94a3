"""The step of a training in another precision than its own, on a batch from memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from uncork.core.base.journal import Journal
from uncork.core.base.measurement import Comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import DtypePolicy, Precision, is_graph
from uncork.engine.subject.subject import Subject
from uncork.measure.machine.devices import native_bfloat16, native_float16
from uncork.training.precision.dtype_policies import MIXED
from uncork.training.variant import Version, against

_FIELDS: Final = ("in_bfloat16", "in_float16", "in_float32")


def in_other_precision(
    subject: Subject,
    version: Version,
    journal: Journal,
    *,
    known: WorkloadDiagnosis | None,
    computing: bool,
    block_s: float,
) -> dict[str, Any]:
    """The kernels in the 16 bits that this device has, or in float32 instead of 16, against as is.

    Args:
        subject: What is trained.
        version: Of it.
        journal: Told of what is measured.
        known: An earlier diagnosis; what it has measured is not measured again.
        computing: Its kernels take a good part of the step.
        block_s: Seconds of one block.

    Returns:
        Comparisons, each by its field of a diagnosis.
    """
    seen = {field: getattr(known, field) for field in _FIELDS} if known else {}
    if not computing or any(seen.values()):
        # What was in use when it was measured is no other precision by now.
        return {} if _switched(version) else seen
    policy = None if _switched(version) else _another(subject.seen(), version)
    if policy is None:
        return {}
    kind = policy.removeprefix("mixed_")
    journal.write("phase", f"measuring the step in {kind}")
    return {f"in_{kind}": _in_policy(subject, version, policy, block_s)}


def _another(work: Workload, version: Version) -> Precision | None:
    """The policy that is worth a look; None where none can be tried, or helps."""
    eager = work.eager_step and not is_graph(version.step)
    if eager or work.distributed or work.replicas > 1 or not work.dtype_policies:
        return None
    if any(policy in MIXED for policy in work.dtype_policies):
        return "float32"
    if native_bfloat16():
        return "mixed_bfloat16"
    return "mixed_float16" if native_float16() else None


def _switched(version: Version) -> bool:
    return any(isinstance(edit, DtypePolicy) for edit in version.step)


def _in_policy(
    subject: Subject, version: Version, policy: Precision, block_s: float
) -> Comparison | None:
    with suppress(Exception):  # layers in another dtype, or a step that needs its own
        edited = subject.in_policy(version, policy)
        if edited is not None:
            return compare_resident(subject, version, edited, block_s / 2)
    with suppress(Exception):  # a model that wants more than what its step gave it
        return subject.in_float32(block_s / 2) if policy == "float32" else None
    return None


def compare_resident(
    subject: Subject, version: Version, edited: Version, block_s: float
) -> Comparison:
    """The step of two versions in turn, each on a batch from memory: a few pairs are enough.

    Raises:
        EditRefused: A step edit does not apply to this model.
    """
    return against(subject.resident(version), subject.resident(edited), block_s)
