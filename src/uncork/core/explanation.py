"""What an input pipeline says about itself."""

from __future__ import annotations

from uncork.core.record import Record
from uncork.core.stage import Stage


class Explanation(Record, frozen=True, kw_only=True):
    """A pipeline with what its stages cost, nobody consuming it.

    Attributes:
        stages: Source first; those of a branch before the one that joins it with others.
        elements_per_s: Of the whole pipeline alone.
        cpu_s_per_element: CPU seconds of each, the whole pipeline together.
        cpus: Cores it may keep busy.
    """

    stages: tuple[Stage, ...]
    elements_per_s: float
    cpu_s_per_element: float
    cpus: float
