"""Where the time of a training goes: the record behind ``diagnosis.json``."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from uncork.core.base.errors import WrongUse
from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Comparison, Measurement, Spread
from uncork.core.base.record import Record, from_json
from uncork.core.base.script import script_words
from uncork.core.documents.workload import Workload
from uncork.core.evidence.batches import (
    BatchSizeTrial,
    LargerReplicaBatch,
    MemoryOverflow,
    RecordedBatches,
    VaryingShapes,
)
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
from uncork.core.evidence.model import (
    BatchPadding,
    FullResolutionLayer,
    OneHotLabels,
    SlowLayer,
    Transfer,
)
from uncork.core.evidence.stage import Stage
from uncork.core.evidence.storage import CacheFolder, ColdFiles

DIAGNOSIS_SCHEMA: Final = 6
# Of the whole run. A part that takes more is worth a finding; where noise hides as much of a step,
# nothing proves that the training is healthy.
MIN_PART_SHARE: Final = 0.15

Severity = Literal["speed", "correctness", "environment"]

Cause = Literal[
    # machine
    "no_accelerator", "missing_gpu_library", "cpu_quota", "slow_start", "page_faults",
    # input
    "serial_map", "stateful_serial_map", "python_loader", "py_function", "no_prefetch",
    "per_element_work", "shuffle_of_decoded", "cache_missing", "cache_misplaced",
    "random_under_cache", "repeated_draws", "storage_bound", "autotune_memory", "array_copies",
    "wide_dtype", "one_hot_labels", "wasted_work", "padding", "transfer", "leaking_split",
    # host
    "eager_step", "retracing", "recompiling", "small_steps", "metrics_every_step", "callbacks",
    "validation_setup", "fit_in_loop", "growing_state", "sync_every_step",
    # device
    "augmentation_in_model", "per_example_loop", "rnn_slow_kernel", "dense_embedding_update",
    "optimizer_kernels", "low_precision_unused", "low_precision_harmful", "slow_kernel",
    "compute_bound",
    # scale
    "replica_too_small", "unsharded_input", "idle_devices",
    # whatever no rule above explains, of a part of the whole run
    "input_bound", "host_bound", "compile_time", "validation_time", "saving_time",
    # any
    "keras_defect", "healthy",
]  # fmt: skip


class Finding(Record, frozen=True, kw_only=True):
    """A named cause with its evidence.

    Attributes:
        cause: From the fixed vocabulary.
        severity: Whether it costs speed, spoils the training, or lies in the environment.
        share: Part of the step time it accounts for, or of what :attr:`share_of` says, 0 to 1.
        upper_bound: How many times faster what :attr:`share_of` says could at most be without it,
            at least 1. Of each finding by itself: two of them may save the same time.
        upper_bound_interval: Of that, from the noise of the shares it rests on; None where there is
            none.
        at: ``file.py:line`` to look at, None when no line is to blame.
        evidence: The figures that say so.
        remedy: What to do, or what ``uncork tune`` would try.
        share_of: What the share and the bound are of.
        run_share: Part of the whole run that goes away with it at most, by itself, 0 to 1; None
            where that was not worked out. Of an epoch or a step, where nobody knows how long the
            run is.
        own_run_share: Of that, what no finding before it saves already: of all findings together
            at most 1.
        same_time_as: Cause of the finding before it that saves most of the same time; None where
            none does.
    """

    cause: Cause
    severity: Severity = "speed"
    share: float
    upper_bound: float
    upper_bound_interval: tuple[float, float] | None = None
    at: str | None
    evidence: str
    remedy: str
    share_of: str = "the step"
    run_share: float | None = None
    own_run_share: float | None = None
    same_time_as: Cause | None = None

    @property
    def run_gain(self) -> float:
        """How many times faster the whole run could be without it; its bound where unknown."""
        if self.run_share is None:
            return self.upper_bound
        return 1 / max(1e-9, 1 - self.run_share)


class WorkloadDiagnosis(Record, frozen=True, kw_only=True):
    """Everything measured about one training call.

    Attributes:
        workload: Which call.
        measurement: Steady state, as the user's script would run, its callbacks left out.
        ceilings: samples/s by name: ``consumer`` (the step on a resident batch), ``supply`` (the
            pipeline alone), ``host`` (cores over CPU seconds a step) and, where there is such
            work, ``serial``, ``decode``, ``storage`` and ``cache_folder``
            (:mod:`uncork.core.costmodel.ceilings`).
        headroom: The consumer's ceiling over the measured speed, at least 1.
        breakdown: Shares of one step that add up to 1: ``input``, ``host``, ``step``, ``compile``
            where XLA compiles it anew, and ``unknown`` for what may be nothing but noise.
        breakdown_intervals: Of the shares of ``input`` and ``host``, noise included.
        consumer_cpu_s: CPU seconds of one step on a resident batch; None where that is not known.
        busy_core_speed_ratio: Speed of a core while all are busy, over that of one alone, 0 to 1.
        tracing_share: Part of a step in which functions were traced anew, 0 to 1.
        step_s_without_tracing: Seconds of a loop's resident step on arguments that it knows, where
            functions are traced anew and that could be tried.
        stages: The input pipeline, source first.
        findings: Correctness issues first, then by what of the whole run they save.
        notes: Things to know that are no finding, e.g. why a probe was left out.
        memory_available_bytes: What a cache could have been given from, when this was measured.
        cache_folder: The folder for files that the user has named; None where there is none.
        cold_files: Where its data lies in files that were read from the disk, to see how fast it
            is.
        has_native_bfloat16: The device computes bfloat16 natively; None when that is unknown.
        bfloat16_speedup: The step on a resident batch in bfloat16 over the same as written; None
            where that was not tried.
        has_fast_float16: It is fast in float16; None when that is unknown.
        float16_speedup: The same in float16, where the device has no bfloat16.
        float32_speedup: The same in float32, of a model whose layers compute in a lower precision.
        speedup_without_metrics: The step without the metrics of ``compile`` over the same as it is;
            None where there are none.
        flat_updates_speedup: The step with one update of all small weights over the same as it is;
            None where that was not tried.
        callbacks: Those that act on every batch, as far as they could be tried; steps are
            measured without them.
        validation: After an epoch of ``fit``; None where there is none, or Python makes its data.
        checkpoint_cost: By the checkpoints of a ``fit``; None where there are none, or on no disk
            of here.
        padding: Where much of a batch is padding; None where that was not seen, or the step takes
            no shorter one.
        one_hot_labels: Where labels are one-hot, and many bytes.
        transfer: Where the step's variables are not in this host's memory.
        kernels: Those of the step on a resident batch, the longest parts first; none where the
            profiler saw none, as of a step that XLA compiled.
        slow_layers: Layers of the script that pay for one of their arguments.
        full_resolution_layers: Layers of the script that compute at the full size of its input.
        loop_lines: Of a loop of the user's own over a dataset, the longest first.
        startup_lines: Lines that take long before the training begins, the longest first.
        first_step_s: Seconds that the first step takes for being traced, or for being the first.
        unrolled_loop: Where the first step takes seconds.
        varying_shapes: Of a ``fit`` that XLA compiles, where batches differ in shape.
        recorded_batches: Where figures contradict each other that they can decide about.
        larger_replica_batch: Of a ``fit`` on several replicas.
        batch_size_trials: Of a ``fit`` whose batch may be changed, as far as larger ones were
            tried.
        memory_overflow: Of a ``fit`` that runs out of memory as written: figures are of it as it
            fits.
        recreated_function: Of a loop of the user's own.
        host_sync: Of a loop of the user's own.
        evaluation_calls: Of a loop of the user's own, where it evaluates or predicts.
        state_growth: Of a ``fit`` whose model holds a variable of open shape, where that grows.
        keras_defects: What Keras gets wrong in it, as far as that is known.
        reshuffled_split: Of a ``fit`` whose validation data is trained on in later epochs.
        has_deterministic_ops: The script has TensorFlow's ops made deterministic.
    """

    workload: Workload
    measurement: Measurement
    ceilings: dict[str, float]
    headroom: float
    breakdown: dict[str, float]
    breakdown_intervals: dict[str, Spread] = msgspec.field(default_factory=dict)
    consumer_cpu_s: float | None = None
    busy_core_speed_ratio: float = 1.0
    tracing_share: float = 0.0
    step_s_without_tracing: float | None = None
    stages: tuple[Stage, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    memory_available_bytes: int = 0
    cache_folder: CacheFolder | None = None
    cold_files: ColdFiles | None = None
    has_native_bfloat16: bool | None = None
    bfloat16_speedup: Comparison | None = None
    has_fast_float16: bool | None = None
    float16_speedup: Comparison | None = None
    float32_speedup: Comparison | None = None
    speedup_without_metrics: Comparison | None = None
    flat_updates_speedup: Comparison | None = None
    callbacks: tuple[CallbackCost, ...] = ()
    validation: Validation | None = None
    checkpoint_cost: CheckpointCost | None = None
    padding: BatchPadding | None = None
    one_hot_labels: OneHotLabels | None = None
    transfer: Transfer | None = None
    kernels: tuple[KernelGroup, ...] = ()
    slow_layers: tuple[SlowLayer, ...] = ()
    full_resolution_layers: tuple[FullResolutionLayer, ...] = ()
    loop_lines: tuple[LoopLine, ...] = ()
    startup_lines: tuple[StartupLine, ...] = ()
    first_step_s: float = 0.0
    unrolled_loop: UnrolledLoop | None = None
    varying_shapes: VaryingShapes | None = None
    recorded_batches: RecordedBatches | None = None
    larger_replica_batch: LargerReplicaBatch | None = None
    batch_size_trials: tuple[BatchSizeTrial, ...] = ()
    memory_overflow: MemoryOverflow | None = None
    recreated_function: RecreatedFunction | None = None
    host_sync: HostSync | None = None
    evaluation_calls: EvaluationCalls | None = None
    state_growth: StateGrowth | None = None
    keras_defects: tuple[KerasDefect, ...] = ()
    reshuffled_split: ReshuffledSplit | None = None
    has_deterministic_ops: bool = False

    @property
    def step_s(self) -> float:
        """Seconds of one step."""
        return self.measurement.step_s.median

    def speedup_with_faster_step(self, step_speedup: float) -> float:
        """Speed-up of the whole if its kernels alone ran this many times as fast (Amdahl's law)."""
        share = self.breakdown.get("step", 0.0)
        return 1 / (1 - share + share / step_speedup)

    def speedup_without_input_wait(self, share: float) -> float:
        """Speed-up of the whole if this part of what its steps wait for were spared."""
        return 1 / max(1e-9, 1 - self.breakdown.get("input", 0.0) * share)

    def speedup_without_host_time(self, share: float) -> float:
        """Speed-up of the whole if this part of what is lost between its steps were spared."""
        return 1 / max(1e-9, 1 - self.breakdown.get("host", 0.0) * share)

    def speedup_with_faster_resident_step(self, step_speedup: float) -> float:
        """Speed-up of the whole if its step on a resident batch ran this many times as fast."""
        share = self.resident_share
        return 1 / (1 - share + share / step_speedup)

    @property
    def resident_share(self) -> float:
        """Part of a step that it would take on a batch from memory, 0 to 1."""
        return 1 - self.breakdown.get("input", 0.0) - self.breakdown.get("compile", 0.0)

    @property
    def retracing_share(self) -> float:
        """Part of a step that tracing anew costs, 0 to 1, with what follows a trace if known.

        A new graph is also optimized and set up, which TensorFlow does not tell apart from running
        it.
        """
        if self.step_s_without_tracing is None:
            return self.tracing_share
        return max(
            self.tracing_share, self.resident_share - self.step_s_without_tracing / self.step_s
        )

    @property
    def is_inconclusive(self) -> bool:
        """Noise hides so much of a step that finding no bottleneck proves nothing."""
        return self.breakdown.get("unknown", 0.0) > MIN_PART_SHARE

    @property
    def outside_step_share(self) -> float:
        """Part of a step that lines of the user's own loop take beside it, 0 to 1."""
        return self.resident_share * sum(
            line.share for line in self.loop_lines if line.is_outside_step
        )

    def layer_kernel_share(self, slow_layer: SlowLayer) -> float:
        """Share of the layers that were made at one line, of all kernels of the step."""
        of_layer = (slow_layer.layer, slow_layer.at)
        return sum(part.share for part in self.kernels if (part.layer, part.at) == of_layer)

    def speedup_without_page_faults(self) -> float:
        """Speed-up of the whole if it were given no new memory while it trains.

        They pass beside other work where several cores are at work, and at most in a row.
        """
        measured = self.measurement
        in_a_row = measured.page_fault_s_per_step / self.step_s
        beside = measured.page_fault_s_per_step / max(measured.cpu_s_per_step, 1e-9)
        return 1 / max(1e-2, 1 - min(in_a_row, beside))

    def speedup_without_kernels(self, share: float) -> float:
        """Speed-up of the whole if so much of its kernels' time were saved, 0 to 1."""
        return 1 / max(1e-9, 1 - self.breakdown.get("step", 0.0) * share)


class Overhead(Record, frozen=True, kw_only=True):
    """What looking cost.

    Attributes:
        step_share: Part of a measured step spent in Uncork's own code, 0 to 1.
        total_s: Seconds the whole diagnosis took.
    """

    step_share: float
    total_s: float


class Diagnosis(Record, frozen=True, kw_only=True):
    """The content of ``diagnosis.json``. ``schema`` changes when a field changes its meaning.

    Attributes:
        script: As the user typed it; the file of a module. ``""`` where Python asked.
        module: Name of the module that was run with ``-m``; ``""`` for a script.
        arguments: The script's own, one by one.
        working_folder: Absolute path of the folder that the command was typed in.
        reached_workloads: All training calls met before the script was stopped, the diagnosed ones
            included.
    """

    schema: int = DIAGNOSIS_SCHEMA
    script: str
    module: str = ""
    arguments: tuple[str, ...] = ()
    working_folder: str = ""
    machine: Machine
    workloads: tuple[WorkloadDiagnosis, ...]
    reached_workloads: tuple[Workload, ...] = ()
    overhead: Overhead

    @property
    def script_words(self) -> tuple[str, ...]:
        """What follows ``python`` to run the script as it was diagnosed."""
        return script_words(self.script, self.module, self.arguments)


def parse_diagnosis(text: bytes, origin: str = "the diagnosis") -> Diagnosis:
    """Read a diagnosis, or say exactly why it cannot be.

    Args:
        text: Content of the file.
        origin: Its name, for messages.

    Raises:
        WrongUse: It is of another schema, or misses or misnames a field.

    Example:
        >>> parse_diagnosis(b'{"schema": 1}', "diagnosis.json")
        Traceback (most recent call last):
            ...
        uncork.core.base.errors.WrongUse: diagnosis.json has schema 1
          expected: schema 6
          try: run 'uncork diagnose SCRIPT' to create a new one
    """
    again = "run 'uncork diagnose SCRIPT' to create a new one"
    try:
        schema = msgspec.json.decode(text, type=_OnlySchema).schema
        if schema == DIAGNOSIS_SCHEMA:
            return from_json(text, Diagnosis)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongUse(
            f"{origin} is damaged: {error}", "an unchanged diagnosis.json", again
        ) from None
    newer = "upgrade Uncork: pip install -U uncork" if schema > DIAGNOSIS_SCHEMA else again
    raise WrongUse(f"{origin} has schema {schema}", f"schema {DIAGNOSIS_SCHEMA}", newer)


class _OnlySchema(msgspec.Struct):
    schema: int


class Explanation(Record, frozen=True, kw_only=True):
    """A pipeline with what its stages cost, nobody consuming it.

    Attributes:
        stages: Source first; those of a branch before the one that joins it with others.
        elements_per_s: Of the whole pipeline alone.
        cpu_s_per_element: CPU seconds of each, the whole pipeline together.
        cpus: Cores it may keep busy.
    """

    stages: tuple[Stage, ...]
    elements_per_s: float
    cpu_s_per_element: float
    cpus: float
