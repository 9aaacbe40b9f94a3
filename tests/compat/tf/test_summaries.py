from __future__ import annotations

import tensorflow as tf

from uncork.compat.tf.summaries import summary_state


def test_the_writer_the_step_and_the_condition_are_read(tmp_path):
    assert summary_state.writer is None
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=7), tf.summary.record_if(False):
        assert summary_state.writer is writer
        assert summary_state.step == 7
        assert summary_state.is_recording is False
        assert summary_state.is_recording_distribution_strategy is True
