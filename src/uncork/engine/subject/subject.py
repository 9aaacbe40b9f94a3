"""What is measured and tuned: one training call, whatever loop drives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Final

from uncork.core.base.measurement import Comparison
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import DtypePolicy, Precision
from uncork.core.evidence.batches import BatchSize, NewShapes
from uncork.core.evidence.callbacks import CallbackCost, Saving, Validation
from uncork.core.evidence.correctness import KerasDefect, PartedAnew
from uncork.core.evidence.kernels import KernelPart
from uncork.core.evidence.loop import (
    Answering,
    Growth,
    LoopLine,
    Remade,
    StartLine,
    Unrolled,
    Waiting,
)
from uncork.core.evidence.model import FullSize, OneHot, SlowLayer, Transfer
from uncork.core.evidence.stage import Stage
from uncork.engine.subject.data_subset import ShorterData
from uncork.measure.machine.devices import best_device
from uncork.measure.profile.kernels import forget_kernels, profiled
from uncork.pipeline.profile.throughput import Supplied, supply
from uncork.pycode.frames.layer_registry import Layers
from uncork.training.inspect.full_resolution_layers import full_size
from uncork.training.inspect.keras_defects import defects_of_losses
from uncork.training.inspect.kernel_owners import kernel_parts
from uncork.training.inspect.padding import Padding
from uncork.training.inspect.slow_layers import slow_layers
from uncork.training.tracing.unrolled_loops import unrolled
from uncork.training.variant import Version, VersionRunner
from uncork.verify.provers.handover import HandedOver

# How many times as large a batch is tried where several replicas share it.
LARGER: Final = 8


class Subject(ABC):
    """One training call under examination. Leaves the user's state as it found it.

    Attributes:
        workload: What it is.
        original: The version the user wrote.
        notes: Things found on the way that the user should know.
        between_calls: What a step costs beyond a resident one is lost between calls of ``fit``.
        ends_here: The process ends with this work: what is only there to be looked at may go on in
            another state. In a notebook it goes on to live.
        layers: What was seen of the script's layers; None where no script trains.
        start: Lines of it that took long before the training began.
        counted: It is known how often the training goes through its data.
        first_step_s: Of the script's own first step, where that is past.
        shorter: Gives versions less data where filling their caches takes long.
        whole: Not now.
    """

    between_calls: bool = False
    ends_here: bool = False
    layers: Layers | None = None
    start: tuple[StartLine, ...] = ()
    counted: bool = True
    first_step_s: float = 0.0
    shorter: ShorterData | None = None
    whole: bool = False
    workload: Workload
    original: Version
    notes: list[str]

    def on_part(self, version: Version) -> Version:
        """The version as it is tried: with less data, where its caches would take long to fill."""
        return version if self.shorter is None or self.whole else self.shorter.of(version)

    def seen(self) -> Workload:
        """The workload, with what showed only while it ran."""
        return self.workload

    def out_of_data(self) -> str:
        """Why nothing more can be tried, as its data are at an end; ``""`` where they are not."""
        return ""

    @abstractmethod
    def runner(self, version: Version) -> VersionRunner:
        """Something that runs this version; the same one for an equal version."""

    @abstractmethod
    def resident(self, version: Version) -> VersionRunner:
        """The version's step fed with one batch from memory: its ceiling."""

    def grouped(self, version: Version, resident_s: float) -> VersionRunner | None:
        """The resident step without most of the Python between two steps, primed.

        None where steps cannot be grouped, or last so long that it would tell nothing.
        """
        del version, resident_s
        return None

    def grouped_training(self, version: Version) -> VersionRunner | None:
        """The training on its own input, its steps grouped, primed; None where it cannot be."""
        del version
        return None

    def python_s(self, resident_s: float) -> float | None:
        """Seconds of a resident step outside TensorFlow's ops, where :meth:`grouped` gives none."""
        del resident_s
        return None

    def most_python_s(self, version: Version, resident_s: float) -> float | None:
        """The most that a resident step can spend in Python, where :meth:`grouped` gives a runner.

        Seen in watched steps, which watching slows down. None where grouping saves more than
        Python.
        """
        del version, resident_s
        return None

    def shortened(self) -> tuple[Padding, VersionRunner] | None:
        """The resident step on a batch without most of its padding; None where there is little.

        Whether the step takes such a batch shows when it is primed.
        """
        return None

    def larger(self) -> tuple[int, VersionRunner] | None:
        """The resident step of several replicas on a batch so many times as large; None of one."""
        return None

    def batch_sizes(self, version: Version, budget_s: float) -> tuple[BatchSize, ...]:
        """Larger batches, from the smallest on; nothing where the batch is not to be changed.

        Args:
            version: What else is in force.
            budget_s: Seconds for all of them.
        """
        del version, budget_s
        return ()

    def prove_training(self, version: Version, budget_s: float) -> Proof:
        """Train the original and this version on as many samples, and judge both by others."""
        del version, budget_s
        return Proof(kind="training", passed=False, detail="there is nothing to judge it by")

    def without_metrics(self) -> VersionRunner | None:
        """The resident step without the metrics that it computes; None where there are none."""
        return None

    def callbacks(self) -> tuple[CallbackCost, ...]:
        """What callbacks take that act on every batch, as far as they can be tried."""
        return ()

    def epoch_hooks(self) -> tuple[CallbackCost, ...]:
        """What callbacks take before and after an epoch; nothing is measured behind this."""
        return ()

    def validation(self, epoch_s: float | None, block_s: float) -> Validation | None:
        """What validating takes; None where there is none that can be tried.

        Args:
            epoch_s: Seconds of an epoch's training; None where that is not known.
            block_s: How long to look at each thing.
        """
        del epoch_s, block_s
        return None

    def validation_s(self, version: Version) -> float | None:
        """Seconds of a version's validation, its caches filled; None where there is none."""
        del version
        return None

    def validation_runner(self, version: Version) -> VersionRunner:
        """The validation steps of a version, of a training for which :meth:`validation` told."""
        raise NotImplementedError

    def prove_validation(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare what the original's and this version's validation read."""
        del version, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no validation to compare")

    def saving(self, step_s: float) -> Saving | None:
        """What checkpoints take; None where none are made that can be tried.

        Args:
            step_s: Of a step as it runs.
        """
        del step_s
        return None

    def saving_runner(self, version: Version) -> VersionRunner:
        """Saves and steps of a version, of a training for which :meth:`saving` told."""
        raise NotImplementedError

    def prove_saving(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare the files that the original's and this version's checkpoints come to."""
        del version, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no checkpoint to compare")

    def one_hot(self) -> OneHot | None:
        """What one-hot labels cost; None where there are none, or they are small."""
        return None

    def transfer(self, version: Version) -> Transfer | None:
        """What sending a batch to its device takes; None where that is this host's memory."""
        del version
        return None

    def supply(self, version: Version) -> Any:
        """The batches of a version as a ``tf.data.Dataset``, without any step."""
        assert version.pipeline is not None
        return version.pipeline.dataset

    def supplied(self, version: Version, budget_s: float) -> Supplied:
        """How fast the input of a version alone could be."""
        part = self.on_part(version)
        found = supply(self.supply(part), budget_s=budget_s)
        # Of less data the pipeline has other stages.
        return found if part is version else replace(found, chosen={})

    def loader_stages(self, version: Version) -> tuple[Stage, ...]:
        """What feeds a version, where that is no tf.data pipeline."""
        del version
        return ()

    def kernels(self, version: Version, seconds: float) -> tuple[KernelPart, ...]:
        """Whose kernels the resident step runs; nothing where no graph of it was traced.

        On a GPU they are the GPU's; nobody reads a TPU's.
        """
        device = best_device()
        if self.layers is None or device == "TPU":
            return ()
        runner = self.resident(version)
        if self.ends_here:
            forget_kernels()
        found = profiled(lambda: runner.block(seconds), on_gpu=device == "GPU")
        return kernel_parts(found, self.layers, self.workload.batch_size)

    def in_policy(self, version: Version, policy: Precision) -> Version | None:
        """The version with its step in another dtype policy; None where it cannot be switched."""
        if self.workload.model is None:
            return None
        keep = self.workload.kept_in(policy)
        return version.with_step_edits((DtypePolicy(policy=policy, keep=keep),))

    def graphs(self, version: Version) -> tuple[str, ...]:
        """Digests of what the step of a loop was traced to in a version; none where Keras drives.

        Args:
            version: That has run.
        """
        del version
        return ()

    def in_float32(self, block_s: float) -> Comparison | None:
        """The model of a loop of the user's own in float32 over the same in a lower precision."""
        del block_s
        return None

    def remade(self, step_s: float) -> Remade | None:
        """A function that a loop's script makes anew for each epoch; None where Keras drives.

        Args:
            step_s: Of a step as it runs.
        """
        del step_s
        return None

    def waiting(self, seconds: float) -> Waiting | None:
        """How long a loop of the user's own waits for values of its step; None where Keras drives.

        Args:
            seconds: How long to look.
        """
        del seconds
        return None

    def answering(self, seconds: float) -> Answering | None:
        """What a loop of the user's own spends in ``evaluate`` and ``predict``; None in none.

        Args:
            seconds: How long to look.
        """
        del seconds
        return None

    def untraced_s(self, seconds: float) -> float | None:
        """Seconds of a resident step on arguments that it knows; None where Keras drives.

        Args:
            seconds: How long to look.
        """
        del seconds
        return None

    def new_shapes(self, step_s: float, seconds: float) -> NewShapes | None:
        """What batches of new shapes cost; None where they cost nothing, or nobody knows.

        Args:
            step_s: Of a step as it runs.
            seconds: How long to look.
        """
        del step_s, seconds
        return None

    def growth(self, seconds: float) -> Growth | None:
        """State that grows with the steps; None where none does, or nobody knows."""
        del seconds
        return None

    def keras_defects(self) -> tuple[KerasDefect, ...]:
        """What Keras gets wrong in it."""
        return defects_of_losses()

    def parted_anew(self) -> PartedAnew | None:
        """What is held out is trained on in later epochs; None as far as nobody knows of it."""
        return None

    def loop_lines(self, seconds: float) -> tuple[LoopLine, ...]:
        """What the lines of a loop of the user's own take; nothing where Keras drives."""
        del seconds
        return ()

    def unrolled(self, traced_s: float) -> Unrolled | None:
        """A loop that is written out in the step, where its first run takes long.

        Args:
            traced_s: Seconds in which the step was traced by this subject's own runs.
        """
        first_s = max(traced_s, self.first_step_s)
        return unrolled(self.layers, first_s) if self.counted else None

    def slow_layers(self, parts: tuple[KernelPart, ...]) -> tuple[SlowLayer, ...]:
        """Layers that pay for one of their arguments, of those whose kernels take longest."""
        if self.layers is None or self.workload.batch_size is None:
            return ()
        return tuple(slow_layers(self.layers, parts, self.workload.batch_size))

    def full_size(self) -> tuple[FullSize, ...]:
        """Layers that compute at every position of what the network reads."""
        return tuple(full_size(self.layers)) if self.layers else ()

    @abstractmethod
    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare trainings of the original and this version's step on the same batches."""

    def hand_over(self, version: Version, budget_s: float) -> HandedOver | None:
        """What a process with something else beneath it needs; None where there can be none.

        Args:
            version: That will be in force there.
            budget_s: For losses over several orders of the data; 0 where they are not asked for.
        """
        del version, budget_s
        return None

    def prove_elsewhere(self, version: Version, handed: HandedOver) -> Proof:
        """Compare this version, as it runs in this process, with what another one has left."""
        raise NotImplementedError

    def prove_loader(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Compare the batches that the original and this version's Python loader give."""
        del version, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no loader to compare")

    @abstractmethod
    def restore(self) -> None:
        """Give the user's state back."""
