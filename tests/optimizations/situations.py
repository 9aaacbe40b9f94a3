"""Diagnoses of many kinds of training: every optimization must answer each of them."""

from __future__ import annotations

from records import WORKLOAD, measurement, observed, stage, workload_diagnosis
from uncork.core.base.machine import DEFAULT_ALLOCATOR, Machine
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.evidence.batches import (
    BatchSizeTrial,
    MemoryOverflow,
    PaddedShapes,
    VaryingAxis,
    VaryingShapes,
)
from uncork.core.evidence.callbacks import CheckpointCost, Validation, ValidationFeed
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import (
    AUTOTUNE,
    INFINITE_LENGTH,
    CachePoint,
    ChunkedCost,
    InlinedCost,
    MapPrefix,
    Memoization,
    RandomPart,
    ShuffleBuffer,
    StepOffload,
    UnchangedArrays,
    VectorizedCost,
)
from uncork.core.evidence.storage import CacheFolder, ElementIoCost
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

FOUR_CORES = Machine(
    cpus=4.0, cpu_model="any", memory_bytes=8 << 30, jax="0.9.0", allocator=DEFAULT_ALLOCATOR
)

POINT = CachePoint(element_count=9_984, memory_bytes=1_000_000_000, saved_cpu_s_per_step=0.08)
# So many steps: an epoch of 10 s.
MANY = CachePoint(element_count=100, memory_bytes=1_000_000_000, saved_cpu_s_per_step=0.08)
FAST = ElementIoCost(
    wall_s_per_element=3e-5, wall_s_per_byte=1e-9, cpu_s_per_element=2e-5, cpu_s_per_byte=5e-10
)
DISK = CacheFolder(path="/scratch", free_bytes=50 * 10**9, read_cost=FAST, write_cost=FAST)
PREFIX = MapPrefix(op_count=9, bytes_per_element=602_112, cpu_s_per_element=0.08)
FILLED = ShuffleBuffer(
    element_count=1000, elements_per_pass=1000, movable_maps=(1,), bytes_per_element=50
)
HERE = InlinedCost(cpu_s_per_element=0.001, wall_s_per_element=0.001)
RETRACED = Finding(
    cause="retracing",
    share=0.7,
    upper_bound=3.0,
    at="train.py:50",
    evidence="70 ms of a 100 ms step pass while TensorFlow traces",
    remedy="declare shapes open",
)
RECOMPILED = Finding(
    cause="recompiling",
    share=0.6,
    upper_bound=2.5,
    at="train.py:33",
    evidence="10 batches have 9 different shapes",
    remedy="pad batches to a few lengths",
)
ROUNDS = KernelGroup(
    phase="forward",
    share=0.2,
    calls_per_step=1920.0,
    main_kernel="TensorListSetItem",
    layer="Pooling",
    at="train.py:31",
    loop_iterations=32,
    is_map_fn_loop=True,
)
PASSED_OVER = KernelGroup(
    phase="optimizer",
    share=0.5,
    calls_per_step=7.0,
    main_kernel="Sqrt",
    layer="Embedding",
    at="train.py:33",
    table_rows=20_000,
    max_used_rows=1_000,
)
CUT_UP = KernelGroup(
    phase="forward",
    share=0.4,
    calls_per_step=1.0,
    main_kernel="StringSplitV2",
    layer="TextVectorization",
    at="train.py:33",
    batch_only_share=0.4,
)
SENT = Transfer(
    device="GPU:0",
    batch_bytes=40_000_000,
    min_bytes=10_000_000,
    wall_s=0.06,
    cpu_s=0.0,
    free_device_bytes=10_000_000_000,
)
CAST = StepOffload(digest="ca57", saved_transfer_share=0.75)
GATHERED = StepOffload(digest="9a7e", saved_transfer_share=0.999, resident_bytes=2_000_000_000)
AT_ONCE = VectorizedCost(batch_size=32, cpu_s_per_element=0.001, wall_s_per_element=0.001)

