"""Diagnoses of many kinds of training: every optimization must answer each of them."""

from __future__ import annotations

from records import WORKLOAD, measurement, observed, stage, workload_diagnosis
from uncork.core.base.machine import PLAIN_ALLOCATOR, Machine
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.evidence.batches import BatchSize, NewShapes, OpenAxis, PaddedShapes, TooLarge
from uncork.core.evidence.callbacks import Saving, Validation, ValidationFeed
from uncork.core.evidence.kernels import KernelPart
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import (
    AUTOTUNE,
    ENDLESS,
    Buffer,
    CachePoint,
    Chunked,
    Draws,
    Inlined,
    InStep,
    Keepable,
    Prefix,
    SameArrays,
    Vectorized,
)
from uncork.core.evidence.storage import Disk, Speed
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped

FOUR_CORES = Machine(
    cpus=4.0, cpu_model="any", memory_bytes=8 << 30, jax="0.9.0", allocator=PLAIN_ALLOCATOR
)

POINT = CachePoint(elements=9_984, memory_bytes=1_000_000_000, saved_cpu_s_per_step=0.08)
# So many steps: an epoch of 10 s.
MANY = CachePoint(elements=100, memory_bytes=1_000_000_000, saved_cpu_s_per_step=0.08)
FAST = Speed(
    wall_s_per_element=3e-5, wall_s_per_byte=1e-9, cpu_s_per_element=2e-5, cpu_s_per_byte=5e-10
)
DISK = Disk(folder="/scratch", free_bytes=50 * 10**9, read=FAST, write=FAST)
PREFIX = Prefix(ops=9, bytes_per_element=602_112, cpu_s_per_element=0.08)
FILLED = Buffer(elements=1000, of=1000, maps=(1,), bytes_per_element=50)
HERE = Inlined(cpu_s_per_element=0.001, wall_s_per_element=0.001)
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
ROUNDS = KernelPart(
    phase="forward",
    share=0.2,
    calls=1920.0,
    kernel="TensorListSetItem",
    layer="Pooling",
    at="train.py:31",
    rounds=32,
    of_map=True,
)
PASSED_OVER = KernelPart(
    phase="optimizer",
    share=0.5,
    calls=7.0,
    kernel="Sqrt",
    layer="Embedding",
    at="train.py:33",
    rows=20_000,
    rows_used=1_000,
)
CUT_UP = KernelPart(
    phase="forward",
    share=0.4,
    calls=1.0,
    kernel="StringSplitV2",
    layer="TextVectorization",
    at="train.py:33",
    of_batch=0.4,
)
SENT = Transfer(
    device="GPU:0",
    bytes=40_000_000,
    needed_bytes=10_000_000,
    wall_s=0.06,
    cpu_s=0.0,
    room_bytes=10_000_000_000,
)
CAST = InStep(digest="ca57", spared=0.75)
GATHERED = InStep(digest="9a7e", spared=0.999, held_bytes=2_000_000_000)
AT_ONCE = Vectorized(batch=32, cpu_s_per_element=0.001, wall_s_per_element=0.001)

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
        random=True,
        prefix=PREFIX,
        cache_point=POINT,
    ),
    stage(3, "batch", length=WORKLOAD.steps_per_epoch),
)
# A step of a validation takes 0.32 s, mostly for its input.
FED = ValidationFeed(
    pipeline="4f2a",
    batches=10,
    default_rewrites=True,
    measurement=replace(measurement(100.0), cpu_s_per_step=0.32),
    resident=16.0,
    resident_cpu_s=0.02,
    stages=(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.3, name="decode", parallelism=1, cache_point=POINT),
        stage(2, "batch"),
    ),
)
# After each epoch of 10 s.
SAVED = Saving(
    name="ModelCheckpoint",
    seconds=4.0,
    cpu_s=3.0,
    copying_s=0.5,
    bytes=1_500_000_000,
    every=100,
    beside=60,
    at="train.py:30",
)
WAITING = {"input": 0.9, "host": 0.02, "step": 0.08}
CHATTY = {"input": 0.1, "host": 0.6, "step": 0.3}
COMPUTING = {"input": 0.02, "host": 0.03, "step": 0.95}

TABLE = SameArrays(names=("table",), copy_s=0.05, compare_s=0.01)

