"""What an input pipeline says about itself."""

from __future__ import annotations

from uncork.core.record import Record
from uncork.core.stage import Stage


class Explanation(Record, frozen=True, kw_only=True):
    """A pipeline with what its stages cost, nobody consuming it.

    Attributes:
        stages: Its main chain, source first.
        branches: What the first stage reads from where that is several pipelines (``zip``).
        elements_per_s: Of the whole pipeline alone; None where it was not measured by itself.
        cpu_s_per_element: CPU seconds of each, the whole pipeline together; None likewise.
        cpus: Cores it may keep busy.
    """

    stages: tuple[Stage, ...]
    branches: tuple[Explanation, ...] = ()
    elements_per_s: float | None = None
    cpu_s_per_element: float | None = None
    cpus: float = 1.0