# Decode, then flip at random, in one serial map: the training waits for it nine tenths of the time.
AUGMENTING = (
    stage(0, "from_tensor_slices"),
    stage(1, "shuffle"),
    stage(
        2,
        "map",
        0.09,
        name="load",
        parallelism=1,
        is_random=True,
        deterministic_prefix=PREFIX,
        cache_point=POINT,
    ),
    stage(3, "batch", length=WORKLOAD.steps_per_epoch),
)
# A step of a validation takes 0.32 s, mostly for its input.
FED = ValidationFeed(
    pipeline_digest="4f2a",
    batch_count=10,
    has_default_rewrites=True,
    measurement=replace(measurement(100.0), cpu_s_per_step=0.32),
    resident_speedup=16.0,
    resident_step_cpu_s=0.02,
    stages=(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.3, name="decode", parallelism=1, cache_point=POINT),
        stage(2, "batch"),
    ),
)
# After each epoch of 10 s.
SAVED = CheckpointCost(
    name="ModelCheckpoint",
    save_s=4.0,
    save_cpu_s=3.0,
    copy_s=0.5,
    copy_bytes=1_500_000_000,
    every_steps=100,
    trial_steps=60,
    at="train.py:30",
)
WAITING = {"input": 0.9, "host": 0.02, "step": 0.08}
CHATTY = {"input": 0.1, "host": 0.6, "step": 0.3}
COMPUTING = {"input": 0.02, "host": 0.03, "step": 0.95}

TABLE = UnchangedArrays(argument_names=("table",), copy_s=0.05, compare_s=0.01)

