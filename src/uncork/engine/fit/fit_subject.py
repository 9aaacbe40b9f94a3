"""A ``Model.fit`` call under examination."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace as replace_fields
from typing import Any, Final

import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.core.base.errors import NothingToMeasure, WrongUse, told
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee, loosest
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    MicroBatches,
    PadLengths,
    StepEdit,
)
from uncork.core.evidence.batches import BatchSize
from uncork.core.evidence.stage import Stage
from uncork.engine.fit.fit_evidence import FitLooks
from uncork.engine.fit.larger_batches import LargerBatches
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.data_subset import ShorterData
from uncork.measure.machine.devices import chosen_threads, rounds_to_tf32
from uncork.pipeline.analysis.passes import default_rewrites, repeats, samples_once
from uncork.pipeline.runtime.trial_copy import readable
from uncork.pycode.purity.random_draws import loader_draws
from uncork.pycode.purity.reachability import loader_digest
from uncork.training.callbacks.batch_hooks import batch_hooks
from uncork.training.input.array_feed import is_array_feed
from uncork.training.input.array_order import ONE_ORDER, in_one_order
from uncork.training.input.feed import Feed, batch_samples
from uncork.training.input.generator_stream import OnePass
from uncork.training.input.loader_costs import loader_stages
from uncork.training.input.loader_edits import has_hooks, stop_workers, workers_of
from uncork.training.input.resident_batches import held
from uncork.training.input.validation import Validating, validation_steps
from uncork.training.memory.batch_independence import draws_by_itself, without_draws
from uncork.training.optimizer.flat_updates import small_weights
from uncork.training.optimizer.fused_updates import fusable_weights
from uncork.training.optimizer.learning_rate import why_not_larger
from uncork.training.optimizer.row_updates import row_tables
from uncork.training.precision.float32_layers import random_layers, sensitive_layers
from uncork.training.precision.tf32 import without_tf32
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.held_out import HeldOut
from uncork.training.run.replay import Recording, first_rows
from uncork.training.run.signature import signature
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.architecture import architecture
from uncork.training.state.model_build import build, parts_made_later
from uncork.training.state.snapshot import Snapshot
from uncork.training.tracing.dropped_checks import left_out_of_fit
from uncork.training.transforms.device_maps import arrays_in_step
from uncork.training.transforms.eager_model import traceable
from uncork.training.transforms.input_layers import draws, first_layers
from uncork.training.variant import Version, VersionRunner
from uncork.verify.provers.fit_step import StepProver, proved_elsewhere
from uncork.verify.provers.handover import HandedFit, HandedOver
from uncork.verify.provers.loader import prove_arrays, prove_batches
from uncork.verify.provers.padding import prove_filled_up

# Bytes of batches held for the proofs: some tens of batches of images, thousands of rows.
_RECORDED_BYTES: Final = 256 << 20
_RECORDED: Final = {"most": 64, "max_bytes": _RECORDED_BYTES}
# And samples for what another batch does to the training.
_JUDGED_SAMPLES: Final = 1 << 14


class FitSubject(FitLooks):
    """Measures and compares versions of one ``fit`` call, without its callbacks and validation.

    Args:
        model: The user's, compiled; built here if it is not.
        arguments: Of the ``fit`` call, bound, with defaults.
        index: Of the training call in its script.
        at: ``file.py:line`` of the call.
        scratch: Directory for files that a trial would otherwise write into the user's.
        step_at: ``file.py:line`` of its ``compile``.
        policy_at: ``file.py:line`` of where its dtype policy was set.

    Callbacks and validation, which may keep in Python what they see, are tried only where the
    process ends with that.
    """

    def __init__(
        self,
        model: Any,
        arguments: Mapping[str, Any],
        index: int,
        at: str,
        scratch: str,
        *,
        step_at: str | None = None,
        policy_at: str | None = None,
    ) -> None:
        self.model = model
        self.notes = []
        self.feed = Feed.of(arguments)
        self._arguments = arguments
        self._validating, self._validated = Validating.of(arguments), None
        self._saved = None
        self._scratch = scratch
        _check(self.feed)
        pipeline = readable(self.feed.dataset, scratch)
        if pipeline is not None:
            self.feed = self.feed.with_dataset(pipeline.dataset)
        self.original = Version(pipeline)
        self.shorter = ShorterData(self.notes)
        self._draws = loader_draws(self.feed.x) if self.feed.kind == "pydataset" else None
        self._built, parts_made = bool(model.built), parts_made_later(model)
        random = random_state()
        if in_one_order(self.feed, arguments):
            self.notes.append(ONE_ORDER)
        self._batches = self._held()
        self._batch = max(self._batches, key=lambda batch: batch_samples(batch) or 0)
        architecture(model)  # as it is when a plan is held against it: before it is built
        # Building draws what ``fit`` would draw; reading the first batch is ours alone.
        set_random_state(random)
        with model.distribute_strategy.scope():
            build(model, self._batch)
            self._parts_later = parts_made()
            self.snapshot = Snapshot(model)
        self._settings, self._unmade, self._loaders = {}, {}, {}
        self._prover: StepProver | None = None
        self._judged: HeldOut | None = None
        self._reading: list[Any] = []  # epoch iterators whose loader may have threads
        described = self._describe(arguments, index, at)
        self.workload = replace(described, step_at=step_at, policy_at=policy_at)
        if model.run_eagerly:
            refusal, code = traceable(model, self.resident(self.original).prime)
            self.workload = replace(self.workload, not_traceable=refusal, step_code=code)
            self.restore()

    def out_of_data(self) -> str:
        """Of a generator that has no second pass."""
        ended = self.feed.x.ended if isinstance(self.feed.x, OnePass) else None
        return ended.received if ended else ""

    def supply(self, version: Version) -> Any:
        """What Keras's own adapter makes of the feed."""
        epochs = self._feed(version).epochs(self.model)
        self._reading.append(epochs)
        return Feed.batches_of(epochs)

    def loader_stages(self, version: Version) -> tuple[Stage, ...]:
        """The user's ``PyDataset``, timed on a few of its batches."""
        return loader_stages(self._feed(version))

    def on_rows(self, rows: int, edits: tuple[StepEdit, ...] = ()) -> VersionRunner:
        """A step on the first rows of a batch, as written or edited; nothing of it is kept."""
        feed = self.feed.resident([first_rows(self._batch, rows)])
        settings = StepSettings(self.model, edits)
        return PrimedRunner(FitRunner(settings, feed, self.snapshot, float(rows)), None)

    def needing(self, edits: tuple[StepEdit, ...]) -> None:
        """From here on the original is trained so: as written it does not fit into memory."""
        self.original = replace_fields(self.original, step=edits)
        self._prover = None

    def prove_on_rows(self, rows: int) -> Proof:
        """Compare it with the step as written, on rows of each batch that that has room for.

        In parts, where layers drop at random, both do without: each part draws numbers of its own.
        """
        recording = Recording.of(self.feed, self.model, **_RECORDED).of_rows(rows)
        in_parts = any(isinstance(edit, MicroBatches) for edit in self.original.step)
        drawn = in_parts and draws_by_itself(self.model)
        with without_draws(self.model) if drawn else nullcontext():
            settings = StepSettings(self.model, self.original.step)
            prover = StepProver(StepSettings(self.model), self.snapshot, recording)
            proof = prover.prove(settings, "rounding", seconds.PROOF_S)
        kind = loosest(proof.kind, "resampled" if drawn else "rounding" if in_parts else "exact")
        detail = f"{proof.detail}, of {rows} examples each"
        if drawn:
            detail += "; without what layers drop at random, which each part draws by itself"
        return replace(proof, kind=kind, detail=detail)

    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Train both from the same snapshot over the same recorded batches."""
        unchecked = left_out_of_fit(self.model) if self._adds(version, JitCompile) else ""
        if unchecked:
            return Proof(kind=kind, passed=False, detail=unchecked)
        fails = self._how_validation_fails(version)
        if fails:
            return Proof(kind=kind, passed=False, detail=f"its validation fails: {fails}")
        settings = self._with(version.step)
        pairs = settings.in_two(self._feed(version))
        if pairs is not None and kind == "rounding" and self._adds(version, PadLengths):
            versions, validated = (self.original.step, version.step), self._validated_on()
            return prove_filled_up(self.model, self.snapshot, versions, pairs, validated, budget_s)
        if pairs is None and kind == "rounding" and self._is_cut_otherwise(version):
            return self._prove_without_tf32(version, budget_s)
        if pairs is None:
            return self._step_prover().prove(settings, kind, budget_s)
        recording = Recording.in_two(pairs, **_RECORDED)
        original = self._with(self.original.step)
        return StepProver(original, self.snapshot, recording).prove(settings, kind, budget_s)

    def _how_validation_fails(self, version: Version) -> str:
        """The validation runs under the same settings, with its own ops; ``""`` where it does."""
        if not self._adds(version, JitCompile, DtypePolicy):
            return ""
        fails = self._fails(version.step)
        # What cannot be tried as written either, tells nothing of the edit.
        return fails if fails and not self._fails(self.original.step) else ""

    def _fails(self, step: tuple[StepEdit, ...]) -> str:
        """Why a step of the validation does not run so, whoever raises; ``""`` where it does."""
        try:
            found = self._validates()
            if found is not None:
                found.runner((), step).first_epoch(0.0)
        except Exception as error:
            return told(error)
        finally:
            self.snapshot.restore_values()
        return ""

    def _adds(self, version: Version, *kinds: type[StepEdit]) -> bool:
        """The version has an edit of these kinds that the original has not."""
        added = version.step[len(self.original.step) :]
        return any(isinstance(edit, kinds) for edit in added)

    def _is_cut_otherwise(self, version: Version) -> bool:
        """XLA and TensorFlow round to TF32 where each likes."""
        return self._adds(version, JitCompile, JitCompileOff) and rounds_to_tf32()

    def _prove_without_tf32(self, version: Version, budget_s: float) -> Proof:
        """Both are compiled anew, for a batch of a size that no kernel was chosen for yet."""
        rows = max(1, (self.workload.batch_size or 1) - 1)
        recording = Recording.of(self.feed, self.model, **_RECORDED).of_rows(rows)
        with without_tf32():
            original = StepSettings(self.model, self.original.step)
            prover = StepProver(original, self.snapshot, recording)
            found = prover.prove(StepSettings(self.model, version.step), "rounding", budget_s)
        return replace(found, detail=f"{found.detail}; without TF32, by which either rounds")

    def hand_over(self, version: Version, budget_s: float) -> HandedFit | None:
        """The state before the first step, and what it leads to on recorded batches."""
        return self._step_prover().handed_over(version.step, budget_s)

    def prove_elsewhere(self, version: Version, handed: HandedOver) -> Proof:
        """Train over the batches that were recorded there."""
        assert isinstance(handed, HandedFit)
        return proved_elsewhere(self._with(version.step), handed)

    def _step_prover(self) -> StepProver:
        if self._prover is None:
            recording = Recording.of(self.feed, self.model, **_RECORDED)
            original = self._with(self.original.step)
            self._prover = StepProver(original, self.snapshot, recording)
        return self._prover

    def batch_sizes(self, version: Version, budget_s: float) -> tuple[BatchSize, ...]:
        """Twice as large, and on, as long as it pays and there is memory."""
        larger = self._larger_batches()
        return larger.look(version, budget_s) if larger else ()

    def prove_training(self, version: Version, budget_s: float) -> Proof:
        """Over orders of the data that chose nothing."""
        larger = self._larger_batches()
        if larger is None:
            return super().prove_training(version, budget_s)
        return larger.prove(version, budget_s)

    def _larger_batches(self) -> LargerBatches | None:
        """None where the model, or its samples, are not to be trained in larger ones."""
        size = self.workload.batch_size
        if size is None or self.original.step or why_not_larger(self.model) is not None:
            return None
        if self.feed.kind not in ("tf.data", "numpy"):
            return None  # Python makes its batches, and nobody can ask for larger ones
        if self._judged is None:
            once = samples_once(self.original.pipeline, size)
            if once == 0:
                return None
            most = min(_JUDGED_SAMPLES, once or _JUDGED_SAMPLES)
            self._judged = HeldOut.of(self.feed, self.model, most=most, max_bytes=_RECORDED_BYTES)
        if self._judged is None:
            return None
        return LargerBatches(
            held_out=self._judged,
            snapshot=self.snapshot,
            batch_size=size,
            steps_per_epoch=self.workload.steps_per_epoch,
            settings=lambda version: self._with(version.step),
            resident=self.resident,
        )

    def prove_loader(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Read both through Keras's own adapter."""
        if is_array_feed(version.loader):
            return prove_arrays(self.feed, self.model, kind, budget_s)
        passes = 1 if has_hooks(self.feed.x) else 2
        edited = self._feed(version)
        return prove_batches(self.feed, edited, self.model, kind, passes=passes, budget_s=budget_s)

    def restore(self) -> None:
        """Give weights, optimizer, settings and random states back; end what still reads."""
        while self._reading:
            stop_workers(self._reading.pop())
        if self._draws is not None:
            self._draws.give_back()
        for part in (self._validated, self._saved, *self._settings.values()):
            if part is not None:
                part.let_go()
        self.snapshot.restore()

    def _held(self) -> tuple[Any, ...]:
        """What the step is run on alone."""
        xla = self.model.jit_compile is True
        batches = held(self.feed.batches_dataset(self.model), compiled=xla)
        if batches:
            return batches
        raise NothingToMeasure(
            "the training data is empty: it gave no batch",
            "at least one batch",
            "check the dataset",
        )

    def _describe(self, arguments: Mapping[str, Any], index: int, at: str) -> Workload:
        model, pipeline = self.model, self.original.pipeline
        begin = first_layers(model) if self._built else ()
        epochs = int(arguments.get("epochs") or 1) - int(arguments.get("initial_epoch") or 0)
        return Workload(
            index=index,
            at=at,
            kind="fit",
            data=self.feed.kind,
            model=signature(model),
            element_spec=self.feed.spec,
            batch_size=batch_samples(self._batch),
            steps_per_epoch=self.feed.epochs(model).num_batches or self.feed.steps_per_epoch,
            steps_given=self.feed.steps_per_epoch is not None,
            validation_steps=validation_steps(arguments),
            epochs=epochs,
            reads_again=repeats(pipeline),
            pipeline=pipeline.digest if pipeline else "",
            loader=loader_digest(self.feed.x) if self.feed.kind == "pydataset" else "",
            loader_workers=workers_of(self.feed.x) if self.feed.kind == "pydataset" else 1,
            eager_step=bool(model.run_eagerly),
            batch_hooks=batch_hooks(arguments.get("callbacks")),
            jit_compile=model.jit_compile is True,
            first_layers=tuple(layer.name for layer in begin),
            first_layers_draw=draws(begin),
            arrays_in_step=arrays_in_step(self.feed, model),
            random_layers=random_layers(model),
            sensitive_layers=sensitive_layers(model),
            intra_op_threads=chosen_threads(),
            small_weights=small_weights(model.optimizer) if self._built else 0,
            fusable_weights=fusable_weights(model.optimizer) if self._built else 0,
            row_tables=row_tables(model) if self._built else 0,
            steps_per_execution=model.steps_per_execution,
            parts_later=self._parts_later,
            distributed=model._distribute_strategy is not None,
            replicas=model.distribute_strategy.num_replicas_in_sync,
            default_rewrites=default_rewrites(pipeline),
        )


def _check(feed: Feed) -> None:
    """Refuse what trials cannot read again and again.

    Raises:
        WrongUse: With what to pass instead.
    """
    if feed.kind == "generator" and not isinstance(feed.x, OnePass):
        raise WrongUse(
            "the training is fed by a Python generator, which can be read only once",
            "data that can be read again: tf.data, arrays or a PyDataset",
            "wrap it: tf.data.Dataset.from_generator(function, output_signature=...); or let "
            "another process read it: uncork tune SCRIPT",
        )
    if isinstance(feed.x, tf.distribute.DistributedDataset):
        raise WrongUse(
            "the training is fed by a dataset that is distributed already",
            "the tf.data.Dataset itself",
            "leave out experimental_distribute_dataset: fit does it under a strategy",
        )
