from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from uncork.measure.machine import cgroup as groups
from uncork.measure.machine import devices
from uncork.measure.machine import probe as machine
from uncork.measure.machine.devices import driver_gpus
from uncork.measure.machine.probe import available_memory_bytes, probe_host

GB = 1 << 30


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch) -> Path:
    """A root of control groups, of which this process is in the topmost one."""
    for function in (groups.cpu_quota, groups.memory_limit_bytes, groups.free_memory_bytes):
        monkeypatch.setattr(function, "__defaults__", (tmp_path,))
    monkeypatch.setattr(groups, "CGROUP_MEMBERSHIP", tmp_path / "nowhere")
    return tmp_path


def test_this_machine_as_it_is():
    found = probe_host(devices=("GPU:0 x",))
    assert 0 < found.cpus <= (os.cpu_count() or 1)
    assert found.memory_bytes > 1 << 20
    assert found.devices == ("GPU:0 x",)
    assert found.cpu_model
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert 0 < available_memory_bytes() <= found.memory_bytes


def test_two_looks_agree():
    assert probe_host().differing_fields(probe_host()) == ()


@pytest.mark.parametrize(("quota", "cpus"), [("50000 100000", 0.5), ("100000 100000", 1.0)])
def test_a_quota_counts(cgroup, quota, cpus):
    (cgroup / "cpu.max").write_text(quota + "\n")
    assert machine.usable_cpus() == cpus


@pytest.mark.parametrize("quota", ["max 100000", "99900000 100000", None])
def test_a_quota_beyond_the_affinity_does_not(cgroup, quota):
    if quota is not None:
        (cgroup / "cpu.max").write_text(quota)
    assert machine.usable_cpus() == len(os.sched_getaffinity(0))


def test_a_process_may_bind_itself_to_less_than_it_was_started_with():
    code = (
        "import os; "
        "from uncork.measure.machine.probe import probe_host, remember_initial_cpus; "
        "remember_initial_cpus(); "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "p = probe_host(); print(p.cpus, p.cpus_at_start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bound, allowed = map(float, done.stdout.split())
    assert bound <= 1
    assert allowed == machine.usable_cpus()


def test_without_a_start_to_remember_nothing_was_bound():
    assert probe_host().cpus_at_start == probe_host().cpus


def test_variables_that_hide_something_are_kept(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setenv("HOME", "/secret")
    assert "CUDA_VISIBLE_DEVICES=-1" in probe_host().environment_variables
    assert not any("secret" in each for each in probe_host().environment_variables)


@pytest.mark.parametrize(("widest", "hidden"), [("SSE41", True), ("avx512_core_amx", False)])
def test_vector_units_that_are_hidden_compute_no_bfloat16(monkeypatch, widest, hidden):
    monkeypatch.setattr(devices, "_cpu_flags", lambda: "fpu avx512_bf16")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", widest)
    assert devices.has_native_bfloat16() is not hidden


def test_gpus_of_the_driver_count_where_there_are_nodes(tmp_path):
    for number, model in enumerate(["NVIDIA H200", "NVIDIA L4"]):
        folder = tmp_path / "driver" / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   12\n")
    nodes = tmp_path / "dev"
    nodes.mkdir()
    assert driver_gpus(tmp_path / "driver", nodes) == ()
    (nodes / "nvidia0").touch()
    assert driver_gpus(tmp_path / "driver", nodes) == ("NVIDIA H200", "NVIDIA L4")


def test_a_memory_limit_counts(cgroup):
    (cgroup / "memory.max").write_text(f"{GB}\n")
    (cgroup / "memory.current").write_text(f"{GB // 4}\n")
    assert machine.memory_limit_bytes() == GB
    assert available_memory_bytes() <= GB * 3 // 4


def test_a_full_cgroup_has_nothing_left(cgroup):
    (cgroup / "memory.max").write_text(str(GB))
    (cgroup / "memory.current").write_text(str(GB + 4096))
    assert available_memory_bytes() == 0


def test_what_keeps_files_in_memory_is_free(cgroup):
    (cgroup / "memory.max").write_text(str(GB))
    (cgroup / "memory.current").write_text(str(GB))
    (cgroup / "memory.stat").write_text(f"anon {GB // 2}\nfile {GB // 2}\ninactive_file {GB // 4}")
    assert groups.free_memory_bytes() == GB // 4


@pytest.mark.parametrize("limits", [("a", 3.0), ("a/job", 2.0), ("", 1.0), ("a/other", math.inf)])
def test_the_groups_above_limit_it_too(cgroup, monkeypatch, limits):
    at, cpus = limits
    membership = cgroup / "membership"
    membership.write_text("0::/a/job\n")
    monkeypatch.setattr(groups, "CGROUP_MEMBERSHIP", membership)
    for name in ("a/job", "a/other"):
        (cgroup / name).mkdir(parents=True)
    (cgroup / at / "cpu.max").write_text(f"{int(min(cpus, 9.0) * 1e5)} 100000")
    assert groups.cpu_quota() == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("150000", 1.5), ("-1", math.inf)])
def test_the_older_cgroup_has_a_quota(cgroup, quota, cpus):
    (cgroup / "cpu").mkdir()
    (cgroup / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (cgroup / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert groups.cpu_quota() == cpus


def test_the_older_cgroup_tells_what_is_taken(cgroup, monkeypatch):
    """Inside a container the path that a process is told is that of the host."""
    membership = cgroup / "membership"
    membership.write_text("5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n")
    monkeypatch.setattr(groups, "CGROUP_MEMBERSHIP", membership)
    (cgroup / "memory").mkdir()
    for name, content in {
        "memory.limit_in_bytes": GB, "memory.usage_in_bytes": GB // 2,
        "memory.stat": f"cache 9\ntotal_inactive_file {GB // 8}",
    }.items():  # fmt: skip
        (cgroup / "memory" / name).write_text(str(content))
    assert groups.free_memory_bytes() == GB // 2 + GB // 8


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", None])
def test_no_limit_means_physical_memory(cgroup, limit):
    if limit is not None:
        (cgroup / "memory.max").write_text(limit)
    assert GB // 8 < machine.memory_limit_bytes() < 1 << 50


def test_the_older_cgroup_is_read_too(cgroup):
    (cgroup / "memory").mkdir()
    (cgroup / "memory" / "memory.limit_in_bytes").write_text(str(GB))
    assert machine.memory_limit_bytes() == GB


def test_looking_imports_no_tensorflow():
    code = (
        "import sys; from uncork.measure.machine.probe import probe_host\n"
        "found = probe_host(); print(repr(found.tensorflow), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["''", "False"]
