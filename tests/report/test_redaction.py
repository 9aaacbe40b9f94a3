from __future__ import annotations

import re

import pytest

from records import STEPS, diagnosis, plan, stage, workload_diagnosis
from uncork.core.base.errors import PlanRefused, describe_error, quote
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace, to_json
from uncork.core.documents.plan import Policy
from uncork.core.documents.plan_file import parse_plan, seal_plan, serialize_plan
from uncork.core.edits.pipeline import DiskCache
from uncork.core.edits.step import ArrayArguments, DtypePolicy, LayersInInput
from uncork.core.evidence.callbacks import CallbackCost, Validation
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.loop import HostSync, StateGrowth
from uncork.core.evidence.model import SlowLayer, Transfer
from uncork.core.evidence.stage import ArrayCopy
from uncork.core.evidence.storage import CacheFolder
from uncork.report.content.diagnosis_content import next_command
from uncork.report.redaction import Redactor, redact

SECRETS = ("acme", "patient", "tumour", "Onco", "scans", "Margin")
NAME = "/home/acme/tumour/train.py"
FOLDER = "/mnt/our tumour scans"
COPIED = ArrayCopy(at="/home/acme/scans.py:40", share=0.5, copied_bytes=9, batch_bytes=1)
CARD = "/job:acme/replica:0/task:0/device:GPU:0"
SENT = Transfer(device="GPU:0", batch_bytes=9, min_bytes=9, wall_s=0.1, cpu_s=0.1, placement=CARD)

OWN_KERNELS = KernelGroup(
    phase="forward",
    share=0.5,
    calls_per_step=3.0,
    main_kernel="MatMul",
    layer="TumourNet",
    at=f"{NAME}:9",
)
OWN_LAYER = SlowLayer(
    layer="OncoGRU",
    argument="recurrent_dropout",
    at=f"{NAME}:8",
    speedup_without_argument=compare([100.0] * 6, [200.0] * 6),
)


def secretive():
    """A plan in which every word of the user's own is telling."""
    stages = (
        stage(0, "tfrecord", at=f"{NAME}:8"),
        stage(1, "map", 0.01, at="/home/acme/patient_lib.py:40", name="decode_scans"),
        stage(2, "pydataset", at=f"{NAME}:9", array_copy=COPIED),
    )
    base = workload_diagnosis()
    model = replace(base.workload.model, name="OncoNet", loss="MarginLoss", optimizer="AcmeAdam")
    workload = replace(
        base.workload,
        at=f"{NAME}:58",
        step_setup_at="/home/acme/tumour/model.py:7",
        dtype_policy_at="/home/acme/tumour/precision.py:3",
        model=replace(model, optimizer="acme>Adam"),
        element_spec="{'patient_age': float32[batch]}",
        batch_callbacks=("TumourBoard",),
        tf_function_refusal="it changes 'patient_count' in each step",
        number_arguments=("tumour_rate",),
        preprocessing_layers=("acme_augment",),
        random_layers=("patient_dropout",),
        precision_sensitive_layers=("tumour_logits",),
    )
    before = replace(
        base,
        workload=workload,
        transfer=SENT,
        cache_folder=CacheFolder(
            path=FOLDER, refusal_reason=f"Uncork cannot cache files in {FOLDER}: Permission denied"
        ),
        kernels=(OWN_KERNELS,),
        slow_layers=(OWN_LAYER,),
        callbacks=(CallbackCost(name="TumourBoard", batch_s=0.1, at=f"{NAME}:30"),),
        state_growth=StateGrowth(
            name="tumour_bank",
            bytes_per_step=9.0,
            first_step_s=0.1,
            added_s_per_step=0.1,
            at=f"{NAME}:9",
        ),
        host_sync=HostSync(share=0.5, at=f"{NAME}:31"),
        validation=Validation(validation_s=1.0, sample_count=9, at="/home/acme/scans.py:4"),
        stages=stages,
        findings=tuple(
            replace(
                f,
                at=f"{NAME}:58",
                evidence="map(decode_scans) runs alone, 12.5 ms of 30 ms; see patient_lib.py:40; "
                "TumourBoard takes 100 ms a batch; tumour_bank grows by 9 MB a step",
                remedy="read '/mnt/acme/scans 2024' once; or ~/acme/cache",
            )
            for f in base.findings
        ),
        notes=("reads /mnt/acme/patients/*.tfrecord", 'feature "patient_age" is unused'),
    )
    steps = tuple(
        replace(s, at=f"{NAME}:58", reason=f"decode_scans of {NAME}", source_edit="decode_scans(x)")
        for s in STEPS
    )
    kept = DiskCache(stage=1, expected_digest="51ab", folder=FOLDER)
    named = (
        ArrayArguments(code_digest="c0de", argument_names=("patient_table",)),
        DtypePolicy(policy="mixed_bfloat16", float32_layers=("tumour_head",)),
        LayersInInput(layer_names=("acme_scale",)),
    )
    steps = (
        replace(steps[0], edits=(kept, *named), reason=f"no room in {FOLDER} for patient_table"),
        *steps[1:],
    )
    notes = (f"{NAME} was changed",)
    policy = Policy(disk_cache_folder=FOLDER)
    typed = {"module": "acme.train", "arguments": ("--scans", FOLDER), "working_folder": "/acme"}
    return plan(
        **{"script": NAME, "before": before, "after": None, "steps": steps, "notes": notes},
        policy=policy,
        **typed,
    )


