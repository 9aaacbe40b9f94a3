"""What this process may use of its machine: affinity and cgroup limits, not the brochure."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import psutil

from uncork.core.base.machine import Machine
from uncork.measure.machine import cgroup
from uncork.measure.machine.allocator import allocator

_LIMITS = Path("/proc/self/limits")
_ADDRESSES = "Max address space"
_START: list[float] = []
# Environment variables that hide devices or kernels from TensorFlow.
_HIDING = ("CUDA_VISIBLE_DEVICES", "ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS")


def probe_host(devices: tuple[str, ...] = ()) -> Machine:
    """Describe this machine as the present process sees it.

    Args:
        devices: Accelerators, named by the layer that may ask TensorFlow for them.

    Example:
        >>> probe_host().cpus > 0
        True
    """
    return Machine(
        cpus=usable_cpus(),
        cpu_model=_cpu_model(),
        memory_bytes=memory_limit_bytes(),
        devices=devices,
        python=platform.python_version(),
        tensorflow=_loaded_version("tensorflow"),
        keras=_loaded_version("keras"),
        cpus_at_start=cpus_at_start(),
        jax=jax_version(),
        allocator=allocator(),
        environment_variables=tuple(f"{k}={os.environ[k]}" for k in _HIDING if k in os.environ),
    )


def usable_cpus() -> float:
    """Cores this process may keep busy: its affinity, or the cgroup's quota if that is smaller."""
    return min(schedulable_cpus(), cgroup.cpu_quota())


def remember_initial_cpus() -> None:
    """Keep in mind what this process may use now, before a script binds it to less."""
    _START.append(schedulable_cpus())


def cpus_at_start() -> float:
    """As :func:`usable_cpus`, at the time of :func:`remember_initial_cpus`; now, without that."""
    return min(_START[-1] if _START else schedulable_cpus(), cgroup.cpu_quota())


def schedulable_cpus() -> int:
    """Processors that this process may run on, whatever part of their time it is given."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return there or 1


def memory_limit_bytes() -> int:
    """Bytes this process may use at most: physical memory, or the cgroup's limit if smaller."""
    return min(int(psutil.virtual_memory().total), cgroup.memory_limit_bytes())


def available_memory_bytes() -> int:
    """Bytes that can still be taken now without swapping or meeting a limit of this process's."""
    free = min(psutil.virtual_memory().available, cgroup.free_memory_bytes(), _free_addresses())
    return max(0, int(free))


def _free_addresses() -> int:
    """Bytes that the process may still map, as ``ulimit -v`` has it."""
    try:
        lines = _LIMITS.read_text().splitlines()
        told = next(line for line in lines if line.startswith(_ADDRESSES))
        limit = told.removeprefix(_ADDRESSES).split()[0]
        return int(limit) - int(psutil.Process().memory_info().vms)
    except (OSError, StopIteration, ValueError):  # not Linux, or "unlimited"
        return cgroup.NO_LIMIT_BYTES


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def jax_version() -> str:
    """Of the JAX that this environment has, its kernels with it; never imports it."""
    try:
        metadata.version("jaxlib")
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return ""


def _loaded_version(module: str) -> str:
    """Version of a module the script has loaded itself; never imports it."""
    if module not in sys.modules:
        return ""
    version = getattr(sys.modules[module], "__version__", None)
    return str(version or metadata.version(module))
