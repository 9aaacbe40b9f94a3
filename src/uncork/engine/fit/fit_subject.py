"""A ``Model.fit`` call under examination."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace as replace_fields
from typing import Any, Final

from uncork.compat.keras3.model_state import strategy_of
from uncork.compat.random_state import random_state, set_random_state
from uncork.core.base.errors import NothingToMeasure, describe_error
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee, find_loosest_guarantee
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    MicroBatches,
    PadLengths,
    StepEdit,
)
from uncork.core.evidence.batches import BatchSizeTrial
from uncork.core.evidence.stage import Stage
from uncork.engine.fit.fit_evidence import FitEvidenceSubject
from uncork.engine.fit.larger_batches import LargerBatchTrials
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.subject import time_budget as seconds
from uncork.engine.subject.data_subset import DataSubset
from uncork.measure.machine.devices import configured_intra_op_threads, is_tf32_enabled
from uncork.pipeline.analysis.passes import has_default_rewrites, is_repeated, samples_before_repeat
from uncork.pipeline.runtime.trial_copy import create_trial_copy
from uncork.pycode.purity.random_draws import loader_random_states
from uncork.pycode.purity.reachability import loader_digest
from uncork.training.callbacks.batch_hooks import batch_callback_names
from uncork.training.input.array_feed import has_array_feed
from uncork.training.input.array_order import SAME_ORDER_MESSAGE, has_same_order_each_epoch
from uncork.training.input.feed import Feed, count_batch_samples, require_repeatable
from uncork.training.input.generator_stream import SharedGenerator
from uncork.training.input.loader_costs import measure_loader_stages
from uncork.training.input.loader_edits import has_epoch_hooks, stop_workers, worker_count
from uncork.training.input.resident_batches import collect_resident_batches
from uncork.training.input.validation import ValidationSetup, configured_validation_steps
from uncork.training.memory.batch_independence import (
    disable_random_layers,
    has_per_example_randomness,
)
from uncork.training.optimizer.flat_updates import count_small_weights
from uncork.training.optimizer.fused_updates import count_fusable_weights
from uncork.training.optimizer.learning_rate import larger_batch_refusal
from uncork.training.optimizer.row_updates import count_row_tables
from uncork.training.precision.float32_layers import (
    precision_sensitive_layer_names,
    random_layer_names,
)
from uncork.training.precision.tf32 import without_tf32
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.held_out import HeldOutSplit
from uncork.training.run.replay import BatchRecording, take_first_rows
from uncork.training.run.signature import model_signature
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.architecture import architecture_digest
from uncork.training.state.model_build import build_model, watch_late_built_layers
from uncork.training.state.snapshot import Snapshot
from uncork.training.tracing.dropped_checks import dropped_checks_refusal_of_fit
from uncork.training.transforms.device_maps import array_reads_in_step
from uncork.training.transforms.eager_model import check_traceable
from uncork.training.transforms.input_layers import find_preprocessing_layers, has_random_layers
from uncork.training.variant import Variant, VariantRunner
from uncork.verify.provers.fit_step import StepProver, prove_fit_handover
from uncork.verify.provers.handover import FitHandover, Handover
from uncork.verify.provers.loader import prove_arrays, prove_batches
from uncork.verify.provers.padding import prove_padded

# Bytes of batches held for the proofs: some tens of batches of images, thousands of rows.
_RECORDED_BYTES: Final = 256 << 20
_RECORDED: Final = {"max_batches": 64, "max_bytes": _RECORDED_BYTES}
# And samples for what another batch does to the training.
_JUDGED_SAMPLES: Final = 1 << 14


class FitSubject(FitEvidenceSubject):
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
        self.feed = Feed.from_arguments(arguments)
        self._arguments = arguments
        self._validation_setup, self._validation_trial = (
            ValidationSetup.from_arguments(arguments),
            None,
        )
        self._checkpoint_trial = None
        self._scratch = scratch
        require_repeatable(self.feed)
        pipeline = create_trial_copy(self.feed.dataset, scratch)
        if pipeline is not None:
            self.feed = self.feed.with_dataset(pipeline.dataset)
        self.original = Variant(pipeline)
        self.data_subset = DataSubset(self.notes)
        self._draws = loader_random_states(self.feed.x) if self.feed.kind == "pydataset" else None
        self._built, parts_made = bool(model.built), watch_late_built_layers(model)
        random = random_state()
        if has_same_order_each_epoch(self.feed, arguments):
            self.notes.append(SAME_ORDER_MESSAGE)
        self._batches = self._held()
        self._batch = max(self._batches, key=lambda batch: count_batch_samples(batch) or 0)
        architecture_digest(model)  # as it is when a plan is held against it: before it is built
        # Building draws what ``fit`` would draw; reading the first batch is ours alone.
        set_random_state(random)
        with model.distribute_strategy.scope():
            build_model(model, self._batch)
            self._parts_later = parts_made()
            self.snapshot = Snapshot(model)
        self._settings, self._batches_before_maps, self._loaders = {}, {}, {}
        self._prover: StepProver | None = None
        self._judged: HeldOutSplit | None = None
        self._reading: list[Any] = []  # epoch iterators whose loader may have threads
        described = self._describe(arguments, index, at)
        self.workload = replace(described, step_setup_at=step_at, dtype_policy_at=policy_at)
        if model.run_eagerly:
            refusal, code = check_traceable(model, self.resident_runner(self.original).prime)
            self.workload = replace(
                self.workload, tf_function_refusal=refusal, step_code_digest=code
            )
            self.restore()

    def end_of_data_reason(self) -> str:
        """Of a generator that has no second pass."""
        ended = self.feed.x.has_ended if isinstance(self.feed.x, SharedGenerator) else None
        return ended.received if ended else ""

    def batches_dataset(self, variant: Variant) -> Any:
        """What Keras's own adapter makes of the feed."""
        epochs = self._feed(variant).create_epoch_iterator(self.model)
        self._reading.append(epochs)
        return Feed.dataset_of_epochs(epochs)

    def loader_stages(self, variant: Variant) -> tuple[Stage, ...]:
        """The user's ``PyDataset``, timed on a few of its batches."""
        return measure_loader_stages(self._feed(variant))

    def runner_on_rows(self, rows: int, edits: tuple[StepEdit, ...] = ()) -> VariantRunner:
        """A step on the first rows of a batch, as written or edited; nothing of it is kept."""
        feed = self.feed.with_resident_batches([take_first_rows(self._batch, rows)])
        settings = StepSettings(self.model, edits)
        return PrimedRunner(FitRunner(settings, feed, self.snapshot, float(rows)), None)

    def require_edits(self, edits: tuple[StepEdit, ...]) -> None:
        """From here on the original is trained so: as written it does not fit into memory."""
        self.original = replace_fields(self.original, step_edits=edits)
        self._prover = None

    def prove_on_rows(self, rows: int) -> Proof:
        """Compare it with the step as written, on rows of each batch that that has room for.

        In parts, where layers drop at random, both do without: each part draws numbers of its own.
        """
        recording = BatchRecording.from_feed(self.feed, self.model, **_RECORDED).with_first_rows(
            rows
        )
        in_parts = any(isinstance(edit, MicroBatches) for edit in self.original.step_edits)
        drawn = in_parts and has_per_example_randomness(self.model)
        with disable_random_layers(self.model) if drawn else nullcontext():
            settings = StepSettings(self.model, self.original.step_edits)
            prover = StepProver(StepSettings(self.model), self.snapshot, recording)
            proof = prover.prove(settings, "rounding", seconds.PROOF_S)
        kind = find_loosest_guarantee(
            proof.kind, "resampled" if drawn else "rounding" if in_parts else "exact"
        )
        detail = f"{proof.detail}, with {rows} examples each"
        if drawn:
            detail += "; without dropout, which is random in each micro-batch"
        return replace(proof, kind=kind, detail=detail)

    def prove_step(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Train both from the same snapshot over the same recorded batches."""
        unchecked = (
            dropped_checks_refusal_of_fit(self.model) if self._adds(variant, JitCompile) else ""
        )
        if unchecked:
            return Proof(kind=kind, passed=False, detail=unchecked)
        fails = self._how_validation_fails(variant)
        if fails:
            return Proof(kind=kind, passed=False, detail=f"its validation fails: {fails}")
        settings = self._settings_for(variant.step_edits)
        pairs = settings.batch_pairs(self._feed(variant))
        if pairs is not None and kind == "rounding" and self._adds(variant, PadLengths):
            versions, validated = (
                (self.original.step_edits, variant.step_edits),
                self._validated_on(),
            )
            return prove_padded(self.model, self.snapshot, versions, pairs, validated, budget_s)
        if pairs is None and kind == "rounding" and self._is_cut_otherwise(variant):
            return self._prove_without_tf32(variant, budget_s)
        if pairs is None:
            return self._step_prover().prove(settings, kind, budget_s)
        recording = BatchRecording.from_pairs(pairs, **_RECORDED)
        original = self._settings_for(self.original.step_edits)
        return StepProver(original, self.snapshot, recording).prove(settings, kind, budget_s)

    def _how_validation_fails(self, version: Variant) -> str:
        """The validation runs under the same settings, with its own ops; ``""`` where it does."""
        if not self._adds(version, JitCompile, DtypePolicy):
            return ""
        fails = self._fails(version.step_edits)
        # What cannot be tried as written either, tells nothing of the edit.
        return fails if fails and not self._fails(self.original.step_edits) else ""

    def _fails(self, step: tuple[StepEdit, ...]) -> str:
        """Why a step of the validation does not run so, whoever raises; ``""`` where it does."""
        try:
            found = self._validates()
            if found is not None:
                found.runner((), step).first_epoch(0.0)
        except Exception as error:
            return describe_error(error)
        finally:
            self.snapshot.restore_values()
        return ""

    def _adds(self, version: Variant, *kinds: type[StepEdit]) -> bool:
        """The version has an edit of these kinds that the original has not."""
        added = version.step_edits[len(self.original.step_edits) :]
        return any(isinstance(edit, kinds) for edit in added)

    def _is_cut_otherwise(self, version: Variant) -> bool:
        """XLA and TensorFlow round to TF32 where each likes."""
        return self._adds(version, JitCompile, JitCompileOff) and is_tf32_enabled()

    def _prove_without_tf32(self, version: Variant, budget_s: float) -> Proof:
        """Both are compiled anew, for a batch of a size that no kernel was chosen for yet."""
        rows = max(1, (self.workload.batch_size or 1) - 1)
        recording = BatchRecording.from_feed(self.feed, self.model, **_RECORDED).with_first_rows(
            rows
        )
        with without_tf32():
            original = StepSettings(self.model, self.original.step_edits)
            prover = StepProver(original, self.snapshot, recording)
            found = prover.prove(StepSettings(self.model, version.step_edits), "rounding", budget_s)
        return replace(found, detail=f"{found.detail}; without TF32, which rounds in both")

    def record_handover(self, variant: Variant, budget_s: float) -> FitHandover | None:
        """The state before the first step, and what it leads to on recorded batches."""
        return self._step_prover().record_handover(variant.step_edits, budget_s)

    def prove_in_other_process(self, variant: Variant, handover: Handover) -> Proof:
        """Train over the batches that were recorded there."""
        assert isinstance(handover, FitHandover)
        return prove_fit_handover(self._settings_for(variant.step_edits), handover)

    def _step_prover(self) -> StepProver:
        if self._prover is None:
            recording = BatchRecording.from_feed(self.feed, self.model, **_RECORDED)
            original = self._settings_for(self.original.step_edits)
            self._prover = StepProver(original, self.snapshot, recording)
        return self._prover

    def measure_batch_sizes(self, variant: Variant, budget_s: float) -> tuple[BatchSizeTrial, ...]:
        """Twice as large, and on, as long as it pays and there is memory."""
        larger = self._larger_batches()
        return larger.measure(variant, budget_s) if larger else ()

    def prove_training(self, variant: Variant, budget_s: float) -> Proof:
        """Over orders of the data that chose nothing."""
        larger = self._larger_batches()
        if larger is None:
            return super().prove_training(variant, budget_s)
        return larger.prove(variant, budget_s)

    def _larger_batches(self) -> LargerBatchTrials | None:
        """None where the model, or its samples, are not to be trained in larger ones."""
        size = self.workload.batch_size
        if size is None or self.original.step_edits or larger_batch_refusal(self.model) is not None:
            return None
        if self.feed.kind not in ("tf.data", "numpy"):
            return None  # Python makes its batches, and nobody can ask for larger ones
        if self._judged is None:
            once = samples_before_repeat(self.original.pipeline, size)
            if once == 0:
                return None
            most = min(_JUDGED_SAMPLES, once or _JUDGED_SAMPLES)
            self._judged = HeldOutSplit.from_feed(
                self.feed, self.model, max_samples=most, max_bytes=_RECORDED_BYTES
            )
        if self._judged is None:
            return None
        return LargerBatchTrials(
            held_out=self._judged,
            snapshot=self.snapshot,
            batch_size=size,
            steps_per_epoch=self.workload.steps_per_epoch,
            settings=lambda version: self._settings_for(version.step_edits),
            resident_runner=self.resident_runner,
        )

    def prove_loader(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Read both through Keras's own adapter."""
        if has_array_feed(variant.loader_edits):
            return prove_arrays(self.feed, self.model, kind, budget_s)
        passes = 1 if has_epoch_hooks(self.feed.x) else 2
        edited = self._feed(variant)
        return prove_batches(self.feed, edited, self.model, kind, passes=passes, budget_s=budget_s)

    def restore(self) -> None:
        """Give weights, optimizer, settings and random states back; end what still reads."""
        while self._reading:
            stop_workers(self._reading.pop())
        if self._draws is not None:
            self._draws.restore()
        for part in (self._validation_trial, self._checkpoint_trial, *self._settings.values()):
            if part is not None:
                part.release_memory()
        self.snapshot.restore()

    def _held(self) -> tuple[Any, ...]:
        """What the step is run on alone."""
        xla = self.model.jit_compile is True
        batches = collect_resident_batches(self.feed.batches_dataset(self.model), is_compiled=xla)
        if batches:
            return batches
        raise NothingToMeasure(
            "the training data is empty: it has no batch",
            "at least one batch",
            "check the dataset",
        )

    def _describe(self, arguments: Mapping[str, Any], index: int, at: str) -> Workload:
        model, pipeline = self.model, self.original.pipeline
        begin = find_preprocessing_layers(model) if self._built else ()
        epochs = int(arguments.get("epochs") or 1) - int(arguments.get("initial_epoch") or 0)
        return Workload(
            index=index,
            at=at,
            kind="fit",
            data_kind=self.feed.kind,
            model=model_signature(model),
            element_spec=self.feed.spec,
            batch_size=count_batch_samples(self._batch),
            steps_per_epoch=self.feed.create_epoch_iterator(model).num_batches
            or self.feed.steps_per_epoch,
            has_explicit_steps=self.feed.steps_per_epoch is not None,
            validation_steps=configured_validation_steps(arguments),
            epochs=epochs,
            is_source_repeated=is_repeated(pipeline),
            pipeline_digest=pipeline.digest if pipeline else "",
            loader_digest=loader_digest(self.feed.x) if self.feed.kind == "pydataset" else "",
            loader_workers=worker_count(self.feed.x) if self.feed.kind == "pydataset" else 1,
            is_eager_step=bool(model.run_eagerly),
            batch_callbacks=batch_callback_names(arguments.get("callbacks")),
            jit_compile=model.jit_compile is True,
            preprocessing_layers=tuple(layer.name for layer in begin),
            is_preprocessing_random=has_random_layers(begin),
            array_offload=array_reads_in_step(self.feed, model),
            random_layers=random_layer_names(model),
            precision_sensitive_layers=precision_sensitive_layer_names(model),
            intra_op_threads=configured_intra_op_threads(),
            small_weight_count=count_small_weights(model.optimizer) if self._built else 0,
            fusable_weight_count=count_fusable_weights(model.optimizer) if self._built else 0,
            row_update_table_count=count_row_tables(model) if self._built else 0,
            steps_per_execution=model.steps_per_execution,
            has_late_built_layers=self._parts_later,
            is_distributed=strategy_of(model) is not None,
            replicas=model.distribute_strategy.num_replicas_in_sync,
            has_default_rewrites=has_default_rewrites(pipeline),
        )
