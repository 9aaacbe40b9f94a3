"""How long a training step must take, from what its parts cost: a closed form, no solver.

One step cannot be shorter than the consumer alone, than all CPU work spread over all cores, or
than the work of the busiest thread. Stages between two asynchronous borders (a parallel map, a
prefetch) run in one thread, one after the other, so their times add up.

The model follows Plumber (Kuchnik et al., MLSys 2022), whose linear program has this solution when
no stage is capped, with serial stages grouped by the thread that runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from uncork.core.base.record import Record, replace
from uncork.core.costmodel import stage_cost as stage_costs
from uncork.core.evidence.stage import AUTOTUNE, Stage
from uncork.core.evidence.stage_graph import find_cropping_maps, subtree_indices
from uncork.core.evidence.storage import ElementIoCost

_ASYNCHRONOUS = ("prefetch",)
# Of all CPU time, what cores lose while input and training share them, since threads wait for one
# another: 16 trainings that had enough to do for two kept 0.94 of them busy (0.87 to 0.98).
_LOST = 0.06


class StepCosts(Record, frozen=True, kw_only=True):
    """What one training step costs.

    Attributes:
        consumer_s: Elapsed seconds of the step on a resident batch.
        consumer_cpu_s: CPU seconds of the same.
        stages: The input pipeline, source first.
        cpus: Cores this process may keep busy.
        busy_core_speed_ratio: Speed of a core while all are busy, over that of one alone.
        measured_step_s: Elapsed seconds of a step as it is; infinite where that was not measured.
        input_overhead: CPU time that the input costs in the training beyond that of its stages one
            by one, as a share of theirs: handing over, caches of the processor, ops spread over
            threads. It goes where they go.
        unattributed_cpu_s: CPU seconds that neither the consumer nor the input accounts for.
    """

    consumer_s: float
    consumer_cpu_s: float
    stages: tuple[Stage, ...]
    cpus: float
    busy_core_speed_ratio: float = 1.0
    measured_step_s: float = math.inf
    input_overhead: float = 0.0
    unattributed_cpu_s: float = 0.0

    def step_s(self) -> float:
        """Seconds a step takes at least.

        The consumer alone has all the cores that it uses, and was timed so. Where the input works
        beside it, or beside itself, each core is slower.

        Example:
            >>> StepCosts(consumer_s=0.01, consumer_cpu_s=0.02, stages=(), cpus=2).step_s()
            0.01
        """
        least_s = max(self.consumer_s, self.serial_s(), self._shared_s())
        return least_s * self._slowdown(least_s)

    def _shared_s(self) -> float:
        """Of a step whose work were spread over all cores as well as TensorFlow spreads it."""
        input_s = self.cpu_s() - self.consumer_cpu_s
        lost_s = min(input_s, _LOST * self.cpu_s()) if self.cpus > 1 else 0.0
        return (self.cpu_s() + lost_s) / self.cpus

    def _slowdown(self, step_s: float) -> float:
        """Of a step that would take so long were its cores no slower for being busy at once."""
        alone = self.consumer_cpu_s / self.consumer_s if self.consumer_s else 0.0
        alone = max(1.0, alone)  # cores that were busy while things were timed by themselves
        if step_s <= 0 or alone >= self.cpus:
            return 1.0
        crowded = (self.cpu_s() / step_s - alone) / (self.cpus - alone)
        return 1.0 + min(1.0, max(0.0, crowded)) * (1.0 / self.busy_core_speed_ratio - 1.0)

    def serial_s(self) -> float:
        """Elapsed seconds a step costs the busiest thread that takes one element at a time."""
        return max(self._threads(), default=0.0)

    def cpu_s(self) -> float:
        """CPU seconds of a step, input and training together."""
        return (
            self.consumer_cpu_s
            + self.unattributed_cpu_s
            + (1.0 + self.input_overhead) * self.stages_cpu_s()
        )

    def stages_cpu_s(self) -> float:
        """CPU seconds of a step that its stages cost one by one."""
        return sum(s.cpu_s_per_step or 0.0 for s in self.stages)

    def without_stages(self, stages: Iterable[int]) -> StepCosts:
        """The same with some stages free of cost: what caching their result would leave."""
        gone = set(stages)
        return self._with(lambda s: stage_costs.as_free(s) if s.index in gone else s)

    def with_upstream_share(self, stage: int, share: float) -> StepCosts:
        """The same with everything below a stage done for this share of its elements only."""
        return self.with_stages_share(range(self._at(stage).first_index, stage), share)

    def with_stages_share(self, stages: Iterable[int], share: float) -> StepCosts:
        """The same with some stages done for this share of their elements only."""
        chosen = set(stages)
        return self._with(lambda s: stage_costs.scale_stage(s, share) if s.index in chosen else s)

    def without_repeated_work(self, stage: int) -> StepCosts:
        """The same with what one stage's branches share made once."""
        repeated = self._at(stage).repeated_work
        return self.without_stages(repeated.duplicate_stages) if repeated else self

    def with_parallel_stage(self, stage: int) -> StepCosts:
        """The same with one stage run on as many elements at once as it has readers, or cores.

        What TensorFlow loses by spreading a lone call's ops is spared, as far as the training was
        seen to lose something.
        """
        spread_s = sum(stage_costs.multithreading_cpu_s(s) for s in self.stages if s.index == stage)
        shared = self._with(lambda s: stage_costs.as_parallel(s) if s.index == stage else s)
        return shared.without_unattributed_cpu(spread_s)

    def with_loader_threads(self, stage: int) -> StepCosts:
        """The same with the batches of a Python loader made by several threads."""
        return self._with(lambda s: stage_costs.as_threaded(s) if s.index == stage else s)

    def with_loader_processes(self, stage: int) -> StepCosts:
        """The same with the batches of a Python loader made by several processes."""
        return self._with(lambda s: stage_costs.as_multiprocess(s) if s.index == stage else s)

    def with_memoized_stage(self, stage: int) -> StepCosts:
        """The same with what a stage's Python code makes in memory, from the second epoch on."""
        return self._with(lambda s: stage_costs.as_memoized(s) if s.index == stage else s)

    def with_chunked_stage(self, stage: int) -> StepCosts:
        """The same with the elements of a generator handed over several at once."""
        return self._with(lambda s: stage_costs.as_chunked(s) if s.index == stage else s)

    def with_float32_stage(self, stage: int) -> StepCosts:
        """The same with a map that computes in float32 instead of float64."""
        return self._with(lambda s: stage_costs.as_float32(s) if s.index == stage else s)

    def without_unused_outputs(self, stages: Iterable[int]) -> StepCosts:
        """The same with some maps that make only what is looked at further up."""
        chosen = set(stages)
        return self._with(
            lambda s: stage_costs.without_unused_outputs(s) if s.index in chosen else s
        )

    def with_partial_decode(self, stage: int) -> StepCosts:
        """The same with a map that decodes no more of its images than it crops.

        Where the map below decodes them, both are one then, as parallel as the upper one is.
        """
        *lower, upper = find_cropping_maps(self.stages, stage)
        part_s = upper.cropped_cpu_s_per_element
        cpu_s = sum(s.cpu_s_per_element or 0.0 for s in (*lower, upper))
        if part_s is None or not cpu_s:
            return self
        wall_s = sum(s.wall_s_per_element or 0.0 for s in (*lower, upper))
        both = replace(upper, cpu_s_per_element=cpu_s, wall_s_per_element=wall_s)
        part = stage_costs.scale_stage(both, min(1.0, part_s / cpu_s))
        joined = self.without_stages([s.index for s in lower])
        return joined._with(lambda s: part if s.index == stage else s)

    def without_unattributed_cpu(self, cpu_s: float) -> StepCosts:
        """The same without so much CPU time that neither a stage nor the consumer accounts for."""
        nobodys_s, input_s = min(cpu_s, self.unattributed_cpu_s), self.stages_cpu_s()
        over = min(self.input_overhead, (cpu_s - nobodys_s) / input_s) if input_s else 0.0
        return replace(
            self,
            unattributed_cpu_s=self.unattributed_cpu_s - nobodys_s,
            input_overhead=self.input_overhead - over,
        )

    def with_faster_consumer(self, wall_s: float, cpu_s: float) -> StepCosts:
        """The same with a step that takes so much less time on a resident batch."""
        return replace(
            self,
            consumer_s=max(0.0, self.consumer_s - wall_s),
            consumer_cpu_s=max(0.0, self.consumer_cpu_s - cpu_s),
        )

    def with_vectorized_stages(self, stages: Iterable[int]) -> StepCosts:
        """The same with some maps called once for a whole batch."""
        chosen = set(stages)
        return self._with(lambda s: stage_costs.as_vectorized(s) if s.index in chosen else s)

    def with_inlined_stages(self, stages: Iterable[int]) -> StepCosts:
        """The same with some maps run in the threads that ask for their elements."""
        chosen = set(stages)
        return self._with(lambda s: stage_costs.as_inlined(s) if s.index in chosen else s)

    def shuffle_refill_step_s(self, stage: int) -> float:
        """Seconds a step takes when a shuffle's buffer must be filled first, in every pass.

        Nothing is trained meanwhile; the work of the stages below overlaps with the training only
        for the elements that come after. Filling is no work of the consumer's: give what nobody
        accounts for to :meth:`without_unattributed_cpu` before.
        """
        shuffle = self._at(stage)
        if shuffle.shuffle_buffer is None or not shuffle.elements_per_step:
            return self.step_s()
        share = shuffle.shuffle_buffer.element_count / shuffle.shuffle_buffer.elements_per_pass
        # A pass that is left early made more than it gave: nothing overlaps then.
        below = range(shuffle.first_index, stage)
        others = [s.index for s in self.stages if s.index not in below]
        filling = self.without_stages(others)
        filling = replace(filling, consumer_s=0.0, consumer_cpu_s=0.0, unattributed_cpu_s=0.0)
        return (
            share * filling.step_s()
            + self.with_upstream_share(stage, max(0.0, 1.0 - share)).step_s()
        )

    def with_split_stage(self, stage: int) -> StepCosts:
        """The same with the deterministic prefix of one map run in parallel, its rest serially."""
        return self._with_split(stage, cached=False)

    def with_random_part_first(self, stage: int) -> StepCosts:
        """The same with the draws of one map made serially, and its work in parallel."""
        stages: list[Stage] = []
        spread_s = 0.0
        for each in self.stages:
            if each.index != stage or each.random_part is None or not each.cpu_s_per_element:
                stages.append(each)
                continue
            share = min(1.0, each.random_part.cpu_s_per_element / each.cpu_s_per_element)
            work = stage_costs.as_parallel(replace(each, is_random=False))
            stages += [
                stage_costs.scale_stage(each, share),
                stage_costs.scale_stage(work, 1.0 - share),
            ]
            spread_s = stage_costs.multithreading_cpu_s(each)
        return replace(self, stages=tuple(stages)).without_unattributed_cpu(spread_s)

    def with_cached_stage(self, stage: Stage) -> StepCosts:
        """The same with all up to a stage, or up to its prefix where it has one, in memory.

        Args:
            stage: One of the stages, or a form of it
            (:func:`uncork.core.costmodel.cache_candidates.cacheable_forms`).
        """
        if stage.deterministic_prefix is None:
            return self.without_stages(subtree_indices(stage))
        prefix, index = stage.deterministic_prefix, stage.index
        cut = self._with(
            lambda s: replace(s, deterministic_prefix=prefix) if s.index == index else s
        )
        return cut._with_split(index, cached=True)

    def with_disk_cached_stage(self, stage: Stage, read_cost: ElementIoCost) -> StepCosts:
        """The same with all of that in files: read by the one thread that asks for the elements.

        Args:
            stage: As of :meth:`with_cached_stage`.
            read_cost: How fast files are read.
        """
        kept, point = self.with_cached_stage(stage), stage.cache_point
        if point is None or not point.element_count:
            return kept
        size = point.value_bytes / point.element_count
        at = next(i for i, s in enumerate(kept.stages) if s.index == stage.index)
        reading = stage_costs.as_read_from_disk(kept.stages[at], read_cost, size)
        return replace(kept, stages=(*kept.stages[:at], reading, *kept.stages[at + 1 :]))

    def _with_split(self, index: int, *, cached: bool) -> StepCosts:
        stages: list[Stage] = []
        below = range(self._at(index).first_index, index)
        for stage in self.stages:
            if stage.index != index or stage.deterministic_prefix is None:
                stages.append(
                    stage_costs.as_free(stage) if cached and stage.index in below else stage
                )
                continue
            cpu = min(stage.deterministic_prefix.cpu_s_per_element, stage.cpu_s_per_element or 0.0)
            share = cpu / stage.cpu_s_per_element if stage.cpu_s_per_element else 0.0
            prefix = stage_costs.scale_stage(
                replace(stage, parallelism=AUTOTUNE, is_random=False), share
            )
            stages += [
                stage_costs.as_free(prefix) if cached else prefix,
                stage_costs.scale_stage(stage, 1.0 - share),
            ]
        return replace(self, stages=tuple(stages))

    def _at(self, index: int) -> Stage:
        return next(stage for stage in self.stages if stage.index == index)

    def _with(self, change: Callable[[Stage], Stage]) -> StepCosts:
        return replace(self, stages=tuple(change(s) for s in self.stages))

    def _threads(self) -> list[float]:
        """Elapsed seconds a step costs each thread that runs serial stages."""
        threads: list[float] = []
        # Of each branch that nothing above has been found for yet: where it starts, and what its
        # last thread takes. Branches that are joined are read by one thread.
        tops: list[tuple[int, float]] = []
        for stage in self.stages:
            thread_s = 0.0
            while tops and tops[-1][0] >= stage.first_index:
                thread_s += tops.pop()[1]
            wall_s = (stage.wall_s_per_element or 0.0) * (stage.elements_per_step or 0.0)
            if stage.parallelism in (None, 1):
                thread_s += wall_s
            else:  # its own work is shared out; what follows is another thread
                threads.append(thread_s)
                if stage.parallelism != AUTOTUNE:
                    threads.append(wall_s / min(stage.parallelism or 1, self.cpus))
                threads.append(stage_costs.threaded_python_s(stage))
                thread_s = 0.0
            if stage.kind in _ASYNCHRONOUS:
                threads.append(thread_s)
                thread_s = 0.0
            tops.append((stage.first_index, thread_s))
        return threads + [thread_s for _, thread_s in tops]


def predict_gain(before: StepCosts, after: StepCosts) -> float:
    """Predicted speed-up, never below 1: a model that predicts a loss predicts no gain.

    What costs a lone thread so much may cost less in the training, whose idle cores help. So no
    more is promised than what was measured would leave.
    """
    as_it_is = min(before.step_s(), before.measured_step_s)
    return max(1.0, as_it_is / after.step_s()) if after.step_s() > 0 else 1.0


# Elements go in that do not come out.
_DROPPING: Final = frozenset({"filter", "shard", "skip"})


def pass_rate(upstream: Stage, stage: Stage) -> float | None:
    """Share of elements that are not dropped; None where none are, or it is not known."""
    if stage.kind not in _DROPPING or not upstream.elements_per_step or not stage.elements_per_step:
        return None
    kept = stage.elements_per_step / upstream.elements_per_step
    return kept if kept < 1 else None
