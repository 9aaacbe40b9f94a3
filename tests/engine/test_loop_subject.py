"""A loop over a dataset, before anything of it is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from uncork.capture import LoopCall
from uncork.capture.calls import LoopEvidence
from uncork.core.errors import NothingToMeasure
from uncork.engine.loop_subject import LoopSubject


def test_data_that_can_be_read_only_once_is_told(tmp_path: Path) -> None:
    rows = iter([1.0, 2.0])
    shape = tf.TensorSpec((), tf.float32)
    data = tf.data.Dataset.from_generator(lambda: rows, output_signature=shape)
    assert len(list(data)) == 2
    seen = LoopEvidence(eager_step=False, steps_seen=2, tape_calls_per_step=1)
    call = LoopCall(0, "train.py:7", data, lambda: iter(data), seen)
    with pytest.raises(NothingToMeasure, match="gives no batch when it is read again"):
        LoopSubject(call, repeated=True, scratch=str(tmp_path))
