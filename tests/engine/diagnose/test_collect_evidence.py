"""What collectors fill in, and what happens where one of them fails."""

import pytest

from records import workload_diagnosis
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup
from uncork.engine.diagnose import collect_evidence as module
from uncork.engine.diagnose.collect_evidence import (
    COLLECTORS,
    Collector,
    EvidenceContext,
    collect_evidence,
    unmeasured_notes,
    update_evidence,
)


def context() -> EvidenceContext:
    return EvidenceContext(
        *(None, None, Journal()),
        step_s=0.01,
        block_s=0.1,
        is_step_dominant=False,
        has_kernel_profile=False,
    )


def fail(_context):
    raise ValueError("a step for one length only")


def test_each_collector_fills_one_field_of_a_diagnosis():
    fields = [collector.field for collector in COLLECTORS]
    assert len(set(fields)) == len(fields)
    assert set(fields) <= set(WorkloadDiagnosis.__struct_fields__)
    # A failed collector leaves the default, so there must be one.
    required = len(WorkloadDiagnosis.__struct_fields__) - len(WorkloadDiagnosis.__struct_defaults__)
    assert not set(fields) & set(WorkloadDiagnosis.__struct_fields__[:required])


def test_a_failed_collector_leaves_its_field_out(monkeypatch):
    one = Collector("padding", fail)
    other = Collector("host_sync", lambda at: at.step_s)
    monkeypatch.setattr(module, "COLLECTORS", (one, other))
    assert collect_evidence(context()) == {"host_sync": 0.01}


def test_an_error_of_the_users_own_loop_is_raised(monkeypatch):
    monkeypatch.setattr(module, "COLLECTORS", (Collector("host_sync", fail, raises_errors=True),))
    with pytest.raises(ValueError, match="one length"):
        collect_evidence(context())


def test_what_there_is_no_time_for_is_named(monkeypatch):
    waits = Collector("padding", lambda at: setattr(at, "deadline_s", 0.0))
    others = [Collector(name, fail) for name in ("host_sync", "cold_files")]
    wrong = Collector("keras_defects", lambda at: at.step_s, is_always_collected=True)
    monkeypatch.setattr(module, "COLLECTORS", (waits, *others, wrong))
    limited = context()
    assert collect_evidence(limited) == {"padding": None, "keras_defects": 0.01}
    (note,) = unmeasured_notes(limited, 60.0)
    assert note.startswith("not measured within 60 s: host sync, cold files; ")
    assert unmeasured_notes(context(), 60.0) == ()


KERNELS = (KernelGroup(phase="forward", share=1.0, calls_per_step=1.0, main_kernel="MatMul"),)


class Profiled:
    """Stands in for a subject: its profile is always the same."""

    def measure_kernels(self, _variant, _seconds):
        return KERNELS


@pytest.mark.parametrize(
    ("known", "is_profiled", "found"),
    [((), True, KERNELS), ((), False, ()), (KERNELS, False, KERNELS)],
)
def test_kernels_are_profiled_once_the_step_dominates(known, is_profiled, found):
    earlier = replace(workload_diagnosis(), kernels=known)
    now = context()
    now.subject, now.has_kernel_profile = Profiled(), is_profiled
    updated = update_evidence(earlier, now)
    assert updated["kernels"] == found
    assert updated["callbacks"] == earlier.callbacks
