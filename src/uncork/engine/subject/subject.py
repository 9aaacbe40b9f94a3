"""What is measured and tuned: one training call, whatever loop drives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Final

from uncork.compat.tf.eager_context import clear_kernel_cache
from uncork.core.base.measurement import Comparison
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import DtypePolicy, Precision
from uncork.core.evidence.batches import BatchSizeTrial, RecordedBatches, VaryingShapes
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.correctness import KerasDefect, ReshuffledSplit
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.loop import (
    EvaluationCalls,
    HostSync,
    LoopLine,
    RecreatedFunction,
    StartupLine,
    StateGrowth,
    UnrolledLoop,
)
from uncork.core.evidence.model import FullResolutionLayer, OneHotLabels, SlowLayer, Transfer
from uncork.core.evidence.stage import Stage
from uncork.engine.subject.data_subset import DataSubset
from uncork.measure.machine.devices import best_device
from uncork.measure.profile.kernels import profile_kernels
from uncork.pipeline.profile.throughput import SupplyRate, measure_supply
from uncork.pycode.frames.layer_registry import LayerRegistry
from uncork.training.inspect.full_resolution_layers import find_full_resolution_layers
from uncork.training.inspect.keras_defects import find_loss_defects
from uncork.training.inspect.kernel_owners import group_kernels
from uncork.training.inspect.padding import Padding
from uncork.training.inspect.slow_layers import find_slow_layers
from uncork.training.tracing.unrolled_loops import find_unrolled_loop
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.handover import Handover

# How many times as large a batch is tried where several replicas share it.
LARGER_BATCH_FACTOR: Final = 8


class Subject(ABC):
    """One training call under examination. Leaves the user's state as it found it.

    Attributes:
        workload: What it is.
        original: The version the user wrote.
        notes: Things found on the way that the user should know.
        loses_time_between_calls: What a step costs beyond a resident one is lost between calls of
            ``fit``.
        ends_process: The process ends with this work: what is only there to be looked at may go on
            in another state. In a notebook it goes on to live.
        layers: What was seen of the script's layers; None where no script trains.
        startup_lines: Lines of it that took long before the training began.
        has_known_epochs: It is known how often the training goes through its data.
        first_step_s: Of the script's own first step, where that is past.
        data_subset: Gives versions less data where filling their caches takes long.
        use_all_data: Not now.
    """

    loses_time_between_calls: bool = False
    ends_process: bool = False
    layers: LayerRegistry | None = None
    startup_lines: tuple[StartupLine, ...] = ()
    has_known_epochs: bool = True
    first_step_s: float = 0.0
    data_subset: DataSubset | None = None
    use_all_data: bool = False
    workload: Workload
    original: Variant
    notes: list[str]

    def with_less_data(self, variant: Variant) -> Variant:
        """The version as it is tried: with less data, where its caches would take long to fill."""
        return (
            variant
            if self.data_subset is None or self.use_all_data
            else self.data_subset.subset_of(variant)
        )

    def observed_workload(self) -> Workload:
        """The workload, with what showed only while it ran."""
        return self.workload

    def end_of_data_reason(self) -> str:
        """Why nothing more can be tried, as its data are at an end; ``""`` where they are not."""
        return ""

    @abstractmethod
    def runner(self, variant: Variant) -> VariantRunner:
        """Something that runs this version; the same one for an equal version."""

    @abstractmethod
    def resident_runner(self, variant: Variant) -> VariantRunner:
        """The version's step fed with one batch from memory: its ceiling."""

    def prime_step(self, variant: Variant) -> tuple[float, int]:
        """Trace and compile the resident step: seconds, and how many steps ran meanwhile.

        No seconds where the script's own first step is past, or several shapes are compiled.
        """
        del variant
        return 0.0, 0

    def grouped_runner(self, variant: Variant, resident_s: float) -> VariantRunner | None:
        """The resident step without most of the Python between two steps, primed.

        None where steps cannot be grouped, or last so long that it would tell nothing.
        """
        del variant, resident_s
        return None

    def grouped_training_runner(self, variant: Variant) -> VariantRunner | None:
        """The training on its own input, its steps grouped, primed; None where it cannot be."""
        del variant
        return None

    def python_s(self, resident_s: float) -> float | None:
        """Seconds of a resident step outside ops, where :meth:`grouped_runner` gives none."""
        del resident_s
        return None

    def max_python_s(self, variant: Variant, resident_s: float) -> float | None:
        """The most that a resident step can spend in Python, for a :meth:`grouped_runner`.

        Seen in watched steps, which watching slows down. None where grouping saves more than
        Python.
        """
        del variant, resident_s
        return None

    def unpadded_runner(self) -> tuple[Padding, VariantRunner] | None:
        """The resident step on a batch without most of its padding; None where there is little.

        Whether the step takes such a batch shows when it is primed.
        """
        return None

    def larger_replica_batch_runner(self) -> tuple[int, VariantRunner] | None:
        """The resident step of several replicas on a batch so many times as large; None of one."""
        return None

    def measure_batch_sizes(self, variant: Variant, budget_s: float) -> tuple[BatchSizeTrial, ...]:
        """Larger batches, from the smallest on; nothing where the batch is not to be changed.

        Args:
            variant: What else is in force.
            budget_s: Seconds for all of them.
        """
        del variant, budget_s
        return ()

    def prove_training(self, variant: Variant, budget_s: float) -> Proof:
        """Train the original and this version on as many samples, and judge both by others."""
        del variant, budget_s
        return Proof(kind="training", passed=False, detail="no result can be compared")

    def runner_without_metrics(self) -> VariantRunner | None:
        """The resident step without the metrics that it computes; None where there are none."""
        return None

    def measure_callbacks(self) -> tuple[CallbackCost, ...]:
        """What callbacks take that act on every batch, as far as they can be tried."""
        return ()

    def measure_epoch_hooks(self) -> tuple[CallbackCost, ...]:
        """What callbacks take before and after an epoch; nothing is measured behind this."""
        return ()

    def measure_validation(self, epoch_s: float | None, block_s: float) -> Validation | None:
        """What validating takes; None where there is none that can be tried.

        Args:
            epoch_s: Seconds of an epoch's training; None where that is not known.
            block_s: How long to look at each thing.
        """
        del epoch_s, block_s
        return None

    def validation_s(self, variant: Variant) -> float | None:
        """Seconds of a version's validation, its caches filled; None where there is none."""
        del variant
        return None

    def validation_runner(self, variant: Variant) -> VariantRunner:
        """The validation steps of a variant, where :meth:`measure_validation` has a result."""
        raise NotImplementedError

    def prove_validation(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Compare what the original's and this version's validation read."""
        del variant, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no validation to compare")

    def measure_checkpoint_cost(self, step_s: float) -> CheckpointCost | None:
        """What checkpoints take; None where none are made that can be tried.

        Args:
            step_s: Of a step as it runs.
        """
        del step_s
        return None

    def checkpoint_runner(self, variant: Variant) -> VariantRunner:
        """Saves and steps of a variant, where :meth:`measure_checkpoint_cost` has a result."""
        raise NotImplementedError

    def prove_checkpoints(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Compare the files that the original's and this version's checkpoints come to."""
        del variant, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no checkpoint to compare")

    def measure_one_hot_labels(self) -> OneHotLabels | None:
        """What one-hot labels cost; None where there are none, or they are small."""
        return None

    def measure_transfer(self, variant: Variant) -> Transfer | None:
        """What sending a batch to its device takes; None where that is this host's memory."""
        del variant
        return None

    def batches_dataset(self, variant: Variant) -> Any:
        """The batches of a version as a ``tf.data.Dataset``, without any step."""
        assert variant.pipeline is not None
        return variant.pipeline.dataset

    def measure_supply(self, variant: Variant, budget_s: float) -> SupplyRate:
        """How fast the input of a version alone could be."""
        part = self.with_less_data(variant)
        found = measure_supply(self.batches_dataset(part), budget_s=budget_s)
        # Of less data the pipeline has other stages.
        return found if part is variant else replace(found, autotuned_parallelism={})

    def loader_stages(self, variant: Variant) -> tuple[Stage, ...]:
        """What feeds a version, where that is no tf.data pipeline."""
        del variant
        return ()

    def measure_kernels(self, variant: Variant, seconds: float) -> tuple[KernelGroup, ...]:
        """Whose kernels the resident step runs; nothing where no graph of it was traced.

        On a GPU they are the GPU's; nobody reads a TPU's.
        """
        device = best_device()
        if self.layers is None or device == "TPU":
            return ()
        runner = self.resident_runner(variant)
        if self.ends_process:
            clear_kernel_cache()
        found = profile_kernels(lambda: runner.block(seconds), on_gpu=device == "GPU")
        return group_kernels(found, self.layers, self.workload.batch_size)

    def with_policy(self, variant: Variant, policy: Precision) -> Variant | None:
        """The version with its step in another dtype policy; None where it cannot be switched."""
        if self.workload.model is None:
            return None
        keep = self.workload.float32_layers(policy)
        return variant.with_step_edits((DtypePolicy(policy=policy, float32_layers=keep),))

    def graph_digests(self, variant: Variant) -> tuple[str, ...]:
        """Digests of what the step of a loop was traced to in a version; none where Keras drives.

        Args:
            variant: That has run.
        """
        del variant
        return ()

    def compare_float32(self, block_s: float) -> Comparison | None:
        """The model of a loop of the user's own in float32 over the same in a lower precision."""
        del block_s
        return None

    def measure_recreated_function(self, step_s: float) -> RecreatedFunction | None:
        """A function that a loop's script makes anew for each epoch; None where Keras drives.

        Args:
            step_s: Of a step as it runs.
        """
        del step_s
        return None

    def measure_host_sync(self, seconds: float) -> HostSync | None:
        """How long a loop of the user's own waits for values of its step; None where Keras drives.

        Args:
            seconds: How long to look.
        """
        del seconds
        return None

    def measure_evaluation_calls(self, seconds: float) -> EvaluationCalls | None:
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

    def measure_varying_shapes(self, step_s: float, seconds: float) -> VaryingShapes | None:
        """What batches of new shapes cost; None where they cost nothing, or nobody knows.

        Args:
            step_s: Of a step as it runs.
            seconds: How long to look.
        """
        del step_s, seconds
        return None

    def measure_recorded_batches(self, variant: Variant, seconds: float) -> RecordedBatches | None:
        """The step on different batches from memory; None where nobody can keep them.

        Args:
            variant: Which version.
            seconds: How long to look.
        """
        del variant, seconds
        return None

    def measure_state_growth(self, seconds: float) -> StateGrowth | None:
        """State that grows with the steps; None where none does, or nobody knows."""
        del seconds
        return None

    def find_keras_defects(self) -> tuple[KerasDefect, ...]:
        """What Keras gets wrong in it."""
        return find_loss_defects()

    def find_reshuffled_split(self) -> ReshuffledSplit | None:
        """What is held out is trained on in later epochs; None as far as nobody knows of it."""
        return None

    def measure_loop_lines(self, seconds: float) -> tuple[LoopLine, ...]:
        """What the lines of a loop of the user's own take; nothing where Keras drives."""
        del seconds
        return ()

    def find_unrolled_loop(self, traced_s: float) -> UnrolledLoop | None:
        """A loop that is written out in the step, where its first run takes long.

        Args:
            traced_s: Seconds in which the step was traced by this subject's own runs.
        """
        first_s = max(traced_s, self.first_step_s)
        return find_unrolled_loop(self.layers, first_s) if self.has_known_epochs else None

    def find_slow_layers(self, parts: tuple[KernelGroup, ...]) -> tuple[SlowLayer, ...]:
        """Layers that pay for one of their arguments, of those whose kernels take longest."""
        if self.layers is None or self.workload.batch_size is None:
            return ()
        return tuple(find_slow_layers(self.layers, parts, self.workload.batch_size))

    def find_full_resolution_layers(self) -> tuple[FullResolutionLayer, ...]:
        """Layers that compute at every position of what the network reads."""
        return tuple(find_full_resolution_layers(self.layers)) if self.layers else ()

    @abstractmethod
    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Compare trainings of the original and this version's step on the same batches."""

    def record_handover(self, variant: Variant, budget_s: float) -> Handover | None:
        """What a process with something else beneath it needs; None where there can be none.

        Args:
            variant: That will be in force there.
            budget_s: For losses over several orders of the data; 0 where they are not asked for.
        """
        del variant, budget_s
        return None

    def prove_in_other_process(self, variant: Variant, handover: Handover) -> Proof:
        """Compare this version, as it runs in this process, with what another one has left."""
        raise NotImplementedError

    def prove_loader(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Compare the batches that the original and this version's Python loader give."""
        del variant, budget_s
        return Proof(kind=kind, passed=False, detail="the training has no loader to compare")

    @abstractmethod
    def restore(self) -> None:
        """Give the user's state back."""
