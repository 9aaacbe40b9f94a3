"""The parts of the benchmark of overhead, on processes that train nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.overhead import runs, watched
from benchmarks.overhead.runs import Cost, Runs, cost_of, epochs_for, in_turn
from benchmarks.truth.processes import Run, run
from uncork.core.base.record import replace

BUSY = """
import time
while time.process_time() < 0.3:
    pass
print("trained 10 samples in 1.50 s")
"""
EPOCHS = """
import sys
for epoch in range(int(sys.argv[2])):
    print("loss 0.5", flush=True)
print("loss 0.5")
print("trained 10 samples in 0.20 s")
"""
WATCHED = """
import tensorflow as tf
from uncork.pycode.frames.dataset_lines import source_line

dataset = tf.data.Dataset.range(3)
print(source_line(dataset), [int(x) for x in dataset])
"""


def cost(trained_s: float) -> Cost:
    return Cost(trained_s=trained_s, wall_s=2 * trained_s, cpu_s=3 * trained_s)


def test_a_process_tells_its_training_and_is_charged_its_processor(tmp_path: Path):
    found = cost_of([sys.executable, "-c", BUSY], tmp_path)
    assert found.trained_s == 1.5
    assert 0.3 <= found.cpu_s < 3
    assert found.wall_s >= 0.3


def test_one_that_fails_is_no_measurement(tmp_path: Path):
    with pytest.raises(RuntimeError, match="no photos"):
        cost_of([sys.executable, "-c", "raise ValueError('no photos')"], tmp_path)


@pytest.mark.parametrize(("took", "epochs"), [((0.3, 0.05, 0.07), 20), ((0.9, 0.8, 0.7), 4)])
def test_as_many_epochs_as_take_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: tuple[float, ...], epochs: int
):
    """Three of four epochs are timed, with times set here; the shortest is least disturbed."""
    script = tmp_path / "script.py"
    script.write_text(EPOCHS)
    timed: list[int] = []

    def by_decree(command: Sequence[object], work: Path) -> Run:
        found = run(command, work)
        timed.append(len(found.epochs_s))
        return replace(found, epochs_s=took)

    monkeypatch.setattr(runs, "run", by_decree)
    assert epochs_for((script,), tmp_path / "work", 1.0) == epochs
    assert timed == [3]


def test_every_other_round_runs_backwards():
    said: list[str] = []

    def way(name: str):
        def run() -> Cost:
            said.append(name)
            return cost(float(len(said)))

        return run

    found = in_turn([way("a"), way("b"), way("c")], rounds=3)
    assert "".join(said) == "abccbaabc"
    assert [[each.trained_s for each in costs] for costs in found] == [
        [1, 6, 7],
        [2, 5, 8],
        [3, 4, 9],
    ]


def test_overhead_is_a_ratio_of_times_above_one_where_the_plan_costs():
    plain, under = [cost(10.0), cost(20.0)], [cost(10.1), cost(20.2)]
    both = Runs(name="mlp", epochs=5, plain=tuple(plain), others={"under": tuple(under)})
    found = both.overhead("under", lambda each: each.cpu_s)
    assert found.ratio == pytest.approx(1.01)
    assert found.low == pytest.approx(1.01)


def test_a_watched_script_does_what_it_does_alone_and_its_datasets_know_their_lines(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(WATCHED)
    done = run([sys.executable, watched.__file__, script], tmp_path)
    assert (done.exit_code, done.lines[-1:]) == (0, ("script.py:5 [0, 1, 2]",)), done
