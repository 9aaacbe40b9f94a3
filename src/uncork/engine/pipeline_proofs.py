"""Runs the passes that the proofs of pipeline edits compare."""

from __future__ import annotations

import numpy as np

from uncork.core.edit import Cache, Guarantee, ParallelMap, VectorizeMap
from uncork.core.plan import Proof
from uncork.core.record import replace
from uncork.engine.subject import Version
from uncork.pipeline import ElementDigests, Pipeline, apply, element_digests, seeded
from uncork.pipeline.samples import draws, sample_digests
from uncork.proof.elements import prove_alive, prove_elements

_SEED = 20261
# Batches of one pass that are compared when nothing needs a whole one.
_SOME = 64
_MANY = 1_000_000
_A_WHILE_S = 10.0
# Draws after which a frozen augmentation cannot be taken for chance.
_DRAWS_TO_TELL = 64


class PipelineProver:
    """Compares rewritten pipelines with the user's; what the user's gave is kept.

    Args:
        original: None where there is no tf.data pipeline: then there is nothing to prove.
    """

    def __init__(self, original: Pipeline | None) -> None:
        self._original = original
        self._passes: dict[tuple[int, float], ElementDigests] = {}
        self._samples: list[list[str]] | None = None

    def prove(self, candidate: Version, guarantee: Guarantee, budget_s: float) -> Proof:
        """Put a rewritten pipeline to the test, against the original and not the step before."""
        assert self._original is not None
        assert candidate.pipeline is not None
        edited = self._edited_twin(candidate)
        mismatch = self._mismatch(candidate.pipeline, edited)
        if mismatch:
            return Proof(kind=guarantee, passed=False, detail=mismatch)
        if any(isinstance(edit, ParallelMap) for edit in candidate.edits):
            # Some step gave the draws to whichever call comes first. Seeding a twin again leaves
            # its seeds and makes those calls serial: equal draws meet equal elements.
            edited = seeded(edited, _SEED)
        whole = any(isinstance(edit, Cache) for edit in candidate.edits)
        most, seconds = (_MANY if whole else _SOME), budget_s / 3
        if not whole and any(isinstance(edit, VectorizeMap) for edit in candidate.edits):
            # What works on stacks may differ in rare elements only: as many as a while allows.
            most, seconds = _MANY, min(seconds, _A_WHILE_S)
        proof = prove_elements(
            self._original_passes(most, seconds),
            element_digests(edited.dataset, max_elements=most, max_s=seconds),
            guarantee,
            whole=whole and self._original.cardinality != -1,
        )
        if not proof.passed or not draws(self._original):
            return proof
        frozen = self._frozen(candidate.pipeline, budget_s / 3)
        return replace(proof, passed=False, detail=frozen) if frozen else proof

    def _mismatch(self, candidate: Pipeline, edited: Pipeline) -> str:
        """What can be told without reading anything; empty when nothing speaks against it."""
        assert self._original is not None
        if edited.digest != candidate.digest:
            return "the pipeline under trial is not what its edits make"
        if candidate.cardinality != self._original.cardinality:
            # Unknown must stay unknown, too: Keras counts optimizer iterations by it.
            return (
                f"the length changed from {self._original.cardinality} to {candidate.cardinality}"
            )
        return ""

    def _edited_twin(self, candidate: Version) -> Pipeline:
        twin = self._twin()
        for edit in candidate.edits:
            twin = apply(twin, edit)
        return twin

    def _twin(self) -> Pipeline:
        """A new one for each use: a shuffle counts the passes over it and draws another order."""
        assert self._original is not None
        return seeded(self._original, _SEED)

    def _original_passes(self, most: int, seconds: float) -> ElementDigests:
        if (most, seconds) not in self._passes:
            self._passes[most, seconds] = element_digests(
                self._twin().dataset, max_elements=most, max_s=seconds
            )
        return self._passes[most, seconds]

    def _frozen(self, edited: Pipeline, seconds: float) -> str:
        """Ask the real pipelines, chance and all, whether the second epoch still differs."""
        assert self._original is not None
        epochs = self._passes_to_tell()
        if self._samples is None:
            self._samples = sample_digests(self._original.dataset, epochs=epochs, max_s=seconds)
        drawn = sample_digests(edited.dataset, epochs=epochs, max_s=seconds)
        return prove_alive(self._samples, drawn)

    def _passes_to_tell(self) -> int:
        """Two passes, more over few elements: eight coin flips come out alike too often."""
        assert self._original is not None
        elements = max(1, self._original.cardinality)
        return int(np.clip(_DRAWS_TO_TELL // elements + 1, 2, 8))
