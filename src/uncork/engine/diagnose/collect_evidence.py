"""What is looked at once, of a training as its author wrote it: no edit in between changes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from uncork.core.base.journal import Journal
from uncork.core.base.measurement import Comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.edits.step import FlatUpdates
from uncork.core.evidence.batches import Larger
from uncork.core.evidence.kernels import KernelPart
from uncork.core.evidence.model import Padded
from uncork.core.evidence.storage import FromDisk
from uncork.engine.subject.subject import Subject
from uncork.measure.benchmark.core_contention import together
from uncork.pipeline.analysis.input_files import cold_files
from uncork.pycode.frames.value_origin import only_call
from uncork.training.variant import Version, against

# Steps whose kernels are looked at: after some ninety runs TensorFlow no longer tells all of them.
_LOOKED_AT: Final = 16
_MOST_LOOKED_AT_S: Final = 1.0
# Kernels of a step that update small weights: fewer are not worth another trace of it.
_MANY_UPDATES: Final = 200
# Shapes are compiled for so long, one at least.
_COMPILING_S: Final = 6.0
_CARRIED: Final = (
    "disk",
    "from_disk",
    "together",
    "padded",
    "without_metrics",
    "updated_at_once",
    "one_hot",
    "transfer",
    "callbacks",
    "validation",
    "saving",
    "kernels",
    "slow_layers",
    "full_size",
    "loop_lines",
    "new_shapes",
    "larger",
    "batch_sizes",
    "too_large",
    "remade",
    "waiting",
    "answering",
    "growth",
    "keras_defects",
    "parted_anew",
)

T = TypeVar("T")
U = TypeVar("U")


def carried(known: WorkloadDiagnosis) -> dict[str, Any]:
    """All of it from an earlier diagnosis."""
    return {name: getattr(known, name) for name in _CARRIED}


def look_once(
    subject: Subject,
    version: Version,
    journal: Journal,
    *,
    step_s: float,
    block_s: float,
    computing: bool,
    told: bool,
) -> dict[str, Any]:
    """All of it, as fields of a diagnosis.

    Args:
        subject: What is trained.
        version: Which version of it.
        journal: Told of each phase.
        step_s: Of a step as it runs.
        block_s: How long to look at each thing.
        computing: The step is most of the time.
        told: And this host's profiler tells of its kernels.
    """
    kernels: tuple[KernelPart, ...] = ()
    padded = without_metrics = None
    if computing:
        padded = _or(None, lambda: _padded(subject, version, block_s, journal))
        without_metrics = _or(None, lambda: _without_metrics(subject, version, block_s, journal))
    if told:
        journal.write("phase", "looking at the kernels of the step")
        looked_at_s = min(_LOOKED_AT * step_s, _MOST_LOOKED_AT_S)
        kernels = _or((), lambda: subject.kernels(version, looked_at_s))
    at_once = _or(None, lambda: _updated_at_once(subject, version, kernels, block_s, journal))
    steps = subject.workload.steps_per_epoch
    epoch_s = steps * step_s if steps else None
    return {
        "together": together(),
        "from_disk": _or(None, lambda: _from_disk(version)),
        "padded": padded,
        "without_metrics": without_metrics,
        "updated_at_once": at_once,
        "one_hot": _or(None, subject.one_hot),
        "transfer": _or(None, lambda: subject.transfer(version)),
        "callbacks": _or((), subject.callbacks),
        "validation": _or(None, lambda: subject.validation(epoch_s, block_s)),
        "saving": _or(None, lambda: subject.saving(step_s)),
        "kernels": kernels,
        "new_shapes": _or(None, lambda: subject.new_shapes(step_s, _COMPILING_S)),
        "larger": _or(None, lambda: _larger(subject, version, block_s, journal)),
        "growth": _or(None, lambda: subject.growth(2 * block_s)),
        "keras_defects": _or((), subject.keras_defects),
        "parted_anew": _or(None, subject.parted_anew),
        # Here the user's own loop runs: its errors are the user's.
        "remade": subject.remade(step_s),
        "waiting": subject.waiting(block_s),
        "answering": subject.answering(block_s),
        "loop_lines": subject.loop_lines(block_s),
        "slow_layers": subject.slow_layers(kernels),
        "full_size": subject.full_size(),
    }


def _or(unknown: U, look: Callable[[], T]) -> T | U:
    """What a look tells; nothing is known where it breaks.

    A step for one length only, one that wants its metrics, a profiler in use, no memory left on the
    device, data that is gone, callbacks that want anything: none of them ends a diagnosis.
    """
    with suppress(Exception):
        return look()
    return unknown


def _from_disk(version: Version) -> FromDisk | None:
    return None if version.pipeline is None else cold_files(version.pipeline)


def _padded(subject: Subject, version: Version, block_s: float, journal: Journal) -> Padded | None:
    """The step on a batch without most of its padding against the batch as it is."""
    found = subject.shortened()
    if found is None:
        return None
    journal.write("phase", "measuring the step on a batch without its padding")
    padding, shorter = found
    compared = against(subject.resident(version), shorter, block_s / 2)
    at = only_call("pad_sequences")
    return Padded(
        longest=padding.longest,
        mean=padding.mean,
        grouped=padding.grouped,
        cut=compared,
        at=at,
    )


def _larger(subject: Subject, version: Version, block_s: float, journal: Journal) -> Larger | None:
    """The step of several replicas with a larger batch against the same as it is."""
    found = subject.larger()
    if found is None:
        return None
    journal.write("phase", "measuring the step of all replicas on a larger batch")
    times, larger = found
    return Larger(times=times, faster=against(subject.resident(version), larger, block_s / 2))


def _without_metrics(
    subject: Subject, version: Version, block_s: float, journal: Journal
) -> Comparison | None:
    """The step without its metrics against the same as it is."""
    fewer = subject.without_metrics()
    if fewer is None:
        return None
    journal.write("phase", "measuring the step without its metrics")
    return against(subject.resident(version), fewer, block_s / 2)


def _updated_at_once(
    subject: Subject,
    version: Version,
    kernels: tuple[KernelPart, ...],
    block_s: float,
    journal: Journal,
) -> Comparison | None:
    """The step with one update of all its small weights against the same as it is."""
    updates = sum(part.brief_calls for part in kernels if part.phase == "optimizer")
    work = subject.workload
    if updates < _MANY_UPDATES or not work.small_weights or work.jit_compile or work.called_in_loop:
        return None
    journal.write("phase", "measuring the step with all small weights updated at once")
    at_once = version.with_step_edits((FlatUpdates(),))
    return against(subject.resident(version), subject.resident(at_once), block_s / 2)
