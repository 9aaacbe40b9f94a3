"""What TensorFlow writes summaries and numbered checkpoints with.

Borrowed: the classes of summary writers; the prefix of a ``CheckpointManager``'s files; the methods
    and the function in which checkpoints and SavedModels are written and read.
Why: ``tf.summary.create_file_writer`` is copied at import, so a hook on it misses the copies; and a
    manager returns its folder, not the prefix of its files. What it writes beside a checkpoint, and
    removes, is decided behind the public methods.
Works with: TensorFlow 2.18.1 and 2.21.0; its test was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when it is read.

Nothing is imported here: hooks are installed before the script imports TensorFlow.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow_attribute

# In the module ``summary_ops_v2``.
SUMMARY_WRITERS: Final = ("_ResourceSummaryWriter", "_TrackableResourceSummaryWriter")


# Of the class ``Checkpoint``: both its ways to save, and that of a manager, end in this method.
WRITE_CHECKPOINT: Final = "Checkpoint._write"
# In the same module: the class that reads and writes the files of a checkpoint.
CHECKPOINT_FILES: Final = "TrackableSaver"
# In the module ``load``: also behind ``tf.saved_model.load``, whatever copies of that there are.
LOAD_SAVED_MODEL: Final = "load_partial"


def checkpoint_prefix(manager: Any) -> str:
    """The path of a manager's checkpoints, without their number."""
    return str(borrow_attribute(manager, "_prefix"))
