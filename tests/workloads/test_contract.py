"""What every workload keeps to, as far as that can be told without running it."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from benchmarks.truth.catalog import CAUSES, LAYERS, ROOT, Workload, find
from uncork.rules.base.claims import GENERAL_CAUSES

WORKLOADS = find()
PLANTED = [w for w in WORKLOADS if w.layer != "healthy"]


def named(workload: Workload) -> str:
    return workload.name


def test_every_cause_is_planted_in_two_styles_at_least():
    styles = Counter(w.cause for w in PLANTED)
    assert {cause for cause in CAUSES if styles[cause] < 2} == {"healthy", *GENERAL_CAUSES}
    assert len(PLANTED) >= 80


def test_enough_scripts_are_healthy():
    assert sum(w.layer == "healthy" for w in WORKLOADS) >= 20


def test_no_script_is_left_out_of_the_catalog():
    scripts = {p for p in ROOT.glob("*/**/*.py") if "__pycache__" not in p.parts}
    assert scripts == {p for w in WORKLOADS for p in (w.script, w.fixed) if p is not None}
    assert {p.name for p in ROOT.iterdir() if p.is_dir()} - {"__pycache__"} == set(LAYERS)


@pytest.mark.parametrize("workload", PLANTED, ids=named)
def test_a_planted_workload(workload: Workload):
    assert workload.cause in CAUSES
    assert workload.fixed is not None, "the expert's fix is missing"
    assert workload.bottleneck_lines, "no line is marked"
    slow, fixed = workload.script.read_text(), workload.fixed.read_text()
    assert "# bottleneck" not in fixed
    assert slow != fixed
    if workload.style.startswith("standin_"):
        doc = ast.get_docstring(ast.parse(slow)) or ""
        assert re.search(r"stand(s|ing)?[\s-]in", doc), "say what stands in for what"


@pytest.mark.parametrize("workload", WORKLOADS, ids=named)
def test_every_script(workload: Workload):
    for path in filter(None, (workload.script, workload.fixed)):
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), "no docstring"
        assert "uncork" not in text.lower(), "a user's script knows nothing of Uncork"
        for promised in ("--epochs", "trained.weights.h5", " samples in ", "loss"):
            assert promised in text, f"{path.name}: {promised}"