SITUATIONS: dict[str, WorkloadDiagnosis] = {
    "waiting for input": observed(*AUGMENTING, shares=WAITING),
    "python between steps": observed(*AUGMENTING, shares=CHATTY, step_s=0.002),
    "computing": observed(*AUGMENTING, shares=COMPUTING, bfloat16=True),
    "giving memory back": observed(
        *AUGMENTING,
        shares=COMPUTING,
        measurement=replace(measurement(320.0), cpu_s_per_step=0.2, faulting_s_per_step=0.08),
    ),
    "float16 alone": observed(*AUGMENTING, shares=COMPUTING, bfloat16=False, float16=True),
    "realistic": workload_diagnosis(memory_available_bytes=64 << 30),
    "words cut up in the model": observed(
        *AUGMENTING,
        shares=COMPUTING,
        consumer_cpu_s=0.08,
        workload={"first_layers": ("vectorize",), "first_layers_draw": True},
        kernels=(CUT_UP,),
    ),
    "floats sent to a device": observed(
        stage(0, "from_tensor_slices", in_step=GATHERED),
        stage(1, "batch", bytes_per_element=10_000_000),
        stage(2, "map", 0.001, name="cast", bytes_per_element=40_000_000, in_step=CAST),
        shares=COMPUTING,
        transfer=SENT,
    ),
    "floats sent by a loop": observed(
        stage(0, "batch", bytes_per_element=10_000_000),
        stage(1, "map", 0.001, name="cast", bytes_per_element=40_000_000, in_step=CAST),
        shares=COMPUTING,
        transfer=SENT,
        workload={"kind": "custom_loop", "step_code": "c0de"},
    ),
    "called for each batch": observed(
        shares=CHATTY, workload={"called_in_loop": True, "data": "numpy", "pipeline": ""}
    ),
    "masks for nothing": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.08, name="load", parallelism=AUTOTUNE, needed_cpu_s_per_element=0.02),
        stage(2, "map", name="pick", parallelism=AUTOTUNE, ignores=(1,)),
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
        stage(1, "map", 0.08, name="parse", parallelism=AUTOTUNE, vectorized=AT_ONCE),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "brightened in turn": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.08, name="brighten", parallelism=1, random=True, inlined=HERE),
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
            random=True,
            draws=Draws(ops=3, cpu_s_per_element=0.0001),
        ),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "files in turn": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "interleave", 0.09, parallelism=1, readers=8),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "one file after the other": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "tfrecord", 0.09, readers=8, of_one=2_000, bytes_per_element=4_000),
        stage(2, "batch"),
        shares=WAITING,
    ),
    "decoded, then shuffled": observed(
        stage(0, "from_tensor_slices"),
        stage(1, "map", 0.16, name="decode", parallelism=AUTOTUNE),
        stage(2, "shuffle", buffer=FILLED),
        stage(3, "batch"),
        shares={"input": 0.4, "host": 0.0, "step": 0.6},
    ),
    "decoded, then dropped": observed(
        stage(0, "from_tensor_slices", elements_per_step=10.0),
        stage(1, "map", 0.016, name="decode", parallelism=AUTOTUNE, elements_per_step=10.0),
        stage(2, "filter", may_precede=(1,), elements_per_step=2.0),
        stage(3, "batch"),
        shares=WAITING,
    ),
    "prepared in vain": observed(
        stage(0, "map", 0.05, name="augment", length=ENDLESS),
        stage(1, "prefetch", ahead=400, length=ENDLESS),
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
            python=True,
            threads_wall_s_per_element=0.08,
            keepable=Keepable(bytes=1_000_000, wall_s_per_element=0.001, code="c0de"),
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
            python=True,
            keepable=Keepable(bytes=1_000_000, wall_s_per_element=0.001, code="c0de"),
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
            python=True,
            chunked=Chunked(elements=64, cpu_s_per_element=0.009, wall_s_per_element=0.009),
        ),
        stage(1, "batch"),
        shares=WAITING,
    ),
    "validating for long": observed(
        stage(0, "range"),
        workload={"steps_per_epoch": 100, "epochs": 5},
        validation=Validation(
            seconds=20.0,
            samples=2_000,
            times=5,
            feed=FED,
        ),
    ),
    "saving for long": observed(stage(0, "range"), saving=SAVED),
    "traced anew": replace(
        observed(
            shares=COMPUTING,
            workload={"kind": "custom_loop", "model": None, "step_code": "c0de"},
        ),
        findings=(RETRACED,),
    ),
    "traced for numbers": replace(
        observed(
            shares=COMPUTING,
            workload={
                "kind": "custom_loop",
                "model": None,
                "step_code": "c0de",
                "numbers": ("beta",),
            },
        ),
        findings=(RETRACED,),
    ),
    "a table handed over at each call": observed(
        stage(0, "loop", 0.001),
        stage(1, "convert", 0.05, bytes_per_element=80_000_000, same=TABLE),
        shares={"input": 0.6, "step": 0.4},
        workload={"kind": "custom_loop", "model": None, "step_code": "c0de"},
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
        *AUGMENTING, shares=COMPUTING, workload={"small_weights": 42, "fusable_weights": 44}
    ),
    "tables of embeddings": observed(
        *AUGMENTING, shares=COMPUTING, workload={"row_tables": 2}, kernels=(PASSED_OVER,)
    ),
    "arrays": observed(shares=CHATTY, workload={"data": "numpy", "pipeline": ""}),
    "arrays that are waited for": observed(
        shares=WAITING, workload={"data": "numpy", "pipeline": ""}
    ),
    "pydataset": observed(
        stage(0, "pydataset", 0.09, parallelism=1, python=True, random=True),
        shares=WAITING,
        workload={"data": "pydataset", "pipeline": ""},
    ),
    "pure pydataset": observed(
        stage(
            0,
            "pydataset",
            0.09,
            parallelism=1,
            python=True,
            threads_wall_s_per_element=0.03,
            keepable=Keepable(bytes=1_000_000, wall_s_per_element=0.001),
        ),
        shares=WAITING,
        workload={"data": "pydataset", "pipeline": "", "loader": "c0de"},
    ),
    "pydataset under the interpreter's lock": observed(
        stage(
            0,
            "pydataset",
            0.09,
            parallelism=1,
            python=True,
            threads_wall_s_per_element=0.09,
            processes_wall_s_per_element=0.03,
        ),
        shares=WAITING,
        memory_available_bytes=8_000_000_000,
        workload={"data": "pydataset", "pipeline": "", "loader": "c0de"},
    ),
    "generator": observed(shares=WAITING, workload={"data": "generator", "pipeline": ""}),
    "eager": observed(*AUGMENTING, shares=CHATTY, workload={"eager_step": True}),
    "distributed": observed(*AUGMENTING, shares=CHATTY, workload={"distributed": True}),
    "all done already": observed(
        stage(0, "map", 0.09, parallelism=AUTOTUNE),
        stage(1, "cache"),
        stage(2, "prefetch"),
        shares=COMPUTING,
        bfloat16=True,
        workload={
            "jit_compile": True,
            "steps_per_execution": 8,
            "model": replace(WORKLOAD.model, dtype_policy=("mixed_bfloat16",)),
        },
    ),
    "lengths compiled anew": observed(
        *AUGMENTING,
        shares=WAITING,
        findings=(RECOMPILED,),
        new_shapes=NewShapes(
            batches=100,
            shapes=90,
            once=80,
            twice=10,
            compile_s=0.8,
            axes=(OpenAxis(tensor=0, axis=1, longest=64),),
            padded=(PaddedShapes(multiple=32, shapes=4, once=0, twice=0, larger=1.1),),
        ),
        workload={"jit_compile": True},
    ),
    "compiled anew": observed(
        shares=WAITING,
        findings=(RECOMPILED,),
        new_shapes=NewShapes(batches=10, shapes=9, once=8, twice=1, compile_s=0.8),
        workload={"jit_compile": True},
    ),
    "a policy brought along": observed(
        shares=COMPUTING,
        in_float32=compare([100.0, 101.0, 99.0], [200.0, 203.0, 197.0]),
        workload={"model": replace(WORKLOAD.model, dtype_policy=("mixed_bfloat16",))},
    ),
    "unknown length": observed(*AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": None}),
    "unknown batch": observed(*AUGMENTING, shares=WAITING, workload={"batch_size": None}),
    "times unknown": observed(
        stage(0, "map", parallelism=1, cpu_s_per_element=None, wall_s_per_element=None),
        stage(1, "map", parallelism=1, elements_per_step=None, prefix=PREFIX, cache_point=POINT),
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
        disk=DISK,
    ),
    "opaque": observed(stage(0, "opaque", 0.09, opaque=True), shares=WAITING),
    "callbacks on every batch": observed(
        *AUGMENTING, shares=CHATTY, workload={"batch_hooks": ("TerminateOnNaN",)}
    ),
    "one step an epoch": observed(*AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": 1}),
    "a prime number of steps given": observed(
        *AUGMENTING, shares=CHATTY, workload={"steps_per_epoch": 127, "steps_given": True}
    ),
    "larger batches tried": observed(
        *AUGMENTING,
        shares=CHATTY,
        batch_sizes=tuple(
            BatchSize(
                times=times,
                rate=times**0.5,
                faster=compare([1.0, 1.0], [ratio, ratio]),
                samples=8192,
                loss=1.5,
                higher=higher,
                error=0.02,
                noise=0.01,
            )
            for times, ratio, higher in ((2, 1.8, 0.0), (4, 3.0, 0.05))
        ),
    ),
    "more than memory holds in a step": observed(
        *AUGMENTING,
        shares=COMPUTING,
        too_large=TooLarge(said="OOM", rows=15, parts=4, bytes=10**9, rows_bytes=3 * 10**8),
    ),
    "more than memory holds, and a layer looks across the batch": observed(
        *AUGMENTING,
        shares=COMPUTING,
        too_large=TooLarge(said="OOM", rows=15, segments=4, bytes=10**9, rows_bytes=3 * 10**8),
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
    return optimization.propose(diagnosis, machine, policy or Policy())


def proposal(optimization: Optimization, diagnosis: WorkloadDiagnosis, **kwargs) -> Proposal:
    answer = ask(optimization, diagnosis, **kwargs)
    assert isinstance(answer, Proposal), answer
    return answer


def reason(optimization: Optimization, diagnosis: WorkloadDiagnosis, **kwargs) -> str:
    answer = ask(optimization, diagnosis, **kwargs)
    assert isinstance(answer, Skipped), answer
    return answer.reason
