"""What is looked at once of a ``fit`` call, beside how fast it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.model_state import compile_metrics
from uncork.core.base.measurement import spread
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.evidence.batches import RecordedBatches, VaryingShapes
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.correctness import KerasDefect, ReshuffledSplit
from uncork.core.evidence.loop import StateGrowth
from uncork.core.evidence.model import OneHotLabels, Transfer
from uncork.core.evidence.stage import BATCH_LOADERS
from uncork.engine.fit.checkpoints import CheckpointTrial
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.fit.validation import ValidationTrial
from uncork.engine.fit.variant_runners import FitRunnerSubject
from uncork.engine.subject.subject import LARGER_BATCH_FACTOR
from uncork.measure.benchmark.interleave import measure_blocks_interleaved
from uncork.measure.machine.probe import available_memory_bytes
from uncork.pipeline.analysis.reshuffled_split import find_reshuffled_split
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.callbacks.batch_hooks import measure_callback_costs
from uncork.training.callbacks.epoch_hook_costs import measure_epoch_callback_costs
from uncork.training.input.feed import Feed, count_batch_samples
from uncork.training.input.validation import ValidationSetup
from uncork.training.inspect.keras_defects import find_fit_defects
from uncork.training.inspect.one_hot import measure_one_hot
from uncork.training.inspect.padding import Padding, measure_padding
from uncork.training.inspect.replicas import repeat_batch
from uncork.training.inspect.state_growth import measure_state_growth
from uncork.training.inspect.transfer import measure_batch_transfer
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.recorded_batches import measure_recorded_batches, record_batches
from uncork.training.run.shape_compile_time import measure_varying_shapes, read_batch_shapes
from uncork.training.run.step_settings import StepSettings
from uncork.training.tracing.step_info import has_categorical_loss, step_device
from uncork.training.transforms.pad_lengths import find_padding_values, has_same_padding
from uncork.training.variant import Variant, VariantRunner

# Seconds in which batches are read for their shapes.
_READ_S: Final = 2.0
# In which the training and its batches from memory are measured in turn.
_ROUNDS: Final = 4
# Of what is looked at in a confirming process.
_BLOCK_S: Final = 0.4


class FitEvidenceSubject(FitRunnerSubject):
    """Answers from the model, its arguments and some batches; the step itself is run elsewhere."""

    _arguments: Mapping[str, Any]
    _batch: Any
    _validation_setup: ValidationSetup | None
    _validation_trial: ValidationTrial | None
    _checkpoint_trial: CheckpointTrial | None
    _scratch: str

    def unpadded_runner(self) -> tuple[Padding, VariantRunner] | None:
        """Inputs, targets and weights alike are cut; none where the model was made for one length.

        Keras does not insist on that length, but whoever wrote it down may. Nor of batches of
        different lengths: each is as long as it has to be.
        """
        if len(self._batches) > 1:
            return None
        x, _, _ = keras.utils.unpack_x_y_sample_weight(self._batch)
        padding = measure_padding(x)
        if (
            padding is None
            or not padding.is_significant
            or padding.padded_length in _lengths(self.model)
        ):
            return None
        feed = self.feed.with_resident_batches([padding.trim(self._batch)])
        return padding, PrimedRunner(self._fit_runner(self.original.step_edits, feed), None)

    def larger_replica_batch_runner(self) -> tuple[int, VariantRunner] | None:
        """The same rows several times over."""
        if self.workload.replicas < 2 or self.workload.is_eager_step:
            return None
        batch = repeat_batch(self._batch, LARGER_BATCH_FACTOR)
        feed, samples = (
            self.feed.with_resident_batches([batch]),
            float(self.workload.batch_size or 1),
        )
        settings = StepSettings(self.model)
        runner = FitRunner(settings, feed, self.snapshot, LARGER_BATCH_FACTOR * samples)
        return LARGER_BATCH_FACTOR, PrimedRunner(runner, None)

    def runner_without_metrics(self) -> VariantRunner | None:
        """Of a model that was given some; a step of its own that computes them goes without."""
        given = compile_metrics(self.model)
        if given is None or self.workload.is_eager_step:
            return None
        settings = StepSettings(self.model, self.original.step_edits, has_metrics=False)
        return self._resident_with(settings)

    def measure_callbacks(self) -> tuple[CallbackCost, ...]:
        """The user's own are called a few times, on the model as it is."""
        if not self.ends_process:
            return ()
        with self.snapshot.restore_at_end():
            return measure_callback_costs(
                self._arguments.get("callbacks"), self.model, self._arguments
            )

    def measure_epoch_hooks(self) -> tuple[CallbackCost, ...]:
        """Likewise, of those for epochs."""
        if not self.ends_process:
            return ()
        with self.snapshot.restore_at_end():
            return measure_epoch_callback_costs(
                self._arguments.get("callbacks"), self.model, self._arguments
            )

    def measure_varying_shapes(self, step_s: float, seconds: float) -> VaryingShapes | None:
        """Of a step that XLA compiles: it is compiled anew, by a function of its own."""
        if len(self._batches) < 2 or not self.workload.jit_compile:
            return None
        feed, samples = (
            self.feed.with_resident_batches(self._batches),
            float(self.workload.batch_size or 1),
        )
        settings = StepSettings(self.model, self.original.step_edits)
        runner = FitRunner(settings, feed, self.snapshot, samples)
        seen = read_batch_shapes(self.feed, self.model, _READ_S)
        pipeline = self.original.pipeline
        new = measure_varying_shapes(
            runner, self._batches, step_s, seconds, seen, find_padding_values(pipeline)
        )
        validated = (
            self._validation_setup.feed.dataset if self._validation_setup and self._tried else None
        )
        alike = validated is not None and has_same_padding(pipeline, read_pipeline(validated))
        return new and replace(new, has_validation=alike)

    def measure_recorded_batches(self, variant: Variant, seconds: float) -> RecordedBatches | None:
        """Of the training's own input, by a step of its own that has met none of its batches."""
        work = self.workload
        if variant.batch_multiplier > 1 or work.steps_per_execution > 1 or work.is_distributed:
            return None
        if work.data_kind == "generator":  # which may have no second pass
            return None
        feed = self._feed(variant)
        batches, start_s = record_batches(feed, self.model, seconds)
        runner = FitRunner(
            StepSettings(self.model, variant.step_edits),
            self.feed.with_resident_batches(batches),
            self.snapshot,
            float(self.workload.batch_size or 1),
        )
        found = measure_recorded_batches(runner, batches, seconds, start_s=start_s)
        if found is None:
            return None
        runners = [self.runner(variant), PrimedRunner(runner, None)]
        blocks = measure_blocks_interleaved(runners, block_s=seconds / _ROUNDS, rounds=_ROUNDS)
        whole, alone = ([b.wall_s / b.steps for b in each] for each in blocks)
        lost = [(w - a) / max(w, a) for w, a in zip(whole, alone, strict=True)]
        return replace(found, wait=spread(lost))

    def measure_state_growth(self, seconds: float) -> StateGrowth | None:
        """What the model's own step lets grow."""
        if self.workload.is_eager_step or self.workload.is_distributed:
            return None
        runner = self._fit_runner(
            self.original.step_edits, self.feed.with_resident_batches(self._batches)
        )
        return measure_state_growth(runner, self.model, seconds)

    def find_keras_defects(self) -> tuple[KerasDefect, ...]:
        """Those of this model, its optimizer and what ``fit`` was given."""
        steps = self.workload.steps_per_epoch
        return find_fit_defects(self.model, self._arguments, steps, self._batch)

    def find_reshuffled_split(self) -> ReshuffledSplit | None:
        """By what the script itself gave to ``fit``: copies of its datasets share nothing."""
        held_out = None if self._validation_setup is None else self._validation_setup.feed.dataset
        given = Feed.from_arguments(self._arguments).dataset
        if given is None or held_out is None:
            return None
        found = find_reshuffled_split(read_pipeline(given), read_pipeline(held_out))
        if found is None:
            return None
        one, other = found.parts
        return ReshuffledSplit(shuffle_at=found.shuffle.at, split_methods=(one.kind, other.kind))

    def measure_validation(self, epoch_s: float | None, block_s: float) -> Validation | None:
        """A pass over the validation data, as ``fit`` makes it."""
        found = self._validates()
        return None if found is None else found.measure(epoch_s, block_s)

    def validation_s(self, variant: Variant) -> float | None:
        """Of a pass, its step as the version runs it."""
        found = self._validates()
        if found is None:
            return None
        return found.seconds(variant.validation_edits, variant.step_edits, block_s=_BLOCK_S)

    def validation_runner(self, variant: Variant) -> VariantRunner:
        """Passes over the validation data, in a version's way."""
        found = self._validates()
        assert found is not None
        return found.runner(variant.validation_edits, variant.step_edits)

    def prove_validation(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """Element by element."""
        found = self._validates()
        assert found is not None
        return found.prove(variant.validation_edits, kind, budget_s)

    def _validated_on(self) -> Feed | None:
        found = self._validates()
        return found.feed if found else None

    @property
    def _tried(self) -> bool:
        """A validation may be."""
        return self.ends_process and not self.workload.is_distributed

    def _validates(self) -> ValidationTrial | None:
        """Of a process that ends with this: metrics of the user's may keep what they see."""
        if self._validation_setup is None or not self._tried:
            return None
        if self._validation_trial is None:
            self._validation_trial = ValidationTrial(
                self._validation_setup, self._settings_for, self.snapshot, self._scratch
            )
        return self._validation_trial

    def measure_checkpoint_cost(self, step_s: float) -> CheckpointCost | None:
        """Of Keras's own callbacks, which are not called."""
        if not self.ends_process or self.workload.is_fit_in_loop:
            return None
        if 2 * self.snapshot.size_bytes > available_memory_bytes():
            return None
        work, callbacks = self.workload, self._arguments.get("callbacks")
        self._checkpoint_trial = CheckpointTrial(
            callbacks, self.model, distributed=work.is_distributed, scratch=self._scratch
        )
        return self._checkpoint_trial.measure(work.steps_per_epoch, step_s)

    def checkpoint_runner(self, variant: Variant) -> VariantRunner:
        """On the training's own input."""
        assert self._checkpoint_trial is not None
        steps = self.runner(variant)
        assert isinstance(steps, PrimedRunner)
        return self._checkpoint_trial.runner(steps, is_async=bool(variant.checkpoint_edits))

    def prove_checkpoints(self, variant: Variant, kind: Guarantee, budget_s: float) -> Proof:
        """The files of one moment, and weights after some steps."""
        del budget_s
        assert self._checkpoint_trial is not None
        steps = self.resident_runner(variant)
        assert isinstance(steps, PrimedRunner)
        return self._checkpoint_trial.prove(steps)

    def measure_one_hot_labels(self) -> OneHotLabels | None:
        """Of the targets, where the model's loss is a cross-entropy of categories."""
        if not has_categorical_loss(self.model):
            return None
        _, y, _ = keras.utils.unpack_x_y_sample_weight(self._batch)
        return measure_one_hot(tf.nest.flatten(y), are_arrays=self.feed.kind in BATCH_LOADERS)

    def measure_transfer(self, variant: Variant) -> Transfer | None:
        """To where the model's weights are; not asked where a strategy sends the batches."""
        if self.workload.is_distributed:
            return None
        largest = max(
            self._step_batches(variant), key=lambda batch: count_batch_samples(batch) or 0
        )
        return measure_batch_transfer(largest, step_device(self.model))


def _lengths(model: Any) -> set[int | None]:
    """Lengths of rows that the model's inputs were declared with."""
    inputs = getattr(model, "inputs", None) or ()
    return {part.shape[1] for part in inputs if len(part.shape) > 1}
