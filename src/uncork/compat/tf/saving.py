"""What TensorFlow writes summaries and numbered checkpoints with.

Borrowed: the classes of summary writers; the prefix of a ``CheckpointManager``'s files.
Why: ``tf.summary.create_file_writer`` is copied at import, so a hook on it misses the copies; and a
    manager returns its folder, not the prefix of its files.
Works with: TensorFlow 2.18.1 and 2.21.0; its test was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when it is read.

Nothing is imported here: hooks are installed before the script imports TensorFlow.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow_attribute

# In the module ``summary_ops_v2``.
SUMMARY_WRITERS: Final = ("_ResourceSummaryWriter", "_TrackableResourceSummaryWriter")


def checkpoint_prefix(manager: Any) -> str:
    """The path of a manager's checkpoints, without their number."""
    return str(borrow_attribute(manager, "_prefix"))