def test_nothing_of_the_user_s_is_left():
    text = to_json(redact(secretive())).decode()
    assert not [s for s in SECRETS if re.search(s, text, re.IGNORECASE)]


def test_all_figures_are_left():
    made = secretive()
    hidden = redact(made)
    assert hidden.speedup == made.speedup
    assert hidden.before.measurement == made.before.measurement
    assert hidden.before.breakdown == made.before.breakdown
    assert [s.measured for s in hidden.steps] == [s.measured for s in made.steps]
    assert [s.name for s in hidden.steps] == [s.name for s in made.steps]
    assert "12.5 ms of 30 ms" in hidden.before.findings[0].evidence


def test_places_can_be_told_apart():
    hidden = redact(secretive())
    assert hidden.script == "file1"
    assert hidden.before.workload.at == "file1:58"
    lib = hidden.before.stages[1].at
    assert [s.at for s in hidden.before.stages] == ["file1:8", lib, "file1:9"]
    assert lib.endswith(":40")
    assert not lib.startswith("file1:")
    assert hidden.before.stages[1].name == "function1"


def test_a_concealed_plan_cannot_be_run():
    with pytest.raises(PlanRefused):
        parse_plan(to_json(redact(seal_plan(plan()))))
    assert parse_plan(serialize_plan(plan())) == seal_plan(plan())


def test_a_diagnosis_as_well():
    typed = {"module": "acme.train", "arguments": ("acme",), "working_folder": "/acme"}
    found = diagnosis(**typed)
    hidden = redact(found)
    text = to_json(hidden).decode()
    assert "train.py" not in text
    assert "acme" not in text
    assert next_command(hidden) == "uncork tune -m hidden hidden"
    assert next_command(redact(diagnosis())) == "uncork tune file1"
    assert hidden.workloads[0].ceilings == found.workloads[0].ceilings


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no secret here: 3.5 ms of 12.0 ms, 1.25x", "no secret here: 3.5 ms of 12.0 ms, 1.25x"),
        ("see ../data/x.csv", "see hidden"),
        ("see data/patients/a.csv", "see hidden"),
        (r"see C:\Users\acme\tumour.csv, it says", "see hidden, it says"),
        ("612 samples/s, 3 ms/step", "612 samples/s, 3 ms/step"),
        ("a tf.function, keras.layers.RNN", "a tf.function, keras.layers.RNN"),
        ("num_parallel_calls=tf.data.AUTOTUNE)", "num_parallel_calls=tf.data.AUTOTUNE)"),
        ("reads secret-data.csv.gz and dataset.csv", "reads hidden and hidden"),
        ("reads data/step/secret.csv", "reads hidden"),
        ("'uncork tune' reads b'patient name'", "'uncork tune' reads bhidden"),
        ("the user's map reads 'patient'", "the user's map reads hidden"),
        (f"saved: {quote('run 1/my patients.log')}", "saved: hidden"),
        (f"failed: {describe_error(ValueError('TumourNet.call()'))}", "failed: ValueError: hidden"),
        ("C'est la vie", "C'est la vie"),
        ("load", "function1"),
        ("unload loads reload", "unload loads reload"),
        ("", ""),
    ],
)
def test_sentences(text, left):
    assert Redactor(["train.py"], ["load"]).redact_text(text) == left
