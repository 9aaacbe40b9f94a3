"""``uncork.explain``: a pipeline says what it is and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

import uncork
from uncork.core.base.errors import WrongUse
from uncork.core.base.record import from_json, to_json
from uncork.core.documents.diagnosis import Explanation
from uncork.pycode.frames.dataset_lines import record_source_lines

record_source_lines()


def busy(x):
    return tf.reduce_sum(tf.range(2_000_000 + x))


def test_every_stage_with_its_line_and_the_slowest_marked():
    dataset = tf.data.Dataset.range(50).map(busy).batch(5)
    shown = uncork.explain(dataset, budget=1.0)
    text = str(shown)
    assert [stage.kind for stage in shown.record.stages] == ["range", "map", "batch"]
    (row,) = (line for line in text.splitlines() if "map busy" in line)
    assert "< bottleneck" in row
    assert "explain.py:" in row
    assert text.startswith("gives ")
    assert shown.record.elements_per_s > 0


def test_what_the_autotuner_chose_is_told_of_the_bottleneck():
    data = tf.data.Dataset.range(64).map(busy, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)
    shown = uncork.explain(data, budget=1.0)
    chosen = shown.record.stages[1].autotuned_parallelism
    assert chosen >= 1
    assert f"The bottleneck, map, runs {chosen} in parallel, auto." in str(shown)


def test_branches_stand_indented_above_what_joins_them():
    left = tf.data.Dataset.range(8).map(busy)
    both = tf.data.Dataset.zip(left, tf.data.Dataset.range(8)).batch(2)
    shown = uncork.explain(both, budget=1.0)
    assert [stage.first_index for stage in shown.record.stages] == [0, 0, 2, 0, 0]
    rows = [row for row in str(shown).splitlines()[2:] if row and not row.startswith("The ")]
    indents = {row.split()[0]: len(row) - len(row.lstrip()) for row in rows}
    ops = {cost.op for stage in shown.record.stages for cost in stage.op_costs}
    assert list(kind for kind in indents if kind not in ops) == ["range", "map", "zip", "batch"]
    assert indents["Sum"] > indents["range"] == indents["map"] > indents["zip"] == indents["batch"]


def test_epochs_that_a_shuffle_counts_are_not_used_up():
    def orders(explained):
        tf.random.set_seed(1)
        dataset = tf.data.Dataset.range(9).shuffle(9, seed=2)
        if explained:
            uncork.explain(dataset, budget=0.2)
        return [list(dataset.as_numpy_iterator()) for _ in range(2)]

    assert orders(True) == orders(False)


def test_an_empty_dataset_gives_nothing():
    shown = uncork.explain(tf.data.Dataset.range(0).map(busy), budget=0.2)
    assert shown.record.elements_per_s == 0
    assert "range" in str(shown)


def test_it_can_be_kept_and_shown_in_a_notebook():
    shown = uncork.explain(tf.data.Dataset.range(9), budget=0.2)
    assert from_json(to_json(shown.record), Explanation) == shown.record
    assert shown._repr_html_().startswith("<pre>gives ")


def test_without_lines_it_says_how_to_have_them(monkeypatch):
    monkeypatch.setattr("uncork.pipeline.ir.node.source_line", lambda dataset: None)
    shown = str(uncork.explain(tf.data.Dataset.range(9), budget=0.2))
    assert "create the dataset again" in " ".join(shown.split())


@pytest.mark.parametrize("what", [None, [1, 2], "photos"])
def test_what_is_no_dataset_is_refused(what):
    with pytest.raises(WrongUse):
        uncork.explain(what)


@pytest.mark.usefixtures("forked_processes")
def test_lines_of_datasets_made_behind_the_import_are_known(tmp_path):
    script = tmp_path / "look.py"
    script.write_text(
        "import tensorflow as tf\nimport uncork\n"
        "data = tf.data.Dataset.range(64).map(lambda x: x + 1)\n"
        "print(uncork.explain(data, budget=0.5))\n"
    )
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "look.py:3" in found.stdout
