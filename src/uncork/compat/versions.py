"""Starting children: which interpreter, which files between us, which exit code."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from importlib import metadata
from typing import Final

from uncork.core.base.errors import MissingTensorFlow, WrongUse

# Before Keras 3.7 ``fit`` ran its steps in another way. Of the packages that hold TensorFlow one is
# installed, or another build of it, which is not judged.
_OLDEST: Final = {
    "tensorflow": (2, 18),
    "tensorflow-cpu": (2, 18),
    "tensorflow-macos": (2, 18),
    "keras": (3, 7),
}
SUPPORTED: Final = "TensorFlow 2.18 to 2.21 with Keras 3.7 or later"


def require_tensorflow() -> None:
    """Fail early and clearly where no TensorFlow is installed, or one that is too old.

    Raises:
        MissingTensorFlow: With the two commands that install one.
        WrongUse: It, or Keras, is of an older release than Uncork knows.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise MissingTensorFlow(
            f"no TensorFlow in this environment ({sys.prefix})",
            SUPPORTED,
            "pip install 'uncork[cpu]', or 'uncork[cuda]' for an NVIDIA GPU",
        )
    for package, oldest in _OLDEST.items():
        with suppress(metadata.PackageNotFoundError):
            found = metadata.version(package)
            if tuple(map(int, found.split(".")[:2])) < oldest:
                raise WrongUse(
                    f"{package} {found} in this environment ({sys.prefix})",
                    SUPPORTED,
                    f"pip install --upgrade {package}",
                )
