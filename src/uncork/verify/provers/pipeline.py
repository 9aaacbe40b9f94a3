"""Runs the passes that the proofs of pipeline edits compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Edit, Guarantee, find_loosest_guarantee
from uncork.core.edits.pipeline import (
    Cache,
    DiskCache,
    GeneratorCache,
    ParallelMap,
    PyFunctionCache,
    ReadAhead,
    VectorizeMap,
)
from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.pipeline.equivalence.closeness import compare_closeness
from uncork.pipeline.equivalence.digests import ElementDigests, element_digests
from uncork.pipeline.equivalence.parallel_passes import are_independent, read_both
from uncork.pipeline.equivalence.samples import has_random_functions, sample_digests
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.element_order import has_nondeterministic_order, with_deterministic_order
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_memoized_python
from uncork.pipeline.ir.tree import Pipeline, StageLocation
from uncork.pipeline.profile.element_ratios import DROPPING_KINDS, static_ratio
from uncork.pipeline.profile.probes import count_elements
from uncork.pipeline.profile.throughput import measure_supply
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.runtime.subset import take_every_nth
from uncork.pipeline.transforms.apply import apply_edit
from uncork.training.variant import Variant
from uncork.verify.criteria.elements import (
    MIN_ELEMENTS,
    TOO_FEW_COMPARED,
    frozen_randomness_reason,
    prove_elements,
    prove_elements_close,
)

_SEED = 20261
_OPEN = "in order, although the script allows any (deterministic=False)"
_PART = "for one element in {parts}: a pass over all takes too long"
# Seconds to see how long a pass takes; and what taking digests of it takes, over that.
_LOOK_S = 2.0
_DIGESTED = 1.6
# How much slower the first pass of a rewritten one may be, where the original's time did not do.
_SLOWER = 8
# Batches of one pass that are compared when nothing needs a whole one.
_SOME = 64
_MANY = 1_000_000
_A_WHILE_S = 10.0
# Of the real pipelines a part is read where a pass takes longer, and so many samples are left: they
# tell whether the randomness is alive.
_LIVING_PASS_S = 1.0
_TELLING_SAMPLES = 256
# Draws after which a frozen augmentation cannot be taken for chance.
_DRAWS_TO_TELL = 64


@dataclass(frozen=True)
class _Extent:
    """How much is compared.

    Attributes:
        epochs: Passes.
        most: Batches of each.
        least: Batches of each, or the comparison does not count.
        whole: Passes must be complete.
    """

    epochs: int
    most: int
    least: int
    whole: bool


def _extent(edits: Sequence[Edit], edited: Pipeline, seconds: float) -> _Extent:
    """As little as shows what these edits could do wrong.

    What runs ahead of a pass that is left early may have begun to repeat its source, or not, as
    time would have it, and the next pass draws accordingly. So there is one long pass then.
    """
    kinds = Cache | DiskCache | PyFunctionCache | GeneratorCache
    caches = any(isinstance(edit, kinds) for edit in edits)
    # What works on stacks may differ in rare elements only: as many as a while allows.
    stacks = any(isinstance(edit, VectorizeMap) for edit in edits)
    endless = edited.cardinality == INFINITE_LENGTH
    if caches and endless:
        # What a cache holds shows only when it is read again.
        needed = 2 * _batches_of_caches(edited, seconds)
        return _Extent(1, max(2 * _SOME, needed), max(MIN_ELEMENTS, needed), whole=False)
    if caches:
        return _Extent(2, _MANY, MIN_ELEMENTS, whole=True)
    ahead = [edit for edit in edits if isinstance(edit, ReadAhead)]
    # What is read by several threads shows where one input ends and the next one begins.
    inputs = max((_batches_of_inputs(edited, edit) for edit in ahead), default=(0, 0))
    most = _MANY if stacks else max(_SOME, inputs[1])
    least = max(MIN_ELEMENTS, inputs[0])
    repeated = any(place.node.kind == "repeat" for place in edited.stage_locations)
    if endless or (repeated and not 0 <= edited.cardinality <= most):
        return _Extent(1, 2 * most, least, whole=False)
    return _Extent(2, most, least, whole=False)


def _batches_of_inputs(pipeline: Pipeline, edit: ReadAhead) -> tuple[int, int]:
    """Elements of the whole that take a first input and some of a second, and all readers' twice.

    As far as the place of the edit is still where it was.
    """
    place = pipeline.stage_locations[min(edit.stage, len(pipeline.stage_locations) - 1)]
    first, more = (_of_whole(place, n * edit.elements_per_reader) for n in (1, 2 * edit.readers))
    return min(first + 1, _MANY), min(more, _MANY)


def _batches_of_caches(pipeline: Pipeline, seconds: float) -> int:
    """Elements of the whole for which every cache is read once, the user's in files left out.

    More than anybody compares where that cannot be told.
    """
    return max((_batches_of(place, seconds) for place in pipeline.stage_locations), default=0)


def _batches_of(place: StageLocation, seconds: float) -> int:
    node = place.node
    if not (node.is_memory_cache or node.uncork_cache_files or has_memoized_python(node)):
        return 0
    elements: float | None = int(place.node.dataset.cardinality())
    if elements == tf.data.UNKNOWN_CARDINALITY:
        counted = place.node.inputs[0] if place.node.inputs else place.node
        elements = count_elements(counted.dataset, budget_s=seconds)
    return _MANY if elements is None else _of_whole(place, elements)


def _of_whole(place: StageLocation, count: float) -> int:
    """Elements of the whole pipeline for so many of one of its stages."""
    branch, position = place
    above, elements = branch.stages[position + 1 :], float(count)
    while True:
        for node in above:
            ratio = static_ratio(node)
            if ratio is None and node.kind not in DROPPING_KINDS:
                return _MANY  # one element may become many
            elements /= ratio or 1.0
        if branch.parent is None:
            return math.ceil(elements)
        joint, above = branch.parent.stages[0], branch.parent.stages[1:]
        share = _share(joint, branch.root)
        if not share:
            return _MANY
        elements /= share
        branch = branch.parent


def _share(joint: Node, branch: Node) -> float | None:
    """Of what a join gives, the part that comes from one of its branches."""
    if joint.kind == "zip":
        return 1.0
    lengths = [int(i.dataset.cardinality()) for i in joint.inputs]
    if joint.kind != "concatenate" or min(lengths) < 0 or not sum(lengths):
        return None
    return int(branch.dataset.cardinality()) / sum(lengths)


def _digests(twin: Pipeline, extent: _Extent, seconds: float) -> ElementDigests:
    return element_digests(
        with_deterministic_order(twin),
        epochs=extent.epochs,
        max_elements=extent.most,
        max_s=seconds,
    )


def _samples(pipeline: Pipeline, epochs: int, seconds: float) -> list[list[str]]:
    return sample_digests(with_deterministic_order(pipeline), epochs=epochs, max_s=seconds)


def _part(pipeline: Pipeline, parts: int) -> Pipeline:
    """The pipeline over a part of its data, where that can be cut."""
    return pipeline if parts == 1 else take_every_nth(pipeline, parts) or pipeline


def _is_enough(cut: Pipeline | None) -> bool:
    return cut is not None and cut.cardinality >= MIN_ELEMENTS


class PipelineProver:
    """Compares rewritten pipelines with the user's; what the user's gave is kept.

    Args:
        original: None where there is no tf.data pipeline: then there is nothing to prove.
        batch_size: Samples in one of its elements, where that is known.
    """

    def __init__(self, original: Pipeline | None, batch_size: int | None = None) -> None:
        self._original = original
        self._batch_size = batch_size or 1
        self._passes: dict[tuple[_Extent, float, int], ElementDigests] = {}
        self._samples: dict[int, list[list[str]]] = {}
        self._pass_s: float | None = None
        # Edits that were seen to round otherwise, and to do nothing else.
        self._rounding: set[Edit] = set()

    def prove(self, candidate: Variant, guarantee: Guarantee, budget_s: float) -> Proof:
        """Put a rewritten pipeline to the test, against the original and not the step before."""
        assert self._original is not None
        assert candidate.pipeline is not None
        edited = self._edited_twin(candidate)
        mismatch = self._mismatch(candidate.pipeline, edited)
        if mismatch:
            return Proof(kind=guarantee, passed=False, detail=mismatch)
        seconds = budget_s / 3
        extent = _extent(candidate.pipeline_edits, edited, seconds)
        if extent.most >= _MANY and not extent.whole:
            seconds = min(seconds, _A_WHILE_S)
        for number, parts in enumerate(self._parts(edited, seconds) if extent.whole else [1]):
            proof = self._compared(candidate, guarantee, extent, seconds / (1 + number), parts)
            if TOO_FEW_COMPARED not in proof.detail:
                break
        if has_nondeterministic_order(self._original):
            kind, detail = (
                find_loosest_guarantee(guarantee, "resampled"),
                f"{proof.detail}; {_OPEN}",
            )
            proof = replace(proof, kind=kind, detail=detail if proof.passed else proof.detail)
        if proof.passed and parts > 1:
            proof = replace(proof, detail=f"{proof.detail}; {_PART.format(parts=parts)}")
        if not proof.passed or not has_random_functions(self._original):
            return proof
        frozen = self._frozen(candidate.pipeline, seconds=budget_s / 3, parts=parts)
        return replace(proof, passed=False, detail=frozen) if frozen else proof

    def _compared(
        self,
        candidate: Variant,
        guarantee: Guarantee,
        extent: _Extent,
        seconds: float,
        parts: int,
    ) -> Proof:
        edited = self._edited_twin(candidate)
        if any(isinstance(edit, ParallelMap) for edit in candidate.pipeline_edits):
            # Some step gave the draws to whichever call comes first. Seeding a twin again leaves
            # its seeds and makes those calls serial: equal draws meet equal elements.
            edited = create_seeded_copy(edited, _SEED)
        edited = _part(edited, parts)
        stacks = {edit for edit in candidate.pipeline_edits if isinstance(edit, VectorizeMap)}
        if guarantee == "rounding":
            proof = self._close(edited, extent, seconds, parts)
            if proof.passed:
                self._rounding |= stacks
            return proof
        original, found = self._both_passes(edited, extent, seconds, parts)
        if parts > 1 and not (original.is_complete and found.is_complete):
            # Also where both end with the same error: then nothing was kept and read again.
            detail = f"only {found.element_count} elements of a part of the data {TOO_FEW_COMPARED}"
            return Proof(kind=guarantee, passed=False, detail=detail)
        proof = prove_elements(
            original, found, guarantee, require_complete=extent.whole, min_elements=extent.least
        )
        if not proof.passed and stacks & self._rounding:
            # What an earlier step rounded stays rounded: the original is compared with all.
            proof = self._close(edited, extent, seconds, parts)
            return replace(proof, kind=find_loosest_guarantee(guarantee, proof.kind))
        return proof

    def _parts(self, edited: Pipeline, seconds: float) -> list[int]:
        """Of how many elements one is compared: where the first number leaves too much, the second.

        Two whole passes of the original in order are to find time; a first pass of the rewritten
        one may be slower.
        """
        assert self._original is not None
        if self._pass_s is None:
            twin = self._twin()
            rate = measure_supply(
                with_deterministic_order(twin), budget_s=min(_LOOK_S, seconds / 4)
            ).batches_per_s
            self._pass_s = twin.cardinality / rate if rate and twin.cardinality > 0 else 0.0
        needed_s = 2 * _DIGESTED * self._pass_s
        numbers = [max(1, math.ceil(needed_s / seconds * times)) for times in (1, _SLOWER)]
        found = [n if n == 1 or _is_enough(take_every_nth(edited, n)) else 1 for n in numbers]
        return list(dict.fromkeys(found))

    def _close(self, edited: Pipeline, extent: _Extent, seconds: float, parts: int) -> Proof:
        return prove_elements_close(
            compare_closeness(
                with_deterministic_order(_part(self._twin(), parts)),
                with_deterministic_order(edited),
                epochs=extent.epochs,
                max_elements=extent.most,
                max_s=2 * seconds,
            ),
            require_complete=extent.whole,
            min_elements=extent.least,
        )

    def _mismatch(self, candidate: Pipeline, edited: Pipeline) -> str:
        """What can be told without reading anything; empty when nothing speaks against it."""
        assert self._original is not None
        if edited.digest != candidate.digest:
            return "the tried pipeline is not the result of its edits"
        if candidate.cardinality != self._original.cardinality:
            # Unknown must stay unknown, too: Keras counts optimizer iterations by it.
            return (
                f"the length changed from {self._original.cardinality} to {candidate.cardinality}"
            )
        if has_nondeterministic_order(candidate) and not has_nondeterministic_order(self._original):
            # Compared are elements in order, so this would not be seen.
            return "faster elements might overtake slower ones, and the script requires their order"
        return ""

    def _edited_twin(self, candidate: Variant) -> Pipeline:
        twin = self._twin()
        for edit in candidate.pipeline_edits:
            twin = apply_edit(twin, edit)
        return twin

    def _twin(self) -> Pipeline:
        """A new one for each use: a shuffle counts the passes over it and draws another order."""
        assert self._original is not None
        return create_seeded_copy(self._original, _SEED)

    def _both_passes(
        self, edited: Pipeline, extent: _Extent, seconds: float, parts: int
    ) -> tuple[ElementDigests, ElementDigests]:
        """Of the original, which are kept, and of the rewritten one."""
        key = extent, seconds, parts
        if key in self._passes:
            return self._passes[key], _digests(edited, extent, seconds)
        twin = _part(self._twin(), parts)
        parallel = are_independent(twin, edited)
        seconds *= 1 + parallel  # each of them may take as long as both in turn
        self._passes[key], found = read_both(
            lambda: _digests(twin, extent, seconds),
            lambda: _digests(edited, extent, seconds),
            parallel=parallel,
        )
        return self._passes[key], found

    def _frozen(self, edited: Pipeline, *, seconds: float, parts: int) -> str:
        """Ask the real pipelines, chance and all, whether the second epoch still differs.

        Not that of threads, where the script leaves the order open: seeded draws that repeat
        themselves meet other elements then.
        """
        assert self._original is not None
        parts, epochs = self._parts_to_tell(parts), self._passes_to_tell()
        real, cut = (_part(each, parts) for each in (self._original, edited))

        def of_original() -> list[list[str]]:
            if parts not in self._samples:
                self._samples[parts] = _samples(real, epochs, seconds)
            return self._samples[parts]

        def of_edited() -> list[list[str]] | None:
            return _samples(cut, epochs, seconds) if fill_caches(cut, seconds) else None

        ours, theirs = read_both(of_original, of_edited, parallel=are_independent(real, cut))
        if theirs is None:
            return f"whether it still draws new random numbers: nothing {TOO_FEW_COMPARED}"
        return frozen_randomness_reason(ours, theirs)

    def _parts_to_tell(self, parts: int) -> int:
        """Of how many elements one is read to see whether the randomness is alive."""
        assert self._original is not None
        pass_s = (self._pass_s or 0.0) / parts
        samples = self._original.cardinality * self._batch_size / parts
        more = int(min(pass_s / _LIVING_PASS_S, samples / _TELLING_SAMPLES))
        if more > 1 and _is_enough(take_every_nth(self._original, parts * more)):
            return parts * more
        return parts

    def _passes_to_tell(self) -> int:
        """Two passes, more over few elements: eight coin flips come out alike too often."""
        assert self._original is not None
        elements = max(1, self._original.cardinality)
        return int(np.clip(_DRAWS_TO_TELL // elements + 1, 2, 8))
