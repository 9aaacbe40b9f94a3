"""One stage of a pipeline while its figures come in."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.functions.draw_split import Drawn
from uncork.pipeline.functions.splitting import Split
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Place
from uncork.pipeline.profile.handoff import Handed
from uncork.pipeline.profile.probes import Probe


@dataclass
class AtOnce:
    """A map's function on whole batches, and the batches it takes: the difference is its cost.

    Attributes:
        size: Of a batch.
        taken: Batches of what the map is given.
        made: Batches of what it gives.
        first_bytes: Of an element of what stays before the batch; None where nothing does.
        behind: Kinds of its last ops.
    """

    size: int
    taken: Probe
    made: Probe
    first_bytes: int | None = None
    behind: tuple[str, ...] = ()

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for each element; None when nothing was pulled."""
        taken, made = self.taken.medians(), self.made.medians()
        if taken is None or made is None:
            return None
        cpu_s, wall_s = (max(0.0, b - a) / self.size for a, b in zip(taken, made, strict=True))
        return cpu_s, wall_s


@dataclass
class Measured:
    """A stage, how it is timed, and what was found.

    Attributes:
        index: In the list of all stages.
        first: Lowest index of what it is made from.
        place: Where it stands.
        below: What it reads from.
        dataset: Its serial twin.
        probe: Of the twin, and so of all that it is made from.
        cut: Of a map that draws after deterministic work, or ends with making elements larger.
        prefix_probe: Of the work before.
        drawn: Of a serial map that draws, where its draws end.
        draw_probe: Of its draws.
        at_once: Of a map that could take whole batches.
        ignores: On a map, indices of those that make what it ignores.
        needed_probe: Of such a map, without that.
        cropped_probe: Of a map that crops what it decodes, only that part decoded.
        crops_below: The map below it decodes; the probe is of both.
        single_probe: Of a map that computes in float64, in float32.
        reading_probe: Of a map that reads many files, up to where they are read.
        calls: Of a serial map: one call at a time, and one for each core.
        inline_probe: Of a map in the thread that asks.
        handed: Of a shuffle, a batch or a map, on a few elements in memory.
        inline_alone: Of a map in the thread that asks, on those.
        inputs: Elements taken of each input for one of its own; None where that is not known.
        per_step: Of its elements, how many one training step consumes.
        of_one: Of what goes through one input after the other, elements of a long one.
        bytes: Of an element.
        prefix_bytes: Of what the work before the cut gives.
        cpu_s: CPU seconds of an element, those of its inputs taken off.
        wall_s: Elapsed seconds likewise.
        prefix_cpu_s: CPU seconds of the work before the cut.
        reading_cpu_s: CPU seconds of an element up to where files are read.
        draw_cpu_s: CPU seconds of its draws.
        needed_cpu_s: CPU seconds of what is looked at further up.
        cropped_cpu_s: CPU seconds with no more decoded than is cropped.
        single_cpu_s: CPU seconds of an element with float32 in place of float64.
    """

    index: int
    first: int
    place: Place
    below: tuple[Measured, ...]
    dataset: Dataset
    probe: Probe
    cut: Split | None = None
    prefix_probe: Probe | None = None
    drawn: Drawn | None = None
    draw_probe: Probe | None = None
    at_once: AtOnce | None = None
    ignores: tuple[int, ...] = ()
    needed_probe: Probe | None = None
    cropped_probe: Probe | None = None
    crops_below: bool = False
    single_probe: Probe | None = None
    reading_probe: Probe | None = None
    calls: tuple[Probe, Probe] | None = None
    inline_probe: Probe | None = None
    handed: Handed | None = None
    inline_alone: Probe | None = None
    # A cache in memory was read to its end.
    filled: bool = False
    inputs: tuple[float | None, ...] = ()
    per_step: float | None = None
    of_one: int | None = None
    bytes: int | None = None
    prefix_bytes: int | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    prefix_cpu_s: float | None = None
    draw_cpu_s: float | None = None
    needed_cpu_s: float | None = None
    cropped_cpu_s: float | None = None
    single_cpu_s: float | None = None
    reading_cpu_s: float | None = None

    @property
    def node(self) -> Node:
        """What stands there in the user's pipeline."""
        return self.place.node

    @property
    def lowest(self) -> int:
        """Index of the first stage of the chain that it is part of."""
        return self.index - self.place.position

    @property
    def spares(self) -> bool:
        """A cache or snapshot, written after one epoch; of endless data none is read again."""
        endless = int(self.node.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
        return self.node.kind in ("cache", "snapshot") and not endless

    @property
    def full(self) -> bool:
        """A cache that was filled, so that nothing below it runs when it is read."""
        return self.spares and (self.filled or self.node.in_complete_files)

    @property
    def cpu_s_per_step(self) -> float:
        """CPU seconds that it costs a training step, as far as that is known."""
        return (self.cpu_s or 0.0) * (self.per_step or 0.0)

    @property
    def quick_probes(self) -> tuple[Probe, ...]:
        """What is to be timed of elements in memory."""
        if self.handed is None:
            return ()
        inline = (self.inline_alone,) if self.inline_alone else ()
        return self.handed.given, self.handed.handed_on, *inline

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All else that is to be timed."""
        at_once = (self.at_once.taken, self.at_once.made) if self.at_once else ()
        every = (
            self.probe, self.prefix_probe, self.draw_probe, self.single_probe, self.reading_probe,
            self.inline_probe, self.needed_probe, self.cropped_probe, *at_once, *(self.calls or ()),
        )  # fmt: skip
        return tuple(probe for probe in every if probe is not None)
