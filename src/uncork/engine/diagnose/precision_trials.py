"""The step of a training in another precision than its own, on a batch from memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from uncork.core.base.journal import Journal
from uncork.core.base.measurement import Comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import DtypePolicy, Precision, has_tf_function
from uncork.engine.subject.subject import Subject
from uncork.measure.machine.devices import has_native_bfloat16, has_native_float16
from uncork.training.precision.dtype_policies import MIXED_POLICIES
from uncork.training.variant import Variant, compare_in_memory

_FIELDS: Final = ("bfloat16_speedup", "float16_speedup", "float32_speedup")


def measure_other_precision(
    subject: Subject,
    variant: Variant,
    journal: Journal,
    *,
    earlier: WorkloadDiagnosis | None,
    is_step_dominant: bool,
    block_s: float,
) -> dict[str, Any]:
    """The kernels in the 16 bits that this device has, or in float32 instead of 16, against as is.

    Args:
        subject: What is trained.
        variant: Of it.
        journal: Told of what is measured.
        earlier: An earlier diagnosis; what it has measured is not measured again.
        is_step_dominant: Its kernels take a good part of the step.
        block_s: Seconds of one block.

    Returns:
        Comparisons, each by its field of a diagnosis.
    """
    seen = {field: getattr(earlier, field) for field in _FIELDS} if earlier else {}
    if not is_step_dominant or any(seen.values()):
        # What was in use when it was measured is no other precision by now.
        return {} if _switched(variant) else seen
    policy = None if _switched(variant) else _another(subject.observed_workload(), variant)
    if policy is None or (earlier and policy == "mixed_bfloat16"):
        return {}  # bfloat16 is tried without it, too
    kind = policy.removeprefix("mixed_")
    journal.write("phase", f"measuring the step in {kind}")
    return {f"{kind}_speedup": _in_policy(subject, variant, policy, block_s)}


def _another(work: Workload, version: Variant) -> Precision | None:
    """The policy that is worth a look; None where none can be tried, or helps."""
    eager = work.is_eager_step and not has_tf_function(version.step_edits)
    if eager or work.is_distributed or work.replicas > 1 or not work.dtype_policies:
        return None
    if any(policy in MIXED_POLICIES for policy in work.dtype_policies):
        return "float32"
    if has_native_bfloat16():
        return "mixed_bfloat16"
    return "mixed_float16" if has_native_float16() else None


def _switched(version: Variant) -> bool:
    return any(isinstance(edit, DtypePolicy) for edit in version.step_edits)


def _in_policy(
    subject: Subject, version: Variant, policy: Precision, block_s: float
) -> Comparison | None:
    with suppress(Exception):  # layers in another dtype, or a step that needs its own
        edited = subject.with_policy(version, policy)
        if edited is not None:
            return compare_resident(subject, version, edited, block_s / 2)
    with suppress(Exception):  # a model that wants more than what its step gave it
        return subject.compare_float32(block_s / 2) if policy == "float32" else None
    return None


def compare_resident(
    subject: Subject, variant: Variant, edited: Variant, block_s: float
) -> Comparison:
    """The step of two versions in turn, each on a batch from memory: a few pairs are enough.

    Raises:
        EditRefused: A step edit does not apply to this model.
    """
    return compare_in_memory(
        subject.resident_runner(variant), subject.resident_runner(edited), block_s
    )
