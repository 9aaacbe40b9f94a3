"""Every example runs as a plain script; none of them imports Uncork."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.conftest import EXAMPLES, Run

pytestmark = pytest.mark.slow


def test_photos(run: Run, photos: Path) -> None:
    said = run("photos.py", photos, "--epochs", "2", KERAS_MAX_STEPS_PER_EPOCH="1")
    assert said.count("val_loss") == 2
    assert re.search(r"accuracy on held-out photos: \d+\.\d%", said)


def test_custom_loop(run: Run, photos: Path) -> None:
    said = run("custom_loop.py", photos, "--epochs", "2", "--steps", "1")
    assert re.findall(r"epoch (\d): loss \d", said) == ["1", "2"]


def test_healthy_runs_the_steps_it_is_given(run: Run) -> None:
    said = run("healthy.py", "--steps", "3", "--seed", "0")
    assert "3/3" in said


def test_digits_ends_in_the_same_weights_every_time(run: Run) -> None:
    small = ("digits_mlp.py", "--samples", "640", "--epochs", "2", "--digest")
    first, again = (re.findall(r"weights (\w{64})", run(*small)) for _ in range(2))
    assert first
    assert first == again


def test_digits_prints_no_digest_unless_asked(run: Run) -> None:
    assert "weights" not in run("digits_mlp.py", "--samples", "320", "--epochs", "1")


def test_no_example_knows_of_uncork() -> None:
    imports = re.compile(r"^\s*(import|from)\s+uncork", re.MULTILINE)
    assert [e.name for e in EXAMPLES.glob("*.py") if imports.search(e.read_text())] == []
