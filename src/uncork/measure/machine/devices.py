"""Is this the machine that a plan was made on, and can it do what the plan asks?

What the devices can do: the one place that asks.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final, Literal

import tensorflow as tf

from uncork.compat.tf.devices import collective_server
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.plan import INTRA_OP_THREADS_VARIABLE
from uncork.measure.machine.probe import probe_host

# x86 flags of native bfloat16 dot products, as Linux spells them.
_CPU_FLAGS: Final = frozenset({"avx512_bf16", "amx_bf16"})
_DRIVER: Final = Path("/proc/driver/nvidia")
_NODES: Final = Path("/dev")
# Values of ONEDNN_MAX_CPU_ISA that leave them in.
_WITH_BFLOAT16: Final = ("AVX512_CORE_BF16", "AVX512_CORE_AMX", "AVX512_CORE_FP16", "AVX10",
                         "ALL", "DEFAULT")  # fmt: skip
# NVIDIA compute capability of Ampere, the first with bfloat16 tensor cores.
_AMPERE: Final = (8, 0)
# Of Volta, the first with tensor cores, which know float16 alone.
_VOLTA: Final = (7, 0)


def detect_machine() -> Machine:
    """This machine as TensorFlow sees it, and what it does not see.

    Example:
        >>> detect_machine().tensorflow != ""
        True
    """
    devices = accelerators()
    return replace(
        probe_host(devices),
        unused_gpus=() if tf.config.list_physical_devices("GPU") or devices else driver_gpus(),
        is_built_with_cuda=bool(tf.test.is_built_with_cuda()),
        logical_device_count=logical_device_count(),
        intra_op_threads=tf.config.threading.get_intra_op_parallelism_threads(),
    )


def cluster_process_count() -> int:
    """How many processes take the steps of a training together; 1 where this one is alone.

    Example:
        >>> cluster_process_count()
        1
    """
    server = collective_server()
    return 1 if server is None else sum(len(job.tasks) for job in server.cluster.job)


def logical_device_count() -> int:
    """Devices of the best kind that there is, as scripts may have divided them.

    The processors of several servers are no devices of one: the most that one of them has count.

    Example:
        >>> logical_device_count()
        1
    """
    kind = best_device()
    if kind != "CPU":
        return len(tf.config.list_logical_devices(kind))
    processors = (each.name for each in tf.config.list_logical_devices("CPU"))
    servers = Counter(name.rpartition("/device:")[0] for name in processors)
    return max(servers.values(), default=1)


def best_device() -> Literal["TPU", "GPU", "CPU"]:
    """The best kind of device that there is, where TensorFlow puts what nobody puts elsewhere.

    Example:
        >>> best_device() in ("TPU", "GPU", "CPU")
        True
    """
    if tf.config.list_logical_devices("TPU"):
        return "TPU"
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def driver_gpus(driver: Path = _DRIVER, device_nodes: Path = _NODES) -> tuple[str, ...]:
    """Models of the GPUs that NVIDIA's driver shows, whether TensorFlow can use them or not.

    A container sees the driver of its host even when it was given no GPU; then there are no nodes.

    Example:
        >>> driver_gpus(Path("/nowhere"))
        ()
    """
    if not any(device_nodes.glob("nvidia[0-9]*")):
        return ()
    files = sorted(driver.glob("gpus/*/information"))
    lines = (line for file in files for line in file.read_text().splitlines())
    return tuple(line.partition(":")[2].strip() for line in lines if line.startswith("Model:"))


def accelerators() -> tuple[str, ...]:
    """GPUs and TPUs that TensorFlow sees, with their model where it tells.

    Example:
        >>> isinstance(accelerators(), tuple)
        True
    """
    found = [d for d in tf.config.get_visible_devices() if d.device_type in ("GPU", "TPU")]
    return tuple(_describe(device) for device in found)


def has_native_bfloat16() -> bool | None:
    """Whether training here computes bfloat16 in hardware; None where that is not known."""
    gpus = tf.config.get_visible_devices("GPU")
    if tf.config.get_visible_devices("TPU"):
        return True
    if gpus:
        capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability")
        return None if capability is None else tuple(capability) >= _AMPERE
    widest = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if widest and not widest.startswith(_WITH_BFLOAT16):
        return False  # asked for it all the same, oneDNN ends the process
    return cpu_has_bfloat16(_cpu_flags())


def is_tf32_enabled() -> bool:
    """Whether products of float32 are computed with 10 bits of their fractions here.

    Example:
        >>> is_tf32_enabled() and not accelerators()
        False
    """
    gpus = tf.config.get_visible_devices("GPU")
    return (
        bool(gpus)
        and bool(has_native_bfloat16())  # both came with Ampere
        and bool(tf.config.experimental.tensor_float_32_execution_enabled())
    )


def has_native_float16() -> bool | None:
    """Whether training here is fast in float16; None where that is not known.

    That takes tensor cores, which NVIDIA's GPUs have from Volta on. A CPU that computes float16 at
    all is slower with it than with float32, and a TPU does not.
    """
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return False
    capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability")
    return None if capability is None else tuple(capability) >= _VOLTA


def cpu_has_bfloat16(flags: str) -> bool | None:
    """Judge a processor by its flags; None when there are none to read.

    Example:
        >>> cpu_has_bfloat16("fpu avx512_bf16"), cpu_has_bfloat16("fpu avx2"), cpu_has_bfloat16("")
        (True, False, None)
    """
    return bool(_CPU_FLAGS & set(flags.split())) if flags else None


def _cpu_flags() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("flags")), "").partition(":")[2]


def _describe(device: object) -> str:
    details = tf.config.experimental.get_device_details(device)
    name = getattr(device, "name", "").removeprefix("/physical_device:")
    return f"{name} {details.get('device_name', '')}".strip()


def configured_intra_op_threads() -> int:
    """Threads for the work within a kernel, as the script or its environment chose; 0 where not."""
    given = os.environ.get(INTRA_OP_THREADS_VARIABLE, "")
    own: int = tf.config.threading.get_intra_op_parallelism_threads()
    return own or (int(given) if given.isdecimal() else 0)
