from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.compat.borrow import borrow
from uncork.compat.tf import file_io, saving
from uncork.core.base.errors import MissingPrivateApi


def test_a_checkpoint_begins_with_the_prefix(tmp_path):
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), max_to_keep=1)
    assert manager.save() == f"{saving.checkpoint_prefix(manager)}-1"


def test_writers_of_summaries_are_of_these_classes(tmp_path):
    module = borrow("tensorflow.python.ops.summary_ops_v2")
    kinds = tuple(getattr(module, name) for name in saving.SUMMARY_WRITERS)
    assert isinstance(tf.summary.create_file_writer(str(tmp_path)), kinds)
    assert module.create_noop_writer is tf.summary.create_noop_writer


def test_files_are_written_through_these_functions(tmp_path, monkeypatch):
    module = borrow("tensorflow.python.lib.io.file_io")
    checked, deleted = [], []
    check = getattr(module.FileIO, file_io.BEFORE_WRITE)
    monkeypatch.setattr(
        module.FileIO, file_io.BEFORE_WRITE, lambda file: checked.append(file.name) or check(file)
    )
    native = file_io.native_functions(module)
    delete = native.DeleteFile
    monkeypatch.setattr(native, "DeleteFile", lambda path: deleted.append(path) or delete(path))
    path = str(tmp_path / "a")
    with tf.io.gfile.GFile(path, "w") as file:
        file.write("text")
    tf.io.gfile.remove(path)
    assert (checked, [p.decode() for p in deleted]) == ([path], [path])


def test_a_missing_name_is_a_named_error():
    with pytest.raises(MissingPrivateApi, match="_pywrap_file_io"):
        file_io.native_functions(tf)
    with pytest.raises(MissingPrivateApi, match="_prefix"):
        saving.checkpoint_prefix(tf)
