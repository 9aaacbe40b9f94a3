"""One stage of a pipeline while its figures come in."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.functions.draw_split import RandomSplit
from uncork.pipeline.functions.splitting import MapSplit
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import StageLocation
from uncork.pipeline.profile.handoff import IsolatedProbe
from uncork.pipeline.profile.probes import Probe


@dataclass
class VectorizedProbe:
    """A map's function on whole batches, and the batches it takes: the difference is its cost.

    Attributes:
        batch_size: Of a batch.
        input_probe: Batches of what the map is given.
        output_probe: Batches of what it gives.
        unbatched_bytes: Of an element of what stays before the batch; None where nothing does.
        unbatched_ops: Kinds of its last ops.
    """

    batch_size: int
    input_probe: Probe
    output_probe: Probe
    unbatched_bytes: int | None = None
    unbatched_ops: tuple[str, ...] = ()

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for each element; None when nothing was pulled."""
        taken, made = self.input_probe.medians(), self.output_probe.medians()
        if taken is None or made is None:
            return None
        cpu_s, wall_s = (
            max(0.0, b - a) / self.batch_size for a, b in zip(taken, made, strict=True)
        )
        return cpu_s, wall_s


@dataclass
class StageMeasurement:
    """A stage, how it is timed, and what was found.

    Attributes:
        index: In the list of all stages.
        first_index: Lowest index of what it is made from.
        location: Where it stands.
        input_stages: What it reads from.
        dataset: Its serial twin.
        probe: Of the twin, and so of all that it is made from.
        map_split: Of a map that draws after deterministic work, or ends with making elements
            larger.
        prefix_probe: Of the work before.
        random_split: Of a serial map that draws, where its draws end.
        draw_probe: Of its draws.
        vectorized_probe: Of a map that could take whole batches.
        unused_output_maps: On a map, indices of those that make what it ignores.
        needed_probe: Of such a map, without that.
        cropped_probe: Of a map that crops what it decodes, only that part decoded.
        has_upstream_decoder: The map below it decodes; the probe is of both.
        float32_probe: Of a map that computes in float64, in float32.
        reading_probe: Of a map that reads many files, up to where they are read.
        parallel_call_probes: Of a serial map: one call at a time, and one for each core.
        inline_probe: Of a map in the thread that asks.
        isolated_probe: Of a shuffle, a batch or a map, on a few elements in memory.
        isolated_inline_probe: Of a map in the thread that asks, on those.
        input_ratios: Elements taken of each input for one of its own; None where that is not known.
        elements_per_step: Of its elements, how many one training step consumes.
        max_input_elements: Of what goes through one input after the other, elements of a long one.
        bytes_per_element: Of an element.
        prefix_bytes: Of what the work before the cut gives.
        cpu_s: CPU seconds of an element, those of its inputs taken off.
        wall_s: Elapsed seconds likewise.
        prefix_cpu_s: CPU seconds of the work before the cut.
        reading_cpu_s: CPU seconds of an element up to where files are read.
        draw_cpu_s: CPU seconds of its draws.
        needed_cpu_s: CPU seconds of what is looked at further up.
        cropped_cpu_s: CPU seconds with no more decoded than is cropped.
        float32_cpu_s: CPU seconds of an element with float32 in place of float64.
    """

    index: int
    first_index: int
    location: StageLocation
    input_stages: tuple[StageMeasurement, ...]
    dataset: Dataset
    probe: Probe
    map_split: MapSplit | None = None
    prefix_probe: Probe | None = None
    random_split: RandomSplit | None = None
    draw_probe: Probe | None = None
    vectorized_probe: VectorizedProbe | None = None
    unused_output_maps: tuple[int, ...] = ()
    needed_probe: Probe | None = None
    cropped_probe: Probe | None = None
    has_upstream_decoder: bool = False
    float32_probe: Probe | None = None
    reading_probe: Probe | None = None
    parallel_call_probes: tuple[Probe, Probe] | None = None
    inline_probe: Probe | None = None
    isolated_probe: IsolatedProbe | None = None
    isolated_inline_probe: Probe | None = None
    # A cache in memory was read to its end.
    is_filled: bool = False
    input_ratios: tuple[float | None, ...] = ()
    elements_per_step: float | None = None
    max_input_elements: int | None = None
    bytes_per_element: int | None = None
    prefix_bytes: int | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    prefix_cpu_s: float | None = None
    draw_cpu_s: float | None = None
    needed_cpu_s: float | None = None
    cropped_cpu_s: float | None = None
    float32_cpu_s: float | None = None
    reading_cpu_s: float | None = None

    @property
    def node(self) -> Node:
        """What stands there in the user's pipeline."""
        return self.location.node

    @property
    def chain_start(self) -> int:
        """Index of the first stage of the chain that it is part of."""
        return self.index - self.location.position

    @property
    def is_finite_cache(self) -> bool:
        """A cache or snapshot, written after one epoch; of endless data none is read again."""
        endless = int(self.node.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
        return self.node.kind in ("cache", "snapshot") and not endless

    @property
    def is_full_cache(self) -> bool:
        """A cache that was filled, so that nothing below it runs when it is read."""
        return self.is_finite_cache and (self.is_filled or self.node.is_complete_file_cache)

    @property
    def cpu_s_per_step(self) -> float:
        """CPU seconds that it costs a training step, as far as that is known."""
        return (self.cpu_s or 0.0) * (self.elements_per_step or 0.0)

    @property
    def isolated_probes(self) -> tuple[Probe, ...]:
        """What is to be timed of elements in memory."""
        if self.isolated_probe is None:
            return ()
        inline = (self.isolated_inline_probe,) if self.isolated_inline_probe else ()
        return self.isolated_probe.input_probe, self.isolated_probe.output_probe, *inline

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All else that is to be timed."""
        at_once = (
            (self.vectorized_probe.input_probe, self.vectorized_probe.output_probe)
            if self.vectorized_probe
            else ()
        )
        every = (
            self.probe, self.prefix_probe, self.draw_probe, self.float32_probe, self.reading_probe,
            self.inline_probe, self.needed_probe, self.cropped_probe, *at_once,
            *(self.parallel_call_probes or ()),
        )  # fmt: skip
        return tuple(probe for probe in every if probe is not None)
