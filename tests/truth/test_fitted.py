"""Workloads on machines where bfloat16 pays and where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.truth.catalog import find
from benchmarks.truth.fitted import fitted

SCRIPT = 'keras.config.set_dtype_policy("mixed_bfloat16")  # bottleneck\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for cause in ("compute_bound", "low_precision_unused", "low_precision_harmful"):
        folder = tmp_path / "device" / cause
        folder.mkdir(parents=True)
        (folder / "fit.py").write_text(SCRIPT)
        (folder / "fit_fixed.py").write_text(SCRIPT)
    return tmp_path


def test_where_bfloat16_pays_all_run_as_they_are(root: Path, tmp_path: Path):
    for workload in find(root=root):
        assert fitted(workload, tmp_path / "copies", fast=True) is workload
    assert not (tmp_path / "copies").exists()


def test_elsewhere_bfloat16_by_the_way_becomes_float32(root: Path, tmp_path: Path):
    (workload,) = find(["device/compute_bound"], root)
    copy = fitted(workload, tmp_path / "copies", fast=False)
    assert copy is not None
    assert copy.fixed is not None
    assert copy.script.read_text() == copy.fixed.read_text()
    assert copy.script.read_text() == SCRIPT.replace("mixed_bfloat16", "float32")
    assert (copy.name, copy.bottleneck_lines) == (workload.name, workload.bottleneck_lines)
    assert workload.script.read_text() == SCRIPT


def test_elsewhere_precision_is_left_alone_where_it_is_the_brake(root: Path, tmp_path: Path):
    harmful, unused = find(["device/low_precision_*"], root)
    assert fitted(unused, tmp_path / "copies", fast=False) is None
    assert fitted(harmful, tmp_path / "copies", fast=False) is harmful
