"""The loss of a step that returns none, and keeps its mean in a metric of Keras's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# Ends of the names of a mean's two variables.
_TOTAL: Final = "/total:0"
_COUNT: Final = "/count:0"


class MetricLoss:
    """What a mean has been given since it was last asked for.

    As TensorFlow's introductions have it: ``train_loss(loss)`` at the end of a step that returns
    nothing. Only a metric whose name says that it is a loss is taken for one.

    Args:
        total: The sum of what it was given.
        count: How often.

    Example:
        >>> import keras
        >>> metric = keras.metrics.Mean(name="train_loss")
        >>> loss = MetricLoss.among(variable.value for variable in metric.variables)
        >>> metric.update_state(3.0); metric.update_state(5.0)
        >>> loss.since(), loss.since()
        (4.0, None)
    """

    def __init__(self, total: Any, count: Any) -> None:
        self._total = total
        self._count = count
        self._before = self._now()

    @classmethod
    def among(cls, variables: Iterable[Any]) -> MetricLoss | None:
        """Of these variables; None where there is not exactly one mean of a loss."""
        named: dict[str, list[Any]] = {}
        for variable in variables:
            if variable.shape == ():
                named.setdefault(variable.name, []).append(variable)
        found = [
            (total, count)
            for name, totals in named.items()
            if name.endswith(_TOTAL) and "loss" in name.lower()
            for total in totals
            for count in named.get(name.removesuffix(_TOTAL) + _COUNT, ())
        ]
        return cls(*found[0]) if len(found) == 1 else None

    def since(self) -> float | None:
        """The mean since the last time, or since the step set it to 0; None of nothing."""
        before, now = self._before, self._now()
        self._before = now
        if now[1] <= before[1] and now != before:
            before = (0.0, 0.0)
        given = now[1] - before[1]
        return (now[0] - before[0]) / given if given > 0 else None

    def _now(self) -> tuple[float, float]:
        return float(self._total), float(self._count)
