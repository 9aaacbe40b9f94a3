"""Uncork: an automatic performance engineer for TensorFlow/Keras training.

It measures where an unmodified training script spends its time, removes the bottlenecks one by one,
proves for each step what it did to the training, and hands back a plan.

    report = uncork.diagnose(model, data)
    plan = uncork.tune(model, data)
    uncork.fit(model, data, epochs=10, plan=plan)
    faster = uncork.optimize(dataset)
    print(uncork.explain(dataset))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uncork.core.base.version import __version__
from uncork.pycode.frames.dataset_lines import record_lines_if_imported

if TYPE_CHECKING:
    from uncork.api.functions import diagnose, explain, fit, optimize, tune
    from uncork.api.rewrite import rewrite
    from uncork.core.documents.plan import Policy

__all__ = ["Policy", "__version__", "diagnose", "explain", "fit", "optimize", "rewrite", "tune"]


def __getattr__(name: str) -> Any:
    """Load the interface on first use: it needs TensorFlow, the command line must not."""
    if name == "Policy":
        from uncork.core.documents.plan import Policy  # noqa: PLC0415

        return Policy
    if name == "rewrite":
        from uncork.api.rewrite import rewrite  # noqa: PLC0415

        return rewrite
    if name in __all__:
        from uncork.api import functions as api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module 'uncork' has no attribute {name!r}")


# Whoever imports TensorFlow first, as most do, has the lines of all datasets that follow explained.
record_lines_if_imported()
