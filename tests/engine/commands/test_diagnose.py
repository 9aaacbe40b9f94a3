"""The main job on real input: photos in, a proved plan out, the plan in force."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from running import run_uncork
from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import parse_plan
from uncork.optimizations.order import OPTIMIZATIONS

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    subprocess.run(
        [sys.executable, EXAMPLES / "make_photos.py", folder, "--count", "120"], check=True
    )
    return folder


@pytest.fixture(scope="module")
def plan(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Of the example script, left at ``plan.json`` beside its report."""
    cwd = tmp_path_factory.mktemp("tuned")
    done = run_uncork("tune", "--budget", 20, EXAMPLES / "photos.py", photos, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert (cwd / "report.html").read_text().startswith("<!DOCTYPE html>")
    return parse_plan((cwd / "plan.json").read_bytes())


def test_every_step_of_the_road_has_an_outcome(plan: Plan) -> None:
    here, elsewhere = (
        [o.name for o in OPTIMIZATIONS if o.needs_own_process is c] for c in (False, True)
    )
    assert [step.name for step in plan.steps] == here + elsewhere
    assert all(step.reason for step in plan.steps)


def test_every_kept_step_is_proved_and_measured(plan: Plan) -> None:
    for step in plan.accepted_steps:
        assert step.proof is not None
        assert step.proof.passed
        assert step.proof.kind == step.guarantee
        assert step.measured is not None
        assert step.measured.low > 1.0
        assert step.edits


def test_nothing_unproved_is_in_force(plan: Plan) -> None:
    assert all(not step.edits for step in plan.steps if step.outcome != "kept")


def test_no_rewrite_of_the_photos_is_found_wrong(plan: Plan) -> None:
    """What is faster depends on this minute; what is proved to be right does not."""
    for step in plan.steps:
        assert step.outcome != "failed", step.reason
        if step.stage == "input" and step.proof is not None:
            assert step.proof.passed, step.proof.detail


def test_its_diagnosis_names_the_map_and_its_line(plan: Plan) -> None:
    found = plan.before
    stage = next(s for s in found.stages if s.kind == "map")
    source = (EXAMPLES / "photos.py").read_text().splitlines()
    assert stage.at is not None
    assert ".map(load)" in source[int(stage.at.rpartition(":")[2]) - 1]
    assert stage.parallelism == 1
    assert stage.deterministic_prefix is not None
    assert sum(found.breakdown.values()) == pytest.approx(1.0)
    assert set(found.ceilings) - {"storage", "disk"} == {
        "consumer", "supply", "host", "serial", "decode"
    }  # fmt: skip
    decoding = next(cost for cost in stage.op_costs if cost.op == "DecodeJpeg")
    assert decoding.at is not None
    assert "decode_jpeg" in source[int(decoding.at.rpartition(":")[2]) - 1]


@pytest.mark.deep
def test_custom_loop_is_diagnosed_and_stopped(photos: Path, tmp_path: Path) -> None:
    done = run_uncork("diagnose", "--budget", 2, EXAMPLES / "custom_loop.py", photos, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = from_json((tmp_path / "uncork-report/diagnosis.json").read_bytes(), Diagnosis)
    workload = found.workloads[0].workload
    assert workload.kind == "custom_loop"
    assert not workload.is_eager_step
    assert workload.epochs == 5  # as many as it trains when it is not told
    line = int(workload.at.rpartition(":")[2])
    assert "custom_loop.py" in done.stdout
    source = (EXAMPLES / "custom_loop.py").read_text().splitlines()
    assert source[line - 1].strip().startswith("for ")
