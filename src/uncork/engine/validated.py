"""The validation of a ``fit`` under examination: what it takes, what feeds it, its edits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.core.edit import Guarantee, PipelineEdit, StepEdit
from uncork.core.facts import Validation, ValidationFeed
from uncork.core.plan import Proof
from uncork.engine.pipeline_proofs import PipelineProver
from uncork.engine.pipelines import readable
from uncork.engine.primed import PrimedRunner
from uncork.engine.subject import Version, VersionRunner
from uncork.measure import in_turn, summarize
from uncork.pipeline import measure as measure_stages
from uncork.pipeline import read
from uncork.step import Feed, FitRunner, Snapshot, StepSettings, Validating, batch_samples, held

# Of a longer validation the rest is reckoned.
_PASS_S: Final = 2.0
# Of an epoch and its validation, what the latter must take before its input is looked at.
_WORTH: Final = 0.05
_BLOCK_S: Final = 0.5
_ROUNDS: Final = 3
_STAGES_S: Final = 2.5


class Validated:
    """Runs and edits the validation of one ``fit``; what it reads is a copy of the user's pipeline.

    Args:
        validating: From the arguments of the ``fit``.
        settings: How a step with some edits runs.
        snapshot: Each block starts from these weights.
        scratch: Directory for files that a trial would otherwise write into the user's.

    Attributes:
        samples: In one validation; None where its length is not known, or it has no data.
    """

    def __init__(
        self,
        validating: Validating,
        settings: Callable[[tuple[StepEdit, ...]], StepSettings],
        snapshot: Snapshot,
        scratch: str,
    ) -> None:
        self._every = validating.every
        self._settings = settings
        self._snapshot = snapshot
        self._written = validating.feed.dataset
        pipeline = readable(self._written, scratch)
        self._feed = validating.feed
        if pipeline is not None:
            self._feed = self._feed.with_dataset(pipeline.dataset)
        self._original = Version(pipeline)
        self._versions: dict[tuple[PipelineEdit, ...], Version] = {(): self._original}
        self._prover = PipelineProver(pipeline)
        model = settings(()).model
        self._held = held(self._feed.batches_dataset(model), compiled=model.jit_compile is True)
        size = max((batch_samples(batch) or 0 for batch in self._held), default=0)
        self._batches, self._size = self._feed.epochs(model).num_batches, size
        self.samples: int | None = self._batches * size if self._batches and size else None

    def look(self, epoch_s: float | None) -> Validation | None:
        """What one takes; and where that is much, what its input takes.

        Args:
            epoch_s: Seconds of an epoch's training; None where that is not known.
        """
        seconds = self.seconds(())
        if seconds is None or self.samples is None:
            return None
        per_epoch_s = seconds / self._every
        much = epoch_s is not None and per_epoch_s > _WORTH * (epoch_s + per_epoch_s)
        return Validation(
            seconds=seconds,
            samples=self.samples,
            every=self._every,
            at=self._put_together_at(),
            feed=self._fed() if much else None,
        )

    def seconds(
        self, edits: tuple[PipelineEdit, ...], step: tuple[StepEdit, ...] = ()
    ) -> float | None:
        """Of one validation, its caches filled; None where its length is not known."""
        if self.samples is None:
            return None
        runner = self.runner(edits, step)
        runner.prime()
        block = runner.block(_PASS_S)
        return self.samples / block.samples_per_s

    def runner(
        self, edits: tuple[PipelineEdit, ...], step: tuple[StepEdit, ...] = ()
    ) -> VersionRunner:
        """Validation steps, fed as these edits say.

        Raises:
            EditRefused: The pipeline is not what an edit expects.
        """
        version = self._version(edits)
        feed = self._feed
        if version.pipeline is not None:
            feed = feed.with_dataset(version.pipeline.dataset)
        return PrimedRunner(self._run(feed, step), version.pipeline)

    def prove(self, edits: tuple[PipelineEdit, ...], kind: Guarantee, budget_s: float) -> Proof:
        """Compare the batches of two validations with those of the user's pipeline."""
        return self._prover.prove(self._version(edits), kind, budget_s)

    def _version(self, edits: tuple[PipelineEdit, ...]) -> Version:
        """Made once: what it keeps in memory is kept for the next look."""
        if edits not in self._versions:
            self._versions[edits] = self._original.with_pipeline_edits(edits)
        return self._versions[edits]

    def _run(self, feed: Feed, step: tuple[StepEdit, ...]) -> FitRunner:
        size = float(self._size)
        return FitRunner(self._settings(step), feed, self._snapshot, size, validates=True)

    def _fed(self) -> ValidationFeed | None:
        pipeline = self._original.pipeline
        if pipeline is None or self._feed.steps_per_epoch or not self._batches:
            return None
        resident = PrimedRunner(self._run(self._feed.resident(self._held), ()), None)
        runners = (self.runner(()), resident)
        for runner in runners:
            runner.prime()
        as_is, alone = in_turn(runners, block_s=_BLOCK_S, rounds=_ROUNDS)
        measured, best = summarize(as_is), summarize(alone)
        return ValidationFeed(
            pipeline=pipeline.digest,
            batches=self._batches,
            measurement=measured,
            resident=max(1.0, best.samples_per_s / measured.samples_per_s),
            resident_cpu_s=best.cpu_s_per_step,
            stages=measure_stages(pipeline, batch_size=self._size, budget_s=_STAGES_S),
        )

    def _put_together_at(self) -> str | None:
        """The line of its last ``batch``."""
        if self._written is None:
            return None
        batches: list[Any] = [node for node in read(self._written).stages if node.kind == "batch"]
        return batches[-1].at if batches else None
