from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from uncork.compat.tf import summaries
from uncork.core.base.errors import MissingPrivateApi


def test_the_writer_the_step_and_the_condition_are_read(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=7), tf.summary.record_if(False):
        state = summaries.summary_state()
    assert state.writer is writer
    assert state.step == 7
    assert state.conditions[0] is False


def test_a_state_without_a_writer_is_a_named_error(monkeypatch):
    monkeypatch.setattr(
        summaries,
        "_state",
        SimpleNamespace(is_recording=None, is_recording_distribution_strategy=True, step=None),
    )
    with pytest.raises(MissingPrivateApi, match=r"_summary_state\.writer'"):
        summaries.summary_state()