SITUATIONS: dict[str, WorkloadDiagnosis] = {
    "waiting for input": observed(*AUGMENTING, shares=WAITING),
    "python between steps": observed(*AUGMENTING, shares=CHATTY, step_s=0.002),
    "computing": observed(*AUGMENTING, shares=COMPUTING, has_native_bfloat16=True),
    "giving memory back": observed(
        *AUGMENTING,
        shares=COMPUTING,
        measurement=replace(measurement(320.0), cpu_s_per_step=0.2, page_fault_s_per_step=0.08),
    ),
    "float16 alone": observed(
        *AUGMENTING, shares=COMPUTING, has_native_bfloat16=False, has_fast_float16=True
    ),
    "realistic": workload_diagnosis(memory_available_bytes=64 << 30),
    "words cut up in the model": observed(
        *AUGMENTING,
        shares=COMPUTING,
        consumer_cpu_s=0.08,
        workload={"preprocessing_layers": ("vectorize",), "is_preprocessing_random": True},
        kernels=(CUT_UP,),
    ),
    "floats sent to a device": observed(
        stage(0, "from_tensor_slices", step_offload=GATHERED),
        stage(1, "batch", bytes_per_element=10_000_000),
        stage(2, "map", 0.001, name="cast", bytes_per_element=40_000_000, step_offload=CAST),
        shares=COMPUTING,
        transfer=SENT,
    ),
    "floats sent by a loop": observed(
        stage(0, "batch", bytes_per_element=10_000_000),
        stage(1, "map", 0.001, name="cast", bytes_per_element=40_000_000, step_offload=CAST),
        shares=COMPUTING,
        transfer=SENT,
        workload={"kind": "custom_loop", "step_code_digest": "c0de"},
    ),
    "called for each batch": observed(
        shares=CHATTY,
        workload={"is_fit_in_loop": True, "data_kind": "numpy", "pipeline_digest": ""},
    ),
    "masks for nothing": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.08, name="load", parallelism=AUTOTUNE, needed_cpu_s_per_element=0.02),
        stage(2, "map", name="pick", parallelism=AUTOTUNE, unused_output_maps=(1,)),
        stage(3, "batch"),
        shares=WAITING,
    ),
    "cropped from what was decoded": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.08, name="patch", parallelism=AUTOTUNE, cropped_cpu_s_per_element=0.03),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "lines one by one": observed(
        stage(0, "text_line"),
        stage(1, "map", 0.08, name="parse", parallelism=AUTOTUNE, vectorized_cost=AT_ONCE),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "brightened in turn": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.08, name="brighten", parallelism=1, is_random=True, inlined_cost=HERE),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "flipped in turn": observed(
        stage(0, "cache"),
        stage(
            1,
            "map",
            0.09,
            name="flip",
            parallelism=1,
            is_random=True,
            random_part=RandomPart(deterministic_op_count=3, cpu_s_per_element=0.0001),
        ),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "files in turn": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "interleave", 0.09, parallelism=1, max_readers=8),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "one file after the other": observed(
        stage(0, "from_tensor_slices"),
        stage(
            1, "tfrecord", 0.09, max_readers=8, max_input_elements=2_000, bytes_per_element=4_000
        ),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "decoded, then shuffled": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.16, name="decode", parallelism=AUTOTUNE),
        stage(2, "shuffle", shuffle_buffer=FILLED),
        stage(3, "batch"),
        shares={"input": 0.4, "host": 0.0, "step": 0.6},
    ),
    "decoded, then dropped": observed(
        stage(0, "from_tensor_slices", elements_per_step=10.0),
        stage(1, "map", 0.016, name="decode", parallelism=AUTOTUNE, elements_per_step=10.0),
        stage(2, "filter", bypassable_maps=(1,), elements_per_step=2.0),
        stage(3, "batch"),
        shares=WAITING,
    ),
    "prepared in vain": observed(
        stage(0, "map", 0.05, name="augment", length=INFINITE_LENGTH),
        stage(1, "prefetch", prefetched_elements=400, length=INFINITE_LENGTH),
        shares={"input": 0.6, "step": 0.4},
        workload={"kind": "custom_loop", "model": None, "steps_per_epoch": 50},
        measurement=replace(measurement(320.0), cpu_s_per_step=0.38),
        consumer_cpu_s=0.06,
    ),
    "python that answers the same": observed(
        stage(0, "from_tensor_slices"),
        stage(
            1,
            "map",
            0.09,
            name="load",
            parallelism=AUTOTUNE,
            has_python_code=True,
            threaded_wall_s_per_element=0.08,
            memoization=Memoization(
                total_bytes=1_000_000, hit_wall_s_per_element=0.001, code_digest="c0de"
            ),
        ),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "a generator that yields the same": observed(
        stage(
            0,
            "from_generator",
            0.09,
            name="pictures",
            has_python_code=True,
            memoization=Memoization(
                total_bytes=1_000_000, hit_wall_s_per_element=0.001, code_digest="c0de"
            ),
        ),
        stage(1, "batch"),
        shares=WAITING,
    ),
    "a brief generator": observed(
        stage(
            0,
            "from_generator",
            0.09,
            name="rows",
            has_python_code=True,
            chunked_cost=ChunkedCost(
                max_elements=64, cpu_s_per_element=0.009, wall_s_per_element=0.009
            ),
        ),
        stage(1, "batch"),
        shares=WAITING,
    ),
    "validating for long": observed(
        stage(0, "range"),
        workload={"steps_per_epoch": 100, "epochs": 5},
        validation=Validation(
            validation_s=20.0,
            sample_count=2_000,
            validation_count=5,
            feed=FED,
        ),
    ),
    "saving for long": observed(stage(0, "range"), checkpoint_cost=SAVED),
    "traced anew": replace(
        observed(
            shares=COMPUTING,
            workload={"kind": "custom_loop", "model": None, "step_code_digest": "c0de"},
        ),
        findings=(RETRACED,),
    ),
    "traced for numbers": replace(
        observed(
            shares=COMPUTING,
            workload={
                "kind": "custom_loop",
                "model": None,
                "step_code_digest": "c0de",
                "number_arguments": ("beta",),
            },
        ),
        findings=(RETRACED,),
    ),
    "a table handed over at each call": observed(
        stage(0, "loop", 0.001),
        stage(1, "convert", 0.05, bytes_per_element=80_000_000, unchanged_arrays=TABLE),
        shares={"input": 0.6, "step": 0.4},
        workload={"kind": "custom_loop", "model": None, "step_code_digest": "c0de"},
    ),
    "a map over examples in the step": observed(
        shares=COMPUTING,
        kernels=(
            replace(ROUNDS, phase="backward", share=0.4, at="train.py:29"),
            replace(ROUNDS, phase="forward", share=0.2),
        ),
    ),
    "no stages": observed(shares=WAITING),
    "custom loop": observed(
        *AUGMENTING, shares=WAITING, workload={"kind": "custom_loop", "model": None}
    ),
    "many small weights": observed(
        *AUGMENTING,
        shares=COMPUTING,
        workload={"small_weight_count": 42, "fusable_weight_count": 44},
    ),
    "tables of embeddings": observed(
        *AUGMENTING,
        shares=COMPUTING,
        workload={"row_update_table_count": 2},
        kernels=(PASSED_OVER,),
    ),
    "arrays": observed(shares=CHATTY, workload={"data_kind": "numpy", "pipeline_digest": ""}),
    "arrays that are waited for": observed(
        shares=WAITING, workload={"data_kind": "numpy", "pipeline_digest": ""}
    ),
    "pydataset": observed(
        stage(0, "pydataset", 0.09, parallelism=1, has_python_code=True, is_random=True),
        shares=WAITING,
        workload={"data_kind": "pydataset", "pipeline_digest": ""},
    ),
    "pure pydataset": observed(
        stage(
            0,
            "pydataset",
            0.09,
            parallelism=1,
            has_python_code=True,
            threaded_wall_s_per_element=0.03,
            memoization=Memoization(total_bytes=1_000_000, hit_wall_s_per_element=0.001),
        ),
        shares=WAITING,
        workload={"data_kind": "pydataset", "pipeline_digest": "", "loader_digest": "c0de"},
    ),
    "pydataset under the interpreter's lock": observed(
        stage(
            0,
            "pydataset",
            0.09,
            parallelism=1,
            has_python_code=True,
            threaded_wall_s_per_element=0.09,
            multiprocess_wall_s_per_element=0.03,
        ),
        shares=WAITING,
        memory_available_bytes=8_000_000_000,
        workload={"data_kind": "pydataset", "pipeline_digest": "", "loader_digest": "c0de"},
    ),
    "generator": observed(
        shares=WAITING, workload={"data_kind": "generator", "pipeline_digest": ""}
    ),
    "eager": observed(*AUGMENTING, shares=CHATTY, workload={"is_eager_step": True}),
    "distributed": observed(*AUGMENTING, shares=CHATTY, workload={"is_distributed": True}),
    "all done already": observed(
        stage(0, "map", 0.09, parallelism=AUTOTUNE),
        stage(1, "cache"),
        stage(2, "prefetch"),
        shares=COMPUTING,
        has_native_bfloat16=True,
        workload={
            "jit_compile": True,
            "steps_per_execution": 8,
            "model": replace(WORKLOAD.model, dtype_policies=("mixed_bfloat16",)),
        },
    ),
    "lengths compiled anew": observed(
        *AUGMENTING,
        shares=WAITING,
        findings=(RECOMPILED,),
        varying_shapes=VaryingShapes(
            batch_count=100,
            shape_count=90,
            seen_once=80,
            seen_twice=10,
            compile_s_per_shape=0.8,
            axes=(VaryingAxis(tensor_index=0, axis=1, max_length=64),),
            padded_shapes=(
                PaddedShapes(multiple=32, shape_count=4, seen_once=0, seen_twice=0, size_ratio=1.1),
            ),
        ),
        workload={"jit_compile": True},
    ),
    "compiled anew": observed(
        shares=WAITING,
        findings=(RECOMPILED,),
        varying_shapes=VaryingShapes(
            batch_count=10, shape_count=9, seen_once=8, seen_twice=1, compile_s_per_shape=0.8
        ),
        workload={"jit_compile": True},
    ),
    "a policy brought along": observed(
        shares=COMPUTING,
        float32_speedup=compare([100.0, 101.0, 99.0], [200.0, 203.0, 197.0]),
        workload={"model": replace(WORKLOAD.model, dtype_policies=("mixed_bfloat16",))},
    ),
    "unknown length": observed(*AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": None}),
    "unknown batch": observed(*AUGMENTING, shares=WAITING, workload={"batch_size": None}),
    "times unknown": observed(
        stage(0, "map", parallelism=1, cpu_s_per_element=None, wall_s_per_element=None),
        stage(
            1,
            "map",
            parallelism=1,
            elements_per_step=None,
            deterministic_prefix=PREFIX,
            cache_point=POINT,
        ),
        shares=WAITING,
    ),
    "zero times": observed(
        *(replace(s, cpu_s_per_element=0.0, wall_s_per_element=0.0) for s in AUGMENTING),
        breakdown={},
        ceilings={},
    ),
    "one epoch": observed(*AUGMENTING, shares=WAITING, workload={"epochs": 1}),
    "no memory": observed(*AUGMENTING, shares=WAITING, memory_available_bytes=0),
    "huge elements": observed(
        replace(AUGMENTING[2], cache_point=replace(POINT, memory_bytes=10**15)), shares=WAITING
    ),
    "more than memory holds, and a folder": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.36, name="decode", parallelism=AUTOTUNE, cache_point=MANY),
        stage(2, "batch"),
        shares=WAITING,
        memory_available_bytes=10**9,
        cache_folder=DISK,
    ),
    "opaque": observed(stage(0, "opaque", 0.09, is_opaque=True), shares=WAITING),
    "callbacks on every batch": observed(
        *AUGMENTING, shares=CHATTY, workload={"batch_callbacks": ("TerminateOnNaN",)}
    ),
    "one step an epoch": observed(*AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": 1}),
    "a prime number of steps given": observed(
        *AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": 127, "has_explicit_steps": True}
    ),
    "larger batches tried": observed(
        *AUGMENTING,
        shares=CHATTY,
        batch_size_trials=tuple(
            BatchSizeTrial(
                batch_multiplier=times,
                learning_rate_multiplier=times**0.5,
                speedup=compare([1.0, 1.0], [ratio, ratio]),
                samples_per_training=8192,
                baseline_loss=1.5,
                loss_increase=higher,
                loss_increase_error=0.02,
                loss_noise=0.01,
            )
            for times, ratio, higher in ((2, 1.8, 0.0), (4, 3.0, 0.05))
        ),
    ),
    "more than memory holds in a step": observed(
        *AUGMENTING,
        shares=COMPUTING,
        memory_overflow=MemoryOverflow(
            error_message="OOM",
            fitting_rows=15,
            parts=4,
            peak_bytes=10**9,
            fitting_rows_peak_bytes=3 * 10**8,
        ),
    ),
    "more than memory holds, and a layer looks across the batch": observed(
        *AUGMENTING,
        shares=COMPUTING,
        memory_overflow=MemoryOverflow(
            error_message="OOM",
            fitting_rows=15,
            segments=4,
            peak_bytes=10**9,
            fitting_rows_peak_bytes=3 * 10**8,
        ),
    ),
    "hour-long steps": observed(*AUGMENTING, shares=CHATTY, step_s=3600.0),
    "instant steps": observed(*AUGMENTING, shares=CHATTY, step_s=1e-9),
}


def ask(
    optimization: Optimization,
    diagnosis: WorkloadDiagnosis,
    machine: Machine = FOUR_CORES,
    policy: Policy | None = None,
) -> Proposal | Skipped:
    return optimization.propose(
        Context(diagnosis=diagnosis, machine=machine, policy=policy or Policy())
    )


def proposal(optimization: Optimization, diagnosis: WorkloadDiagnosis, **kwargs) -> Proposal:
    answer = ask(optimization, diagnosis, **kwargs)
    assert isinstance(answer, Proposal), answer
    return answer


def reason(optimization: Optimization, diagnosis: WorkloadDiagnosis, **kwargs) -> str:
    answer = ask(optimization, diagnosis, **kwargs)
    assert isinstance(answer, Skipped), answer
    return answer.reason
