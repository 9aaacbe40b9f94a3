"""A ``Model.fit`` call under examination."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.core.diagnosis import (
    CallbackCost,
    Growth,
    KerasDefect,
    NewShapes,
    OneHot,
    Transfer,
    Validation,
)
from uncork.core.edit import (
    Guarantee,
    LoaderCache,
    LoaderEdit,
    StepEdit,
    StepsPerExecution,
    is_graph,
)
from uncork.core.errors import NothingToMeasure, WrongUse
from uncork.core.plan import Proof
from uncork.core.record import replace
from uncork.core.stage import Stage
from uncork.core.workload import Workload
from uncork.engine.loader_proofs import prove_batches
from uncork.engine.pipelines import FILL_S, default_rewrites, fill_caches, readable, repeats
from uncork.engine.step_proofs import StepProver
from uncork.engine.subject import Subject, Version, VersionRunner
from uncork.measure.interleave import Block
from uncork.measure.python_time import op_time, outside_ops, watched_python
from uncork.pipeline import Pipeline, read
from uncork.step import (
    Feed,
    FitRunner,
    Padding,
    Recording,
    Snapshot,
    StepSettings,
    Validating,
    batch_hooks,
    batch_samples,
    build,
    callback_costs,
    defects_of_fit,
    device_of,
    edited_loader,
    fill_loader,
    growth_of,
    has_hooks,
    held,
    is_categorical,
    loader_stages,
    new_shapes_of,
    one_hot_of,
    padding_of,
    signature,
    small_weights,
    stop_workers,
    traceable,
    transfer_of,
    workers_of,
)
from uncork.watch import loader_digest, loader_draws, random_state, set_random_state

# Bytes of batches held for the proofs: some tens of batches of images, thousands of rows.
_RECORDED_BYTES: Final = 256 << 20
_RECORDED_BATCHES: Final = 64
# Resident steps longer than this are not grouped to find the time between them: compiling the group
# would take longer than the time between such steps could be worth.
_LONG_STEP_S: Final = 0.05
_GROUP: Final = 16
_WATCHED_STEPS: Final = 3
# Of a longer validation the rest is reckoned.
_VALIDATION_S: Final = 2.0


@dataclass
class _PrimedRunner(VersionRunner):
    """A :class:`FitRunner` whose caches are filled before it is compiled."""

    runner: FitRunner
    pipeline: Pipeline | None
    keeps_batches: bool = False

    def prime(self) -> float:
        begin = time.perf_counter()
        if self.pipeline is not None:
            fill_caches(self.pipeline)
        if self.keeps_batches:
            fill_loader(self.runner.feed.x, FILL_S)
        self.runner.prime()
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        return self.runner.first_epoch(limit_s)

    def block(self, seconds: float) -> Block:
        return self.runner.block(seconds)


class FitSubject(Subject):
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
        self._validating = Validating.of(arguments)
        _check(self.feed)
        pipeline = readable(self.feed.dataset, scratch)
        if pipeline is not None:
            self.feed = self.feed.with_dataset(pipeline.dataset)
        self.original = Version(pipeline)
        self._draws = loader_draws(self.feed.x) if self.feed.kind == "pydataset" else None
        self._built = bool(model.built)
        random = random_state()
        self._batches = self._held()
        self._batch = max(self._batches, key=lambda batch: batch_samples(batch) or 0)
        # Building draws what ``fit`` would draw; reading the first batch is ours alone.
        set_random_state(random)
        with model.distribute_strategy.scope():
            build(model, self._batch)
            self.snapshot = Snapshot(model)
        self._settings: dict[tuple[StepEdit, ...], StepSettings] = {}
        self._prover: StepProver | None = None
        self._loaders: dict[tuple[LoaderEdit, ...], Any] = {}
        self._reading: list[Any] = []  # epoch iterators whose loader may have threads
        described = self._describe(arguments, index, at)
        self.workload = replace(described, step_at=step_at, policy_at=policy_at)
        if model.run_eagerly:
            refusal, code = traceable(model, self._resident(()).prime)
            self.workload = replace(self.workload, not_traceable=refusal, step_code=code)
            self.restore()

    def runner(self, version: Version) -> VersionRunner:
        """A version's step on its own input, as ``fit`` runs it."""
        runner = self._fit_runner(version.step, self._feed(version))
        return _PrimedRunner(runner, version.pipeline, _keeps_batches(version))

    def resident(self, version: Version) -> VersionRunner:
        """A version's step on the same batches over and over."""
        return self._resident(version.step)

    def grouped(self, version: Version, resident_s: float) -> VersionRunner | None:
        """Many resident steps in one execution; a step of the user's own need not allow that.

        Of an eager model, the same step compiled: Python and the overhead of single ops are gone.
        """
        work = self.workload
        if work.eager_step and not is_graph(version.step):
            return self._compiled()
        grouped_already = work.steps_per_execution > 1 or any(
            isinstance(edit, StepsPerExecution) for edit in version.step
        )
        if not (work.distributed or grouped_already):
            if resident_s > _LONG_STEP_S:
                return None
            with suppress(Exception):
                runner = self._resident((*version.step, StepsPerExecution(steps=_GROUP)))
                runner.prime()
                return runner
        self.notes.append("time between steps is counted as part of the step")
        return None

    def python_s(self, resident_s: float) -> float | None:
        """For an eager model that could not be compiled, the Python between its ops."""
        if not self.workload.eager_step:
            return None
        return outside_ops(resident_s, *self._watched(self.original, resident_s))

    def most_python_s(self, version: Version, resident_s: float) -> float | None:
        """Of a compiled model, all between two executions; None for an eager one."""
        if self.workload.eager_step and not is_graph(version.step):
            return None
        return watched_python(*self._watched(version, resident_s))

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
        return padding, _PrimedRunner(self._fit_runner((), feed), None)

    def without_metrics(self) -> VersionRunner | None:
        """Of a model that was given some; a step of its own that computes them goes without."""
        given = getattr(self.model, "_compile_metrics", None)
        if given is None or self.workload.eager_step:
            return None
        settings = StepSettings(self.model, metrics=False)
        return self._resident_with(settings)

    def callbacks(self) -> tuple[CallbackCost, ...]:
        """The user's own are called a few times, on the model as it is."""
        if not self.ends_here:
            return ()
        with self.snapshot.restored():
            return callback_costs(self._arguments.get("callbacks"), self.model, self._arguments)

    def new_shapes(self, step_s: float, seconds: float) -> NewShapes | None:
        """Of a step that XLA compiles: it is compiled anew, by a function of its own."""
        if len(self._batches) < 2 or not self.workload.jit_compile:
            return None
        feed, samples = self.feed.resident(self._batches), float(self.workload.batch_size or 1)
        runner = FitRunner(StepSettings(self.model), feed, self.snapshot, samples)
        return new_shapes_of(runner, self._batches, step_s, seconds)

    def growth(self, seconds: float) -> Growth | None:
        """What the model's own step lets grow."""
        if self.workload.eager_step or self.workload.distributed:
            return None
        runner = self._fit_runner((), self.feed.resident(self._batches))
        return growth_of(runner, self.model, seconds)

    def keras_defects(self) -> tuple[KerasDefect, ...]:
        """Those of this model, its optimizer and what ``fit`` was given."""
        return defects_of_fit(self.model, self._arguments, self.workload.steps_per_epoch)

    def validation(self) -> Validation | None:
        """A pass over the validation data, as ``fit`` makes it."""
        if self._validating is None or self.workload.distributed or not self.ends_here:
            return None
        found = self._validating.timed(self.model, _VALIDATION_S)
        if found is None:
            return None
        data, (seconds, samples) = self._validating.feed.dataset, found
        batches = [] if data is None else [n for n in read(data).stages if n.kind == "batch"]
        at = batches[-1].at if batches else None
        return Validation(seconds=seconds, samples=samples, every=self._validating.every, at=at)

    def one_hot(self) -> OneHot | None:
        """Of the targets, where the model's loss is a cross-entropy of categories."""
        if not is_categorical(self.model):
            return None
        _, y, _ = keras.utils.unpack_x_y_sample_weight(self._batch)
        return one_hot_of(tf.nest.flatten(y), handed_over=self.feed.kind == "pydataset")

    def transfer(self) -> Transfer | None:
        """To where the model's weights are; not asked where a strategy sends the batches."""
        return (
            None if self.workload.distributed else transfer_of(self._batch, device_of(self.model))
        )

    def supply(self, version: Version) -> Any:
        """What Keras's own adapter makes of the feed."""
        epochs = self._feed(version).epochs(self.model)
        self._reading.append(epochs)
        return Feed.batches_of(epochs)

    def loader_stages(self, version: Version) -> tuple[Stage, ...]:
        """The user's ``PyDataset``, timed on a few of its batches."""
        return loader_stages(self._feed(version))

    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Train both from the same snapshot over the same recorded batches."""
        if self._prover is None:
            recording = Recording.of(
                self.feed, self.model, most=_RECORDED_BATCHES, max_bytes=_RECORDED_BYTES
            )
            self._prover = StepProver(self._with(()), self.snapshot, recording)
        return self._prover.prove(self._with(version.step), kind, budget_s)

    def prove_loader(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Read both through Keras's own adapter."""
        passes = 1 if has_hooks(self.feed.x) else 2
        edited = self._feed(version)
        return prove_batches(self.feed, edited, self.model, kind, passes=passes, budget_s=budget_s)

    def restore(self) -> None:
        """Give weights, optimizer, settings and random states back; end what still reads."""
        while self._reading:
            stop_workers(self._reading.pop())
        if self._draws is not None:
            self._draws.give_back()
        self.snapshot.restore()

    def _feed(self, version: Version) -> Feed:
        """What feeds a version."""
        feed = self.feed
        if version.pipeline is not None:
            feed = feed.with_dataset(version.pipeline.dataset)
        if version.loader:
            if version.loader not in self._loaders:  # what it keeps is made once
                self._loaders[version.loader] = edited_loader(feed.x, version.loader)
            feed = feed.with_dataset(self._loaders[version.loader])
        return feed

    def _watched(self, version: Version, resident_s: float) -> tuple[Block, float]:
        """A few resident steps, and what they spent in ops."""
        runner = self.resident(version)
        runner.prime()
        with op_time() as ops:
            block = runner.block(_WATCHED_STEPS * resident_s)
        timed = block.wall_s / (block.wall_s + block.warmup_s)
        return block, ops.seconds * timed

    def _with(self, step: tuple[StepEdit, ...]) -> StepSettings:
        """Settings are kept, and with them the compiled function."""
        if step not in self._settings:
            self._settings[step] = StepSettings(self.model, step)
        return self._settings[step]

    def _resident(self, step: tuple[StepEdit, ...]) -> VersionRunner:
        return _PrimedRunner(self._fit_runner(step, self.feed.resident(self._batches)), None)

    def _compiled(self) -> VersionRunner | None:
        """None where Python does in each step what would happen once only when it is traced."""
        if self.workload.not_traceable:
            return None
        with suppress(Exception):
            runner = self._resident_with(StepSettings(self.model, compiled=True))
            runner.prime()
            return runner
        return None

    def _resident_with(self, settings: StepSettings) -> VersionRunner:
        feed, samples = self.feed.resident(self._batches), float(self.workload.batch_size or 1)
        return _PrimedRunner(FitRunner(settings, feed, self.snapshot, samples), None)

    def _fit_runner(self, step: tuple[StepEdit, ...], feed: Feed) -> FitRunner:
        samples = float(self.workload.batch_size or 1)
        return FitRunner(self._with(step), feed, self.snapshot, samples)

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
            epochs=max(epochs, 2) if repeats(pipeline) else epochs,
            pipeline=pipeline.digest if pipeline else "",
            loader=loader_digest(self.feed.x) if self.feed.kind == "pydataset" else "",
            loader_workers=workers_of(self.feed.x) if self.feed.kind == "pydataset" else 1,
            eager_step=bool(model.run_eagerly),
            batch_hooks=batch_hooks(arguments.get("callbacks")),
            jit_compile=model.jit_compile is True,
            small_weights=small_weights(model.optimizer) if self._built else 0,
            steps_per_execution=model.steps_per_execution,
            distributed=model._distribute_strategy is not None,
            default_rewrites=default_rewrites(pipeline),
        )


def _keeps_batches(version: Version) -> bool:
    return any(isinstance(edit, LoaderCache) for edit in version.loader)


def _lengths(model: Any) -> set[int | None]:
    """Lengths of rows that the model's inputs were declared with."""
    inputs = getattr(model, "inputs", None) or ()
    return {part.shape[1] for part in inputs if len(part.shape) > 1}


def _check(feed: Feed) -> None:
    """Refuse what trials cannot read again and again.

    Raises:
        WrongUse: With what to pass instead.
    """
    if feed.kind == "generator":
        raise WrongUse(
            "the training is fed by a Python generator, which can be read only once",
            "data that can be read again: tf.data, arrays or a PyDataset",
            "wrap it: tf.data.Dataset.from_generator(function, output_signature=...)",
        )
    if isinstance(feed.x, tf.distribute.DistributedDataset):
        raise WrongUse(
            "the training is fed by a dataset that is distributed already",
            "the tf.data.Dataset itself",
            "leave out experimental_distribute_dataset: fit does it under a strategy",
        )
