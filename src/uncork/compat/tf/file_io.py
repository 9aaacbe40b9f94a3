"""The functions behind ``tf.io.gfile``, which hooks replace to see what a script writes.

Borrowed: of the module ``file_io``: ``FileIO._prewrite_check``, and the module of C++ functions.
Why: ``tf.io.gfile`` can be called, not observed; copies of its functions escape a hook on it.
Works with: TensorFlow 2.18.1 and 2.21.0; its test was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when the hook is installed.

Nothing is imported here: hooks are installed before the script imports TensorFlow.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow_attribute

# The method of ``FileIO`` that is called before each write.
BEFORE_WRITE: Final = "_prewrite_check"


def native_functions(file_io: Any) -> Any:
    """The module whose functions delete, rename, copy and create files.

    Args:
        file_io: TensorFlow's module of this name.
    """
    return borrow_attribute(file_io, "_pywrap_file_io")
