"""Runs the passes that the proofs of pipeline edits compare."""

from __future__ import annotations

from uncork.core.edit import Cache, Guarantee, ParallelMap
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


class PipelineProver:
    """Compares rewritten pipelines with the user's; what the user's gave is kept.

    Args:
        original: None where there is no tf.data pipeline: then there is nothing to prove.
    """

    def __init__(self, original: Pipeline | None) -> None:
        self._original = original
        self._passes: dict[int, ElementDigests] = {}
        self._samples: list[list[str]] | None = None

    def prove(self, candidate: Version, guarantee: Guarantee, budget_s: float) -> Proof:
        """Put a rewritten pipeline to the test, against the original and not the step before."""
        assert self._original is not None
        assert candidate.pipeline is not None
        whole = any(isinstance(edit, Cache) for edit in candidate.edits)
        most = _MANY if whole else _SOME
        edited = self._edited_twin(candidate)
        proof = prove_elements(
            self._original_passes(most, budget_s / 3),
            element_digests(edited.dataset, max_elements=most, max_s=budget_s / 3),
            guarantee,
            whole=whole and self._original.cardinality != -1,
        )
        if not proof.passed or not draws(self._original):
            return proof
        frozen = self._frozen(candidate.pipeline, budget_s / 3)
        return replace(proof, passed=False, detail=frozen) if frozen else proof

    def _edited_twin(self, candidate: Version) -> Pipeline:
        twin = self._twin()
        for edit in candidate.edits:
            twin = apply(twin, edit)
        if not any(isinstance(edit, ParallelMap) for edit in candidate.edits):
            return twin
        # Some step gave the draws to whichever call comes first. Seeding a twin again leaves its
        # seeds and makes those calls serial: equal draws meet equal elements, without chance.
        return seeded(twin, _SEED)

    def _twin(self) -> Pipeline:
        """A new one for each use: a shuffle counts the passes over it and draws another order."""
        assert self._original is not None
        return seeded(self._original, _SEED)

    def _original_passes(self, most: int, seconds: float) -> ElementDigests:
        if most not in self._passes:
            self._passes[most] = element_digests(
                self._twin().dataset, max_elements=most, max_s=seconds
            )
        return self._passes[most]

    def _frozen(self, edited: Pipeline, seconds: float) -> str:
        """Ask the real pipelines, chance and all, whether the second epoch still differs."""
        assert self._original is not None
        if self._samples is None:
            self._samples = sample_digests(self._original.dataset, epochs=2, max_s=seconds)
        return prove_alive(self._samples, sample_digests(edited.dataset, epochs=2, max_s=seconds))
