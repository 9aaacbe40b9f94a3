from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.record import replace
from uncork.rules.judge import judge
from uncork.rules.machine import environment

GPU = {"unused_gpus": ("NVIDIA H200",), "is_built_with_cuda": True}


def found(busy=2.0, step_s=0.1, **machine):
    diagnosis = observed(shares={"step": 1.0}, step_s=step_s)
    costs = replace(diagnosis.measurement, cpu_s_per_step=busy * diagnosis.step_s)
    return list(
        environment.find(replace(diagnosis, measurement=costs), replace(MACHINE, **machine))
    )


@pytest.mark.parametrize(
    ("machine", "cause", "words"),
    [
        (
            {**GPU, "environment_variables": ("CUDA_VISIBLE_DEVICES=-1",)},
            "no_accelerator",
            "'-1' hides it",
        ),
        (
            {**GPU, "environment_variables": ("CUDA_VISIBLE_DEVICES=",)},
            "no_accelerator",
            "'' hides it",
        ),
        ({**GPU, "is_built_with_cuda": False}, "no_accelerator", "supports CPUs only"),
        (GPU, "missing_gpu_library", "NVIDIA H200"),
        (
            {**GPU, "environment_variables": ("CUDA_VISIBLE_DEVICES=0",)},
            "missing_gpu_library",
            "its log says",
        ),
        ({"environment_variables": ("TF_ENABLE_ONEDNN_OPTS=0",)}, "missing_gpu_library", "oneDNN"),
        ({"environment_variables": ("ONEDNN_MAX_CPU_ISA=SSE41",)}, "no_accelerator", "SSE41"),
        ({"cpus": 1.0, "cpus_at_start": 2.0, "busy": 0.97}, "cpu_quota", "1 of the 2 cores"),
        ({"cpus": 4.0, "intra_op_threads": 1, "busy": 1.1}, "cpu_quota", "1 of 4 cores for an op"),
    ],
)
def test_what_is_hidden_is_named_and_no_more_is_promised_than_there_is(machine, cause, words):
    (finding,) = found(**machine)
    assert finding.cause == cause
    assert finding.severity == "environment"
    more = machine.get("cpus_at_start", machine.get("cpus", 1.0)) / machine.get(
        "intra_op_threads", 1
    )
    assert finding.upper_bound == (more if cause == "cpu_quota" else 1.0)
    assert words in finding.evidence
    assert finding.remedy


@pytest.mark.parametrize(
    "machine",
    [
        {},
        {"devices": ("GPU:0 NVIDIA H200",), "environment_variables": ("TF_ENABLE_ONEDNN_OPTS=0",)},
        {"environment_variables": ("TF_ENABLE_ONEDNN_OPTS=1",)},
        {"cpus": 2.0, "cpus_at_start": 2.0},
        {"intra_op_threads": 2},
        {"environment_variables": ("ONEDNN_MAX_CPU_ISA=DEFAULT",)},
        {"cpus": 4.0, "intra_op_threads": 1, "busy": 0.4},  # ops are not what it waits for
        {
            "cpus": 4.0,
            "intra_op_threads": 1,
            "busy": 1.1,
            "step_s": 0.004,
        },  # as the road chooses it
        {"cpus": 1.0, "cpus_at_start": 2.0, "busy": 0.3},  # it would not know what to do with more
    ],
)
def test_a_machine_that_shows_what_it_has_is_left_alone(machine):
    assert found(**machine) == []


def test_it_comes_before_what_costs_speed():
    slow = observed(shares={"host": 0.5, "step": 0.5})
    hidden = replace(MACHINE, environment_variables=("TF_ENABLE_ONEDNN_OPTS=0",))
    causes = [finding.cause for finding in judge(slow, hidden).findings]
    assert causes == ["missing_gpu_library", "small_steps"]
