"""Realistic records: an image training with a serial, random map, and the plan that fixes it."""

from __future__ import annotations

from typing import Any

from uncork.core.base.machine import Machine
from uncork.core.base.measurement import Measurement, Spread
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Diagnosis, Finding, Overhead, WorkloadDiagnosis
from uncork.core.documents.plan import Plan, PlanStep, Policy, Proof, Ratio, Speedup, TimeToFinish
from uncork.core.documents.workload import ModelSignature, Workload
from uncork.core.edits.pipeline import Cache, Prefetch, SplitMap
from uncork.core.edits.step import StepsPerExecution
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.stage import AUTOTUNE, CachePoint, MapPrefix, OpCost, Stage

MACHINE = Machine(
    cpus=2.0,
    cpu_model="AMD EPYC 9B14",
    memory_bytes=8_300_000_000,
    python="3.11.9",
    tensorflow="2.21.0",
    keras="3.15.1",
)

WORKLOAD = Workload(
    index=0,
    at="train.py:41",
    kind="fit",
    data_kind="tf.data",
    model=ModelSignature(
        name="Sequential",
        parameter_count=1_204_362,
        variables_digest="9f2c",
        optimizer="Adam",
        loss="sparse_categorical_crossentropy",
        dtype_policies=("float32",),
    ),
    element_spec="(float32[32,224,224,3], int64[32])",
    batch_size=32,
    steps_per_epoch=312,
    epochs=10,
    pipeline_digest="51ab",
    step_setup_at="train.py:33",
)

STAGES = (
    Stage(
        index=0,
        kind="from_tensor_slices",
        at="train.py:20",
        cpu_s_per_element=1.2e-6,
        wall_s_per_element=1.2e-6,
        bytes_per_element=72,
        elements_per_step=32,
    ),
    Stage(
        index=1,
        kind="shuffle",
        at="train.py:21",
        cpu_s_per_element=2.1e-6,
        wall_s_per_element=2.2e-6,
        bytes_per_element=72,
        ratio=1,
        elements_per_step=32,
    ),
    Stage(
        index=2,
        kind="map",
        at="train.py:23",
        name="load_and_augment",
        cpu_s_per_element=1.53e-3,
        wall_s_per_element=1.55e-3,
        bytes_per_element=602_120,
        ratio=1,
        elements_per_step=32,
        parallelism=1,
        is_random=True,
        deterministic_prefix=MapPrefix(
            op_count=9, bytes_per_element=602_120, cpu_s_per_element=1.4e-3
        ),
        op_costs=(
            OpCost(op="DecodeJpeg", at="train.py:15", share=0.61),
            OpCost(op="ResizeBilinear", at="train.py:16", share=0.3),
            OpCost(op="ReadFile", share=0.05),
            OpCost(op="ReverseV2", at="train.py:18", share=0.03),
        ),
        cache_point=CachePoint(
            element_count=9_984, memory_bytes=6_011_000_000, saved_cpu_s_per_step=0.0448
        ),
    ),
    Stage(
        index=3,
        kind="map",
        at="train.py:24",
        name="to_float",
        cpu_s_per_element=6.1e-5,
        wall_s_per_element=6.4e-5,
        bytes_per_element=602_120,
        ratio=1,
        elements_per_step=32,
        parallelism=AUTOTUNE,
    ),
    Stage(
        index=4,
        kind="batch",
        at="train.py:25",
        cpu_s_per_element=2.2e-3,
        wall_s_per_element=2.3e-3,
        bytes_per_element=19_267_840,
        ratio=32,
        elements_per_step=1,
    ),
)

KERNELS = (
    KernelGroup(
        phase="backward",
        share=0.52,
        calls_per_step=4.0,
        main_kernel="Conv2DBackpropFilter",
        layer="Conv2D",
        at="train.py:29",
    ),
    KernelGroup(
        phase="forward",
        share=0.31,
        calls_per_step=1920.0,
        main_kernel="TensorListPushBack",
        layer="Attention",
        at="train.py:31",
        loop_iterations=32,
    ),
    KernelGroup(
        phase="optimizer",
        share=0.12,
        calls_per_step=160.0,
        main_kernel="Mul",
        at="train.py:33",
        short_kernel_share=0.12,
        short_calls_per_step=160.0,
    ),
    KernelGroup(phase="forward", share=0.05, calls_per_step=30.5, main_kernel="Cast"),
)

FINDINGS = (
    Finding(
        cause="stateful_serial_map",
        share=0.75,
        upper_bound=4.052,
        at="train.py:23",
        evidence="the map 'load_and_augment' draws random numbers, so TensorFlow runs it serially:"
        " 49.6 ms of a 52.3 ms step, with 1 of 2 cores busy",
        remedy="split it: decode and resize in parallel, flip afterwards",
    ),
    Finding(
        cause="cache_missing",
        share=0.68,
        upper_bound=3.2,
        at="train.py:23",
        evidence="9,984 images of 602 kB are decoded again in each of 10 epochs; they fit 6.0 GB",
        remedy="cache after resize, below the shuffle",
    ),
    Finding(
        cause="no_prefetch",
        share=0.11,
        upper_bound=1.12,
        at="train.py:25",
        evidence="nothing is prepared while the step runs",
        remedy="end the pipeline with prefetch",
    ),
)

