"""Uncork: an automatic performance engineer for TensorFlow/Keras training.

It measures where an unmodified training script spends its time, takes the brakes off one by one,
proves for each step what it did to the training, and hands back a plan.

    report = uncork.diagnose(model, data)
    plan = uncork.tune(model, data)
    uncork.fit(model, data, epochs=10, plan=plan)
    faster = uncork.optimize(dataset)
    print(uncork.explain(dataset))
"""

from typing import TYPE_CHECKING, Any

from uncork.core.made_at import remember_lines_if_there

if TYPE_CHECKING:
    from uncork.engine.api import diagnose, explain, fit, optimize, tune

__version__ = "0.1.0"

__all__ = ["__version__", "diagnose", "explain", "fit", "optimize", "tune"]


def __getattr__(name: str) -> Any:
    """Load the interface on first use: it needs TensorFlow, the command line must not."""
    if name in __all__:
        from uncork.engine import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module 'uncork' has no attribute {name!r}")


# Whoever imports TensorFlow first, as most do, has the lines of all datasets that follow explained.
remember_lines_if_there()
