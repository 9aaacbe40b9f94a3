"""What is looked at once of a ``fit`` call, beside how fast it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.core.evidence.batches import NewShapes
from uncork.core.evidence.callbacks import CallbackCost, Saving, Validation
from uncork.core.evidence.correctness import KerasDefect, PartedAnew
from uncork.core.evidence.loop import Growth
from uncork.core.evidence.model import OneHot, Transfer
from uncork.core.evidence.stage import BATCH_LOADERS
from uncork.engine.fit.checkpoints import Saved
from uncork.engine.fit.primed_runner import PrimedRunner
from uncork.engine.fit.validation import Validated
from uncork.engine.fit.variant_runners import FitRuns
from uncork.engine.subject.subject import LARGER
from uncork.measure.machine.probe import available_memory
from uncork.pipeline.analysis.reshuffled_split import parted_anew
from uncork.pipeline.ir.tree import read
from uncork.training.callbacks.batch_hooks import callback_costs
from uncork.training.callbacks.epoch_hook_costs import epoch_costs
from uncork.training.input.feed import Feed, batch_samples
from uncork.training.input.validation import Validating
from uncork.training.inspect.keras_defects import defects_of_fit
from uncork.training.inspect.one_hot import one_hot_of
from uncork.training.inspect.padding import Padding, padding_of
from uncork.training.inspect.replicas import several_times
from uncork.training.inspect.state_growth import growth_of
from uncork.training.inspect.transfer import transfer_of
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.shape_compile_time import new_shapes_of, shapes_of
from uncork.training.run.step_settings import StepSettings
from uncork.training.tracing.step_info import device_of, is_categorical
from uncork.training.transforms.pad_lengths import are_alike, fills_of
from uncork.training.variant import Version, VersionRunner

# Seconds in which batches are read for their shapes.
_READ_S: Final = 2.0
# Of what is looked at in a confirming process.
_BLOCK_S: Final = 0.8


class FitLooks(FitRuns):
    """Answers from the model, its arguments and some batches; the step itself is run elsewhere."""

    _arguments: Mapping[str, Any]
    _batch: Any
    _validating: Validating | None
    _validated: Validated | None
    _saved: Saved | None
    _scratch: str

    def shortened(self) -> tuple[Padding, VersionRunner] | None:
        """Inputs, targets and weights alike are cut; none where the model was made for one length.

        Keras does not insist on that length, but whoever wrote it down may. Nor of batches of
        different lengths: each is as long as it has to be.
        """
        if len(self._batches) > 1:
            return None
        x, _, _ = keras.utils.unpack_x_y_sample_weight(self._batch)
        padding = padding_of(x)
        if padding is None or not padding.much or padding.longest in _lengths(self.model):
            return None
        feed = self.feed.resident([padding.cut(self._batch)])
        return padding, PrimedRunner(self._fit_runner(self.original.step, feed), None)

    def larger(self) -> tuple[int, VersionRunner] | None:
        """The same rows several times over."""
        if self.workload.replicas < 2 or self.workload.eager_step:
            return None
        batch = several_times(self._batch, LARGER)
        feed, samples = self.feed.resident([batch]), float(self.workload.batch_size or 1)
        settings = StepSettings(self.model)
        runner = FitRunner(settings, feed, self.snapshot, LARGER * samples)
        return LARGER, PrimedRunner(runner, None)

    def without_metrics(self) -> VersionRunner | None:
        """Of a model that was given some; a step of its own that computes them goes without."""
        given = getattr(self.model, "_compile_metrics", None)
        if given is None or self.workload.eager_step:
            return None
        settings = StepSettings(self.model, self.original.step, metrics=False)
        return self._resident_with(settings)

    def callbacks(self) -> tuple[CallbackCost, ...]:
        """The user's own are called a few times, on the model as it is."""
        if not self.ends_here:
            return ()
        with self.snapshot.restored():
            return callback_costs(self._arguments.get("callbacks"), self.model, self._arguments)

    def epoch_hooks(self) -> tuple[CallbackCost, ...]:
        """Likewise, of those for epochs."""
        if not self.ends_here:
            return ()
        with self.snapshot.restored():
            return epoch_costs(self._arguments.get("callbacks"), self.model, self._arguments)

    def new_shapes(self, step_s: float, seconds: float) -> NewShapes | None:
        """Of a step that XLA compiles: it is compiled anew, by a function of its own."""
        if len(self._batches) < 2 or not self.workload.jit_compile:
            return None
        feed, samples = self.feed.resident(self._batches), float(self.workload.batch_size or 1)
        settings = StepSettings(self.model, self.original.step)
        runner = FitRunner(settings, feed, self.snapshot, samples)
        seen = shapes_of(self.feed, self.model, _READ_S)
        pipeline = self.original.pipeline
        new = new_shapes_of(runner, self._batches, step_s, seconds, seen, fills_of(pipeline))
        validated = self._validating.feed.dataset if self._validating and self._tried else None
        alike = validated is not None and are_alike(pipeline, read(validated))
        return new and replace(new, validation=alike)

    def growth(self, seconds: float) -> Growth | None:
        """What the model's own step lets grow."""
        if self.workload.eager_step or self.workload.distributed:
            return None
        runner = self._fit_runner(self.original.step, self.feed.resident(self._batches))
        return growth_of(runner, self.model, seconds)

    def keras_defects(self) -> tuple[KerasDefect, ...]:
        """Those of this model, its optimizer and what ``fit`` was given."""
        steps = self.workload.steps_per_epoch
        return defects_of_fit(self.model, self._arguments, steps, self._batch)

    def parted_anew(self) -> PartedAnew | None:
        """By what the script itself gave to ``fit``: copies of its datasets share nothing."""
        held_out = None if self._validating is None else self._validating.feed.dataset
        given = Feed.of(self._arguments).dataset
        if given is None or held_out is None:
            return None
        found = parted_anew(read(given), read(held_out))
        if found is None:
            return None
        one, other = found.parts
        return PartedAnew(shuffle_at=found.shuffle.at, parts=(one.kind, other.kind))

    def validation(self, epoch_s: float | None, block_s: float) -> Validation | None:
        """A pass over the validation data, as ``fit`` makes it."""
        found = self._validates()
        return None if found is None else found.look(epoch_s, block_s)

    def validation_s(self, version: Version) -> float | None:
        """Of a pass, its step as the version runs it."""
        found = self._validates()
        if found is None:
            return None
        return found.seconds(version.validation, version.step, block_s=_BLOCK_S)

    def validation_runner(self, version: Version) -> VersionRunner:
        """Passes over the validation data, in a version's way."""
        found = self._validates()
        assert found is not None
        return found.runner(version.validation, version.step)

    def prove_validation(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Element by element."""
        found = self._validates()
        assert found is not None
        return found.prove(version.validation, kind, budget_s)

    def _validated_on(self) -> Feed | None:
        found = self._validates()
        return found.feed if found else None

    @property
    def _tried(self) -> bool:
        """A validation may be."""
        return self.ends_here and not self.workload.distributed

    def _validates(self) -> Validated | None:
        """Of a process that ends with this: metrics of the user's may keep what they see."""
        if self._validating is None or not self._tried:
            return None
        if self._validated is None:
            self._validated = Validated(self._validating, self._with, self.snapshot, self._scratch)
        return self._validated

    def saving(self, step_s: float) -> Saving | None:
        """Of Keras's own callbacks, which are not called."""
        if not self.ends_here or self.workload.called_in_loop:
            return None
        if 2 * self.snapshot.bytes > available_memory():
            return None
        work, callbacks = self.workload, self._arguments.get("callbacks")
        self._saved = Saved(
            callbacks, self.model, distributed=work.distributed, scratch=self._scratch
        )
        return self._saved.look(work.steps_per_epoch, step_s)

    def saving_runner(self, version: Version) -> VersionRunner:
        """On the training's own input."""
        assert self._saved is not None
        steps = self.runner(version)
        assert isinstance(steps, PrimedRunner)
        return self._saved.runner(steps, beside=bool(version.saving))

    def prove_saving(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """The files of one moment, and weights after some steps."""
        del budget_s
        assert self._saved is not None
        steps = self.resident(version)
        assert isinstance(steps, PrimedRunner)
        return self._saved.prove(steps)

    def one_hot(self) -> OneHot | None:
        """Of the targets, where the model's loss is a cross-entropy of categories."""
        if not is_categorical(self.model):
            return None
        _, y, _ = keras.utils.unpack_x_y_sample_weight(self._batch)
        return one_hot_of(tf.nest.flatten(y), handed_over=self.feed.kind in BATCH_LOADERS)

    def transfer(self, version: Version) -> Transfer | None:
        """To where the model's weights are; not asked where a strategy sends the batches."""
        if self.workload.distributed:
            return None
        largest = max(self._given(version), key=lambda batch: batch_samples(batch) or 0)
        return transfer_of(largest, device_of(self.model))


def _lengths(model: Any) -> set[int | None]:
    """Lengths of rows that the model's inputs were declared with."""
    inputs = getattr(model, "inputs", None) or ()
    return {part.shape[1] for part in inputs if len(part.shape) > 1}
