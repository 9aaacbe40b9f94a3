"""What a script does behind its loop is done with weights that trials have moved."""

from __future__ import annotations

import sys
import threading

import pytest

from running import Run, Write
from scripts.test_step_loops import TRAINING
from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.pycode.frames.enclosing_loops import LoopExitDetector

ENDING = """
    with open("log.txt", "w") as log:
        for epoch in range(EPOCHS):
            for chosen in np.random.permutation(4_000).reshape(-1, 40):
                loss = train_step(np.array([row * 1.0 for row in rows[chosen]]), sums[chosen])
            log.write(f"{loss}")
            log.flush()
            with open("losses.txt", "a") as losses:
                losses.write(f"{loss}")
    print("left its loop")
    np.save("weights.npy", model.get_weights()[0])
    print("went on")
    """


def where(script, lines):
    """A frame of a script at each of its calls of ``look``."""
    seen = []

    def look():
        seen.append(lines(sys._getframe(1)))

    exec(compile(script.read_text(), str(script), "exec"), {"look": look, "__name__": "__main__"})
    return seen


def test_a_loop_is_left_when_no_loop_around_the_step_runs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "def step():\n    look()\n"
        "def epoch():\n    for batch in range(1):\n        step()\n    look()\n"
        "for each in range(2):\n    epoch()\n    look()\n"
        "look()\n"
    )
    found = []

    def at(frame):
        if not found:
            found.append(LoopExitDetector(frame))
        return found[0].has_exited(frame)

    assert where(script, at) == [False] * 6 + [True]


def test_on_another_thread_and_outside_of_loops_nobody_knows(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("look()\nfor each in range(1):\n    look()\nlook()\n")
    assert where(script, lambda frame: LoopExitDetector(frame).has_exited(None)) == [
        False,
        True,
        False,
    ]
    found = []
    lines = where(script, LoopExitDetector)[1]
    thread = threading.Thread(target=lambda: found.append(lines.has_exited(None)))
    thread.start()
    thread.join()
    assert found == [False]


@pytest.fixture
def script(write: Write, tmp_path):
    """One whose results of earlier runs lie beside it."""
    (tmp_path / "weights.npy").write_text("three days")
    (tmp_path / "log.txt").write_text("their log")
    return lambda epochs: write(TRAINING + ENDING.replace("EPOCHS", str(epochs)))


@pytest.mark.slow
def test_behind_its_loop_a_script_is_ended_before_it_writes(script, uncork: Run, tmp_path):
    done = uncork("diagnose", script(epochs=2))
    assert done.returncode == 3, done.stderr
    assert "ended before it was measured" in done.stderr
    assert "left its loop" in done.stdout
    assert "went on" not in done.stdout
    assert (tmp_path / "weights.npy").read_text() == "three days"
    assert (tmp_path / "log.txt").read_text() == "their log"


@pytest.mark.slow
def test_what_it_writes_in_its_loop_is_told(script, uncork: Run, tmp_path):
    done = uncork("diagnose", "--budget", "2", "--json", "d.json", script(epochs=100_000))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log.txt").read_text() == "their log"
    notes = "\n".join(from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0].notes)
    assert "log.txt" in notes.split("Uncork restored them: ")[1]
    assert "losses.txt" in notes.split("those of trials: ")[1]
