"""A second tuning: which plans are known, and when they still hold. Processes are faked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from records import MACHINE, measurement, plan
from uncork.core.base.errors import WrongUse
from uncork.core.base.record import replace
from uncork.core.base.script import script_digest
from uncork.core.documents.job import Confirmation, JobResult
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import serialize_plan
from uncork.engine.commands import known_plan, plan_checks
from uncork.engine.commands.known_plan import find_known_plan, still_holds
from uncork.engine.process.worker_process import Script


@pytest.fixture
def script(tmp_path: Path) -> Script:
    path = tmp_path / "train.py"
    path.write_text("print('trained')\n")
    return Script(str(path), ("--epochs", "3"))


def made_for(script: Script) -> Plan:
    """A confirmed plan of this command, as if it was tuned on this machine."""
    machine = plan_checks._host()
    made = replace(plan(), machine=machine, arguments=script.args, script=script.path)
    return replace(made, script_digest=script_digest(script.path))


def find(tmp_path: Path, script: Script, made: Plan, **changes) -> Plan | None:
    path = tmp_path / "plan.json"
    path.write_bytes(serialize_plan(made))
    policy = replace(made.policy, budget_s=60.0)
    return find_known_plan(path, script, **{"policy": policy, **changes})


def test_the_plan_of_the_same_tuning_is_known(tmp_path, script):
    made = made_for(script)
    assert find(tmp_path, script, made) is not None
    assert find(tmp_path, script, made, training=made.before.workload.index) is not None


@pytest.mark.parametrize(
    "case", ["edited", "module", "arguments", "policy", "training", "doubt", "none"]
)
def test_another_tuning_is_not(tmp_path, script, case):
    made, changes = made_for(script), {}
    if case == "edited":
        Path(script.path).write_text("print('trained otherwise')\n")
    elif case == "arguments":
        script = Script(script.path, ("--epochs", "4"))
    elif case == "policy":
        changes["policy"] = Policy(loosest_guarantee="exact")
    elif case == "training":
        changes["training"] = made.before.workload.index + 1
    elif case == "doubt":
        made = replace(made, speedup=replace(made.speedup, verdict="not_proven"))
    found = find(tmp_path, script, made, **changes)
    if case == "module":
        assert found is not None
        module = tmp_path / "layers" / "own.py"
        module.parent.mkdir()
        module.write_text("UNITS = 8")
        later_s = (tmp_path / "plan.json").stat().st_mtime + 1
        os.utime(module, (later_s, later_s))
        found = find_known_plan(tmp_path / "plan.json", script, made.policy)
    if case == "none":
        found = find_known_plan(tmp_path / "other.json", script, made.policy)
    assert found is None


@pytest.mark.parametrize(
    ("speed", "holds"), [(1.0, True), (0.7, True), (0.4, False)], ids=["same", "noise", "slow"]
)
def test_it_holds_where_it_is_about_as_fast(monkeypatch, script, speed, holds):
    made = replace(plan(), baseline=measurement(400.0), tuned=measurement(1600.0))
    found = Confirmation(measurement=measurement(1600.0 * speed), first_epoch_s=None)
    result = JobResult(machine=MACHINE, confirmation=found)
    monkeypatch.setattr(known_plan, "run_quiet_worker", lambda job, script: result)
    told = []
    assert still_holds(made, script, told.append) is holds
    assert ("--again" in told[-1].text) is holds


def test_a_plan_that_no_longer_applies_is_tuned_again(monkeypatch, script):
    def refuse(job, script):
        raise WrongUse("the pipeline is another one", "", "")

    monkeypatch.setattr(known_plan, "run_quiet_worker", refuse)
    told = []
    assert not still_holds(plan(), script, told.append)
    assert told[-1].text == "tuning again: the pipeline is another one"


def test_packages_of_a_virtual_environment_are_not_the_script_s(tmp_path, script):
    made = made_for(script)
    assert find(tmp_path, script, made) is not None
    later_s = (tmp_path / "plan.json").stat().st_mtime + 1
    for environment in (".venv", "env"):
        module = tmp_path / environment / "lib" / "package.py"
        module.parent.mkdir(parents=True)
        (tmp_path / environment / "pyvenv.cfg").touch()
        module.write_text("")
        os.utime(module, (later_s, later_s))
    assert find_known_plan(tmp_path / "plan.json", script, made.policy) is not None