TRAP = Finding(
    cause="random_under_cache",
    severity="correctness",
    share=0.0,
    upper_bound=1.0,
    at="train.py:22",
    evidence="random_flip stands below cache(): every epoch sees the flips of the first",
    remedy="cache before the random part",
)

HEALTHY = Finding(
    cause="healthy",
    share=0.0,
    upper_bound=1.03,
    at=None,
    evidence="the input is ready 99 % of the time and no step stands out",
    remedy="leave it as it is",
)


def measurement(samples_per_s: float, *, batch: int = 32, n: int = 12) -> Measurement:
    step = batch / samples_per_s
    return Measurement(
        samples_per_s=samples_per_s,
        step_s=Spread(median=step, low=step * 0.992, high=step * 1.009, n=n),
        cpu_s_per_step=step * 1.1,
        warmup_s=3.4,
        block_samples_per_s=tuple(samples_per_s * (1 + 0.004 * (i % 3 - 1)) for i in range(n)),
    )


def workload_diagnosis(**changes: Any) -> WorkloadDiagnosis:
    base = WorkloadDiagnosis(
        workload=WORKLOAD,
        measurement=measurement(612.0),
        ceilings={"consumer": 2480.0, "supply": 634.0, "host": 1163.0},
        headroom=4.052,
        breakdown={"input": 0.742, "host": 0.021, "step": 0.228, "unknown": 0.009},
        stages=STAGES,
        findings=FINDINGS,
        notes=("the metrics probe was left out: one metric only",),
    )
    return replace(base, **changes)


def healthy_diagnosis(**changes: Any) -> WorkloadDiagnosis:
    fast = {
        "measurement": measurement(2412.0),
        "headroom": 1.03,
        "ceilings": {"consumer": 2480.0, "supply": 9100.0, "host": 2600.0},
        "breakdown": {"input": 0.012, "host": 0.019, "step": 0.951, "unknown": 0.018},
        "findings": (HEALTHY,),
        "notes": (),
        "stages": tuple(
            replace(stage, parallelism=None, wall_s_per_element=(stage.wall_s_per_element or 0) / 9)
            for stage in STAGES
        ),
    }
    return workload_diagnosis(**{**fast, **changes})


def diagnosis(*workloads: WorkloadDiagnosis, **changes: Any) -> Diagnosis:
    shown = workloads or (workload_diagnosis(),)
    base = Diagnosis(
        script="train.py",
        machine=MACHINE,
        workloads=shown,
        reached_workloads=tuple(each.workload for each in shown),
        overhead=Overhead(step_share=0.004, total_s=11.3),
    )
    return replace(base, **changes)


STEPS = (
    PlanStep(
        name="memory_growth",
        stage="machine",
        outcome="skipped",
        reason="no GPU on this machine",
    ),
    PlanStep(
        name="split_map",
        stage="input",
        outcome="kept",
        reason="the random part is 8 % of the map; the rest now runs on both cores",
        guarantee="exact",
        predicted=1.95,
        measured=Ratio(ratio=1.83, low=1.79, high=1.88),
        proof=Proof(
            kind="exact",
            passed=True,
            detail="640 elements of 2 epochs equal, in order; weights equal after 20 steps",
        ),
        edits=(SplitMap(stage=2, expected_digest="51ab"),),
        samples_per_s=1120.0,
        at="train.py:23",
        source_edit="ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)\n"
        "ds = ds.map(augment)  # was: ds.map(load_and_augment)",
    ),
    PlanStep(
        name="cache",
        stage="input",
        outcome="kept",
        reason="6.0 GB held, 44.8 ms of CPU saved in every later step",
        guarantee="exact",
        predicted=1.9,
        measured=Ratio(ratio=1.74, low=1.69, high=1.80),
        proof=Proof(kind="exact", passed=True, detail="19,968 elements of 2 epochs equal"),
        edits=(Cache(stage=2, expected_digest="51ab"),),
        samples_per_s=1950.0,
        at="train.py:23",
        source_edit="ds = ds.cache()  # between load and augment",
    ),
    PlanStep(
        name="prefetch",
        stage="input",
        outcome="kept",
        reason="batches are prepared while the step runs",
        guarantee="exact",
        predicted=1.12,
        measured=Ratio(ratio=1.15, low=1.11, high=1.19),
        proof=Proof(kind="exact", passed=True, detail="640 elements equal in value and order"),
        edits=(Prefetch(expected_digest="51ab"),),
        samples_per_s=2243.0,
        at="train.py:25",
        source_edit="ds = ds.prefetch(tf.data.AUTOTUNE)",
    ),
    PlanStep(
        name="steps_per_execution",
        stage="host",
        outcome="kept",
        reason="32 steps for each call from Python",
        guarantee="exact",
        predicted=1.02,
        measured=Ratio(ratio=1.03, low=1.01, high=1.05),
        proof=Proof(kind="exact", passed=True, detail="weights equal after 64 steps, bit for bit"),
        edits=(StepsPerExecution(steps=32),),
        samples_per_s=2310.0,
        at="train.py:38",
        source_edit="model.compile(..., steps_per_execution=32)",
    ),
    PlanStep(
        name="jit_compile",
        stage="compile",
        outcome="rejected",
        reason="slower: XLA has no fast convolution on this processor",
        guarantee="rounding",
        predicted=1.1,
        measured=Ratio(ratio=0.71, low=0.69, high=0.73),
        at="train.py:38",
    ),
    PlanStep(
        name="mixed_bfloat16",
        stage="precision",
        outcome="rejected",
        reason="faster, but the loss left the band of 5 baseline seeds at step 140",
        guarantee="precision",
        predicted=1.3,
        measured=Ratio(ratio=1.21, low=1.17, high=1.25),
        proof=Proof(kind="precision", passed=False, detail="loss 0.412 against 0.371 to 0.389"),
        at="train.py:38",
    ),
    PlanStep(
        name="larger_batch",
        stage="batch",
        outcome="skipped",
        reason="changes the training: needs --allow training",
        guarantee="training",
    ),
    PlanStep(
        name="all_devices",
        stage="scale",
        outcome="skipped",
        reason="one device on this machine",
    ),
)


