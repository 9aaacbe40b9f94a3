from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import FullResolutionLayer
from uncork.rules.device import compute_bound
from uncork.rules.judge import judge

FIRST = FullResolutionLayer(
    layer="Conv2D",
    at="train.py:7",
    position_counts=(72, 72),
    reduced_by="strides",
    reduction_factor=4,
)
SECOND = FullResolutionLayer(
    layer="Conv2D",
    at="train.py:8",
    position_counts=(72, 72),
    reduced_by="strides",
    reduction_factor=4,
)
FRAMES = FullResolutionLayer(
    layer="LSTM", at="train.py:9", position_counts=(99,), reduced_by="stacking", reduction_factor=3
)


def of(layer, share, phase="forward"):
    return KernelGroup(
        phase=phase,
        share=share,
        calls_per_step=1.0,
        main_kernel="Conv2D",
        layer=layer.layer,
        at=layer.at,
    )


def training(*layers, parts, step=1.0):
    return observed(
        kernels=parts,
        full_resolution_layers=layers,
        step_s=0.1,
        shares={"step": step, "host": 1.0 - step},
    )


def test_all_kernels_of_such_layers_count_and_the_dearest_is_named():
    parts = (of(FIRST, 0.1), of(SECOND, 0.2), of(SECOND, 0.3, "backward"))
    (finding,) = compute_bound.find(training(FIRST, SECOND, parts=parts), MACHINE)
    assert finding.at == "train.py:8"
    assert finding.upper_bound == pytest.approx(1 / (1 - 0.6 * 0.75))
    assert "60% of the kernel time of a 100 ms step" in finding.evidence
    assert "goes to Conv2D (on 2 lines) at the full size of the input, 72x72" in finding.evidence
    assert finding.remedy.startswith("use strides=2 in the first of them")


def test_two_layers_of_one_line_are_counted_once():
    (finding,) = compute_bound.find(training(FIRST, FIRST, parts=(of(FIRST, 0.6),)), MACHINE)
    assert finding.upper_bound == pytest.approx(1 / (1 - 0.6 * 0.75))


def test_a_long_sequence_may_be_stacked():
    (finding,) = compute_bound.find(training(FRAMES, parts=(of(FRAMES, 0.9),)), MACHINE)
    assert finding.upper_bound == pytest.approx(1 / (1 - 0.9 * 2 / 3))
    assert finding.remedy.startswith("stack neighbouring time steps")


@pytest.mark.parametrize(("share", "step"), [(0.25, 1.0), (0.6, 0.4)])
def test_nobody_changes_a_model_for_a_few_percent(share, step):
    assert (
        list(compute_bound.find(training(FIRST, parts=(of(FIRST, share),), step=step), MACHINE))
        == []
    )


def test_a_network_that_is_coarse_from_the_start_is_healthy():
    found = judge(training(parts=(of(FIRST, 0.9),)), MACHINE)
    assert [finding.cause for finding in found.findings] == ["healthy"]


def test_it_stands_only_where_there_is_nothing_else_to_gain():
    parts = (of(FIRST, 0.9),)
    alone = judge(training(FIRST, parts=parts), MACHINE)
    assert [finding.cause for finding in alone.findings] == ["compute_bound"]
    slowed = judge(training(FIRST, parts=parts, step=0.8), MACHINE)
    assert [finding.cause for finding in slowed.findings] == ["small_steps"]
