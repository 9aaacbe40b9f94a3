"""What the surroundings hide from TensorFlow: GPUs, fast kernels, cores.

``no_accelerator``, ``missing_gpu_library`` and ``cpu_quota``: TensorFlow goes on without a word, or
with one line in its log. How much is lost cannot be told without what is hidden. Of cores it is
known how many there are, and no more is promised than that; of the others nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis

# Cores in use over those that the process is bound to, above which more of them would help.
_BUSY: Final = 0.7
_HIDES_ALL: Final = ("", "-1", "none", "NoDevFiles")
# Values of ONEDNN_MAX_CPU_ISA that hide nothing.
_ALL_UNITS: Final = ("", "ALL", "DEFAULT")
# Seconds that a step computes, below which one thread for each kernel may be the better choice.
_SHORT_S: Final = 0.01


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each thing that is there and not used."""
    if machine.unused_gpus:
        yield _gpu(machine)
    elif not machine.devices:
        yield from _kernels(machine)
        yield from _cores(diagnosis, machine)


def _gpu(machine: Machine) -> Finding:
    there = f"this machine has {', '.join(machine.unused_gpus)}, and TensorFlow does not see it"
    hidden = machine.environment_variable("CUDA_VISIBLE_DEVICES")
    if hidden in _HIDES_ALL:
        return _finding(
            "no_accelerator",
            f"{there}: CUDA_VISIBLE_DEVICES={hidden!r} hides it",
            "remove CUDA_VISIBLE_DEVICES from the script or its environment",
        )
    if machine.is_built_with_cuda is False:
        return _finding(
            "no_accelerator",
            f"{there}: this build of TensorFlow supports CPUs only",
            'pip install "tensorflow[and-cuda]"',
        )
    return _finding(
        "missing_gpu_library",
        f"{there}: its log says which library failed to load",
        'pip install "tensorflow[and-cuda]" installs CUDA and cuDNN in the versions that it needs',
    )


def _kernels(machine: Machine) -> Iterator[Finding]:
    if machine.environment_variable("TF_ENABLE_ONEDNN_OPTS") == "0":
        yield _finding(
            "missing_gpu_library",
            "TF_ENABLE_ONEDNN_OPTS=0 switches off oneDNN, the library of fast kernels for CPUs",
            "remove TF_ENABLE_ONEDNN_OPTS=0, unless bitwise equal results matter more than speed",
        )
    widest = machine.environment_variable("ONEDNN_MAX_CPU_ISA")
    if widest is not None and widest.upper() not in _ALL_UNITS:
        yield _finding(
            "no_accelerator",
            f"ONEDNN_MAX_CPU_ISA={widest} hides this processor's wider vector units from "
            "TensorFlow's kernels",
            "remove ONEDNN_MAX_CPU_ISA from the script or its environment",
        )


def _cores(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    busy = diagnosis.measurement.cpu_s_per_step / diagnosis.step_s
    if machine.cpus < machine.cpus_at_start and busy > _BUSY * machine.cpus:
        yield _finding(
            "cpu_quota",
            f"the script restricts itself to {machine.cpus:g} of the {machine.cpus_at_start:g} "
            f"cores that it was started with, and keeps {busy:.1f} of them busy",
            "remove the call that sets the affinity (os.sched_setaffinity, psutil.cpu_affinity)",
            upper=machine.cpus_at_start / machine.cpus,
        )
    elif _is_chosen(diagnosis, machine):
        return
    elif (
        0 < machine.intra_op_threads < machine.cpus
        and _BUSY * machine.intra_op_threads < busy < machine.cpus
    ):
        yield _finding(
            "cpu_quota",
            f"TensorFlow may use {machine.intra_op_threads} of {machine.cpus:g} cores for an op, "
            f"and {busy:.1f} are busy",
            "remove tf.config.threading.set_intra_op_parallelism_threads(...): TensorFlow uses all "
            "cores by default",
            upper=diagnosis.speedup_with_faster_step(machine.cpus / machine.intra_op_threads),
        )


def _is_chosen(diagnosis: WorkloadDiagnosis, machine: Machine) -> bool:
    """As the optimization ``intra_op_threads`` chooses it, for steps of small kernels."""
    computing_s = diagnosis.step_s * diagnosis.breakdown.get("step", 0.0)
    return machine.intra_op_threads == 1 and computing_s <= _SHORT_S


def _finding(cause: Cause, evidence: str, remedy: str, upper: float = 1.0) -> Finding:
    return Finding(
        cause=cause,
        severity="environment",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=None,
        evidence=evidence,
        remedy=remedy,
    )
