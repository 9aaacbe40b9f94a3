"""Whether TensorFlow's profiler records Python events.

Borrowed: ``profiler.trace.enabled``.
Why: the public profiler can be started and stopped, but does not tell whether somebody did.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.profiler.trace"

# Read ``trace.enabled`` anew each time: releases in which it is a flag replace it.
trace: Final[Any] = borrow(_MODULE)
borrow(_MODULE, "enabled")