def plan(**changes: Any) -> Plan:
    after = healthy_diagnosis(
        measurement=measurement(2298.0),
        headroom=1.08,
        notes=(),
        breakdown={"input": 0.036, "host": 0.011, "step": 0.931, "unknown": 0.022},
    )
    base = Plan(
        script="train.py",
        script_digest="77aa",
        machine=MACHINE,
        policy=Policy(),
        before=workload_diagnosis(),
        after=after,
        baseline=measurement(606.0),
        tuned=measurement(2298.0),
        speedup=Speedup(ratio=3.79, low=3.68, high=3.91, verdict="faster", n_processes=6),
        time_to_finish=TimeToFinish(baseline_s=168.0, tuned_s=59.4, is_extrapolated=True),
        tuning_cost_s=214.0,
        steps=STEPS,
    )
    return replace(base, **changes)


def empty_plan(**changes: Any) -> Plan:
    healthy = healthy_diagnosis()
    fields: dict[str, Any] = {
        "before": healthy,
        "after": None,
        "baseline": healthy.measurement,
        "tuned": healthy.measurement,
        "speedup": Speedup(ratio=1.0, low=0.98, high=1.02, verdict="not_proven", n_processes=0),
        "time_to_finish": None,
        "steps": tuple(step for step in STEPS if step.outcome == "skipped"),
    }
    return plan(**{**fields, **changes})


def stage(index: int, kind: str, cost_s: float = 0.0, **changes: Any) -> Stage:
    """A stage that costs so many seconds, CPU and elapsed, in each step of one element."""
    fields: dict[str, Any] = {
        "at": f"train.py:{20 + index}",
        "cpu_s_per_element": cost_s,
        "wall_s_per_element": cost_s,
        "bytes_per_element": 1000,
        "elements_per_step": 1.0,
        **changes,
    }
    return Stage(index=index, kind=kind, **fields)


def observed(
    *stages: Stage,
    step_s: float = 0.1,
    shares: dict[str, float] | None = None,
    workload: dict[str, Any] | None = None,
    **changes: Any,
) -> WorkloadDiagnosis:
    """What a training would look like whose steps of 32 samples take so long.

    Args:
        stages: Its input pipeline, source first.
        step_s: Seconds of a step as it is.
        shares: Of the step; input, host and step are 0 unless given.
        workload: Changes of the workload.
        changes: Of the diagnosis.
    """
    breakdown = {"input": 0.0, "host": 0.0, "step": 0.0, "unknown": 0.0, **(shares or {})}
    consumer_s = step_s * (1 - breakdown["input"])
    fields: dict[str, Any] = {
        "workload": replace(WORKLOAD, **(workload or {})),
        "measurement": replace(measurement(32 / step_s), cpu_s_per_step=step_s),
        "ceilings": {"consumer": 32 / consumer_s},
        "headroom": step_s / consumer_s,
        "breakdown": breakdown,
        "stages": stages,
        "findings": (),
        "notes": (),
        "memory_available_bytes": 8_000_000_000,
        "has_native_bfloat16": False,
        **changes,
    }
    return workload_diagnosis(**fields)
