"""A loop over a dataset, before anything of it is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from uncork.capture.base.listener import LoopCall, LoopEvidence, StepCall
from uncork.core.base.errors import NothingToMeasure
from uncork.core.evidence.loop import StartupLine
from uncork.engine.loop.dataset_loop_subject import DatasetLoopSubject
from uncork.engine.subject.workload_summary import startup_lines_of


def test_data_that_can_be_read_only_once_is_told(tmp_path: Path) -> None:
    rows = iter([1.0, 2.0])
    shape = tf.TensorSpec((), tf.float32)
    data = tf.data.Dataset.from_generator(lambda: rows, output_signature=shape)
    assert len(list(data)) == 2
    seen = LoopEvidence(has_eager_step=False, steps_seen=2, tape_calls_per_step=1)
    call = LoopCall(0, "train.py:7", data, lambda: iter(data), seen)
    with pytest.raises(NothingToMeasure, match="has no batch when it is read again"):
        DatasetLoopSubject(call, epochs=None, scratch=str(tmp_path))


def test_what_came_before_counts_where_it_is_known_how_long_the_training_takes() -> None:
    lines = (StartupLine(at="train.py:3", seconds=9.0),)
    call = StepCall(0, "train.py:9", (), {}, print, startup_lines=lines)
    assert startup_lines_of(call, 20) == lines
    assert startup_lines_of(call, None) == ()
