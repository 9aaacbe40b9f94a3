"""How fast each part of an input pipeline would let a training go, were all else free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.evidence.stage import Stage
from uncork.core.evidence.storage import ColdFiles

# By the names of TensorFlow's ops. Reading is measured on files that the system has in memory by
# then: a slow disk makes it dearer, not this number.
_DECODING: Final = ("Decode", "Parse")
_READING_OPS: Final = frozenset({"ReadFile"})
_READING: Final = frozenset({"tfrecord", "text_line", "fixed_length_record", "csv"})


def input_ceilings(
    stages: Sequence[Stage], samples_per_step: float, cpus: float
) -> dict[str, float]:
    """samples/s by name, of what there is.

    ``serial`` is the busiest thread that takes one element at a time; ``decode`` what the cores
    can decode and parse, ``storage`` what they can read, if they did nothing else.

    Args:
        stages: With their costs.
        samples_per_step: Of a training step.
        cpus: Cores that the process may use.

    Example:
        >>> from uncork.core.evidence.stage import OpCost
        >>> decoding = OpCost(op="DecodeJpeg", share=0.5)
        >>> photos = Stage(
        ...     index=0,
        ...     kind="map",
        ...     parallelism=-1,
        ...     elements_per_step=32,
        ...     cpu_s_per_element=0.002,
        ...     wall_s_per_element=0.002,
        ...     op_costs=(decoding,),
        ... )
        >>> input_ceilings([photos], 32, cpus=2)
        {'decode': 2000.0}
    """
    alone = StepCosts(consumer_s=0.0, consumer_cpu_s=0.0, stages=tuple(stages), cpus=cpus)
    seconds = {
        "serial": alone.serial_s(),
        "decode": sum(map(_decoding_s, stages)) / cpus,
        "storage": sum(map(_reading_s, stages)) / cpus,
    }
    return {name: samples_per_step / each for name, each in seconds.items() if each > 0}


def disk_ceiling(
    files: ColdFiles | None, stages: Sequence[Stage], samples_per_step: float
) -> dict[str, float]:
    """samples/s of ``disk``: while the system does not hold the files in memory.

    That is the first epoch, and each one where they are larger than the memory. Nothing where it is
    not known, or where later epochs read no files.

    Args:
        files: Those that the pipeline reads.
        stages: With their costs.
        samples_per_step: Of a training step.

    Example:
        >>> names = Stage(index=0, kind="from_list", file_bytes=10**9, elements_per_step=32)
        >>> slow = ColdFiles(total_bytes=10**9, read_s_per_file=0.001, read_bytes_per_s=5e7)
        >>> disk_ceiling(slow, [names], 32)
        {'disk': 1000.0}
    """
    source = next(
        (s for s in stages if files is not None and s.file_bytes == files.total_bytes), None
    )
    if files is None or source is None or not source.elements_per_step or not files.read_s_per_file:
        return {}
    return {"disk": samples_per_step / (source.elements_per_step * files.read_s_per_file)}


def _decoding_s(stage: Stage) -> float:
    """CPU seconds of a step."""
    shares = (cost.share for cost in stage.op_costs if cost.op.startswith(_DECODING))
    return sum(shares) * (stage.cpu_s_per_step or 0.0)


def _reading_s(stage: Stage) -> float:
    if stage.kind in _READING:
        return stage.cpu_s_per_step or 0.0
    shares = (cost.share for cost in stage.op_costs if cost.op in _READING_OPS)
    return sum(shares) * (stage.cpu_s_per_step or 0.0)
