"""The machine a number was measured on; two numbers are compared only when their machines agree."""

from __future__ import annotations

from typing import Final

from uncork.core.base.record import Record

DEFAULT_ALLOCATOR: Final = "glibc"
# By the name of the field.
_COMPARED: Final = {"cpu_model": "processor", "tensorflow": "TensorFlow", "keras": "Keras"}


class Machine(Record, frozen=True, kw_only=True):
    """What must match before two measurements may be compared.

    Attributes:
        cpus: Cores this process may use: affinity and cgroup quota, whichever is smaller.
        cpu_model: As the operating system names the processor.
        memory_bytes: Memory this process may use: physical, or the cgroup's limit if smaller.
        devices: Accelerators TensorFlow sees, e.g. ``("GPU:0 NVIDIA H200",)``; empty on a CPU.
        python: Version of the interpreter that runs the script.
        tensorflow: Version, or ``""`` when unknown.
        keras: Version, or ``""`` when unknown.
        cpus_at_start: The same as ``cpus`` when the process was started; more where the script has
            bound it to some of them since.
        intra_op_threads: Threads that TensorFlow may use for one op; 0 is its own choice, all
            cores.
        logical_device_count: How many devices TensorFlow divides work among, if it is asked to:
            accelerators, or where there are none, logical CPUs.
        unused_gpus: GPUs that the driver shows and TensorFlow does not.
        is_built_with_cuda: Whether this build of TensorFlow could use them; None when unknown.
        jax: Version of JAX beside it, ``""`` where there is none.
        allocator: Of the process: ``glibc`` as it comes, or another in words; ``""`` when unknown.
        environment_variables: ``NAME=value`` of environment variables that hide devices or kernels.
    """

    cpus: float
    cpu_model: str
    memory_bytes: int
    devices: tuple[str, ...] = ()
    python: str = ""
    tensorflow: str = ""
    keras: str = ""
    cpus_at_start: float = 0.0
    intra_op_threads: int = 0
    logical_device_count: int = 1
    unused_gpus: tuple[str, ...] = ()
    is_built_with_cuda: bool | None = None
    jax: str = ""
    allocator: str = ""
    environment_variables: tuple[str, ...] = ()

    def environment_variable(self, name: str) -> str | None:
        """Value of one of the variables; None where it is not set.

        Example:
            >>> hidden = ("CUDA_VISIBLE_DEVICES=-1",)
            >>> m = Machine(cpus=2, cpu_model="x", memory_bytes=1, environment_variables=hidden)
            >>> (
            ...     m.environment_variable("CUDA_VISIBLE_DEVICES"),
            ...     m.environment_variable("ONEDNN_MAX_CPU_ISA"),
            ... )
            ('-1', None)
        """
        found = (v.partition("=") for v in self.environment_variables)
        return next((value for key, _, value in found if key == name), None)

    def changes_to(self, here: Machine, *, with_devices: bool = True) -> tuple[str, ...]:
        """What is another one here, of all that a proof depends on; what is unknown is left out.

        Args:
            here: The present machine.
            with_devices: Its accelerators are known, which takes TensorFlow.

        Example:
            >>> was = Machine(cpus=2, cpu_model="x", memory_bytes=1, python="3.11.9")
            >>> was.changes_to(Machine(cpus=4, cpu_model="y", memory_bytes=1, python="3.11.2"))
            ('processor: x, here y',)
        """
        pairs = [
            (word, getattr(self, name), getattr(here, name)) for name, word in _COMPARED.items()
        ]
        pairs.append(("Python", _release(self.python), _release(here.python)))
        if self.cpu_model and with_devices:
            was, now = (", ".join(each.devices) or "none" for each in (self, here))
            pairs.append(("accelerators", was, now))
        return tuple(
            f"{word}: {was}, here {now}" for word, was, now in pairs if was and now and was != now
        )

    def differing_fields(self, other: Machine) -> tuple[str, ...]:
        """Names of the fields in which two machines differ.

        Example:
            >>> a = Machine(cpus=2, cpu_model="x", memory_bytes=1)
            >>> a.differing_fields(Machine(cpus=4, cpu_model="x", memory_bytes=1))
            ('cpus',)
        """
        return tuple(
            name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)
        )


def _release(version: str) -> str:
    """Its first two numbers: a later correction of it compiles code in the same way."""
    return ".".join(version.split(".")[:2])
