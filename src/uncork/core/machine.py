"""The machine a number was measured on; two numbers are compared only when their machines agree."""

from __future__ import annotations

from uncork.core.record import Record


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
    """

    cpus: float
    cpu_model: str
    memory_bytes: int
    devices: tuple[str, ...] = ()
    python: str = ""
    tensorflow: str = ""
    keras: str = ""

    def differences(self, other: Machine) -> tuple[str, ...]:
        """Names of the fields in which two machines differ.

        Example:
            >>> a = Machine(cpus=2, cpu_model="x", memory_bytes=1)
            >>> a.differences(Machine(cpus=4, cpu_model="x", memory_bytes=1))
            ('cpus',)
        """
        return tuple(
            name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)
        )
