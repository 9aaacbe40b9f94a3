"""A loop that calls its training step on arrays, on what a generator yields, on several datasets.

The user's code drives, and we choose what happens at each call of the step: the step as it is, or
the same step over and over on one batch. The step is only run otherwise: as a ``tf.function`` what
runs op by op, under XLA what is one. The run is thrown away.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import Precision, of_function
from uncork.core.evidence.loop import Answering, Waiting
from uncork.core.evidence.model import OneHot, Transfer
from uncork.core.evidence.stage import Stage
from uncork.engine.loop.grouped_loop import LONGEST_S, grouped_loop
from uncork.engine.loop.loop_costs import answering_in, waiting_in
from uncork.engine.loop.loop_driver import Switchboard
from uncork.engine.loop.loop_runner import LoopRunner
from uncork.engine.loop.step_arguments import arguments_of, casts_arrays, in_memory, samples_of
from uncork.engine.loop.step_switch import StepSwitch
from uncork.engine.loop.unchanged_arrays import KeptArrays
from uncork.engine.subject.subject import LARGER, Subject
from uncork.engine.subject.workload_summary import assumed, brief_of_steps, started
from uncork.measure.benchmark.async_backlog import runs_behind
from uncork.measure.benchmark.interleave import Block
from uncork.measure.profile.python_overhead import outside_ops
from uncork.pipeline.profile.throughput import Supplied
from uncork.training.inspect.one_hot import one_hot_of
from uncork.training.inspect.padding import Padding, padding_of
from uncork.training.inspect.replicas import replicas_of, several_times
from uncork.training.inspect.transfer import transfer_of
from uncork.training.loop_step.compiled_step import CompiledStep, code_of
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.mode import Mode
from uncork.training.precision.traced_policy import layers_seen
from uncork.training.tracing.step_info import device_of, is_categorical
from uncork.training.variant import Version, VersionRunner
from uncork.verify.provers.handover import HandedOver
from uncork.verify.provers.keras_calls import answers_otherwise, prove_answers

_RESIDENT: Final = "over and over"
_OTHER: Final = "over and over, another batch"
_AS_IT_IS: Final = "as it is"
# Between two steps passes what makes a batch; so much longer, and it is the end of an epoch.
_PAUSE: Final = 20
_LEAST_PAUSE_S: Final = 0.25
_REMEMBERED: Final = 64
# In which proofs record what the step is called with.
_RECORDED_S: Final = 0.5


@dataclass
class Between:
    """What passes between two calls of the step, call by call.

    Attributes:
        wall_s: Elapsed seconds.
        busy_s: What of them the loop's own thread computed.
    """

    wall_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)

    def add(self, wall_s: float, busy_s: float) -> bool:
        """Count one; False for a pause, which is none."""
        usual = statistics.median(self.wall_s[-_REMEMBERED:]) if self.wall_s else wall_s
        if wall_s > max(_LEAST_PAUSE_S, _PAUSE * usual):
            return False
        self.wall_s.append(wall_s)
        self.busy_s.append(busy_s)
        return True


class StepLoopSubject(Subject):
    """Measures a training step and what passes between two of them.

    Args:
        call: Of the step, recognised by the capture layer.
        epochs: How often the loop runs; None where more than once, and nobody knows how often.
        step: The step, where it runs op by op and was taken over. Without it, all that is known of
            such a step is its last part, the optimizer's update.
    """

    ends_here = True

    def __init__(
        self, call: StepCall, *, epochs: int | None, step: EagerStep | None = None
    ) -> None:
        self.notes = [
            *assumed(epochs),
            "pauses between epochs (shuffling, validation) are not counted",
        ]
        self.layers = call.layers
        self.start = started(call, epochs)
        self.counted = epochs is not None
        self._behind = runs_behind()
        self.original = Version(None)
        brief = brief_of_steps(call, epochs)
        compiled = CompiledStep(call.step) if code_of(call.step) else None
        self._step = StepSwitch(step or compiled)
        self._step.record()
        self._whole = step is not None or not call.eager
        self.workload = replace(brief, batch_size=samples_of(call) if self._whole else None)
        if self.workload.batch_size is None:
            self.notes.append("the size of a batch is not known: a step counts as one sample")
        self.board = Switchboard(float(self.workload.batch_size or 1), sys.setprofile)
        self._call = call
        as_arrays = step is not None or call.eager or casts_arrays(call)
        self._resident_call = in_memory(call, as_arrays=as_arrays)
        self._between = Between()
        self._arrays = KeptArrays(call)
        self._left: tuple[float, float] | None = None
        self._other_call: StepCall | None = None
        self._rejected: Exception | None = None

    def step(self, call: StepCall) -> Any:
        """In the place of the user's step, on the user's thread."""
        if self._left is not None:
            wall_s, busy_s = (now - then for now, then in zip(_clocks(), self._left, strict=True))
            # Where steps run behind, the loop may wait for many of them here: that is no pause.
            if not self._between.add(wall_s, busy_s) and not self._behind:
                self.board.resume()
        self._arrays.look(call)
        while (wanted := next(self.board)) != _AS_IT_IS:
            self._left = None
            self._again(wanted)
        found = call.original(*call.args, **call.kwargs)
        self._left = _clocks()
        return found

    def _again(self, wanted: str) -> None:
        """The step without the loop around it, on arguments from memory."""
        if wanted == _RESIDENT or self._other_call is None:
            call = self._resident_call
            call.original(*call.args, **call.kwargs)
        elif self._rejected is None:
            call = self._other_call
            try:
                call.original(*call.args, **call.kwargs)
            except Exception as error:  # a step for one length, or for one size, only
                self._rejected = error

    def runner(self, version: Version) -> VersionRunner:
        """The user's loop as it is."""
        return LoopRunner(self.board, _as_it_is, None, *self._step.ways(version))

    def resident(self, version: Version) -> VersionRunner:
        """The step on one batch over and over, its arrays in memory already.

        A step that stands in the loop itself cannot be called: the loop as it is.
        """
        if not self._whole:
            return self.runner(version)
        return LoopRunner(self.board, _resident_epoch, None, *self._step.ways(version))

    def grouped(self, version: Version, resident_s: float) -> VersionRunner | None:
        """Of a step that runs op by op, the same step as a graph.

        Of a function that is compiled, many of them in one.
        """
        if self._behind:
            return None
        if not self.workload.eager_step:
            return self._many(version, resident_s)
        if not self._step.may_be_graph(version):
            return None
        runner = LoopRunner(self.board, _resident_epoch, None, self._step.to(Mode.GRAPH))
        runner.prime()
        return runner if self._step.may_be_graph(version) else None

    def _many(self, version: Version, resident_s: float) -> VersionRunner | None:
        call = self._resident_call
        is_function = isinstance(call.step, tf.types.experimental.GenericFunction)
        # A group is traced from the function as written.
        if resident_s > LONGEST_S or not is_function or of_function(version.step):
            return None
        step = functools.partial(call.original, *call.args, **call.kwargs)
        return grouped_loop(step, float(self.workload.batch_size or 1))

    def seen(self) -> Workload:
        """The workload, with what was seen of its step."""
        replicas = replicas_of(self.layers.known()) if self.layers else 1
        return self._step.described(
            replace(
                self.workload,
                replicas=replicas,
                **layers_seen(self.layers),
            )
        )

    def graphs(self, version: Version) -> tuple[str, ...]:
        """What its step was traced to."""
        return self._step.graphs(version)

    def in_policy(self, version: Version, policy: Precision) -> Version | None:
        """Its step traced anew."""
        return self._step.in_policy(version, policy, self.seen().kept_in(policy))

    def shortened(self) -> tuple[Padding, VersionRunner] | None:
        """Every argument with rows of that length is cut."""
        call = self._resident_call
        padding = None if self.workload.eager_step else padding_of((call.args, call.kwargs))
        if padding is None or not padding.much:
            return None
        args, kwargs = padding.cut((call.args, call.kwargs))
        return padding, _OtherRunner(self, dataclasses.replace(call, args=args, kwargs=kwargs))

    def larger(self) -> tuple[int, VersionRunner] | None:
        """Every argument has its rows several times over, on each replica."""
        call, work = self._resident_call, self.seen()
        if work.replicas < 2 or work.eager_step or not self._whole:
            return None
        args, kwargs = several_times((call.args, call.kwargs), LARGER)
        larger, samples = dataclasses.replace(call, args=args, kwargs=kwargs), samples_of(call)
        if samples is None or samples_of(larger) != LARGER * samples:
            return None  # its batch is not among its arguments
        return LARGER, _OtherRunner(self, larger, times=LARGER)

    def use(self, other: StepCall | None) -> None:
        """From now on that is the other batch; None for none."""
        self._other_call, self._rejected = other, None

    def one_hot(self) -> OneHot | None:
        """Of its arguments but the first, which is what the labels are of."""
        call = self._call
        if self.workload.eager_step or not is_categorical(call.step):
            return None
        labels = arguments_of(call)[1:]
        handed_over = any(isinstance(leaf, np.ndarray) for leaf in labels)
        return one_hot_of(labels, handed_over=handed_over)

    def transfer(self, version: Version) -> Transfer | None:
        """Of all that is handed over as arrays, to where the variables of the step are.

        Not asked where a strategy hands its part to each of several devices.
        """
        del version
        call = self._call
        if getattr(call.step, "_distribute_strategy", None) is not None:
            return None
        arrays = [leaf for leaf in arguments_of(call) if isinstance(leaf, np.ndarray)]
        return transfer_of(arrays, device_of(call.step))

    def refused(self) -> Exception | None:
        """What the step raised when it was given another batch."""
        return self._rejected

    def python_s(self, resident_s: float) -> float | None:
        """What of a resident step passes outside TensorFlow's ops."""
        if self._behind:
            return None
        epoch = _resident_epoch if self._whole else _as_it_is
        block, ops = self.board.block(epoch, 4 * resident_s, profiled=True)
        return None if ops is None else outside_ops(resident_s, block, ops.seconds)

    def waiting(self, seconds: float) -> Waiting | None:
        """In the loop as it runs."""
        runner = self.runner(self.original)
        return None if self.workload.eager_step else waiting_in(runner, seconds)

    def answering(self, seconds: float) -> Answering | None:
        """In the loop as it runs."""
        return answering_in(self.runner(self.original), seconds)

    def supplied(self, version: Version, budget_s: float) -> Supplied:
        """As fast as the loop makes them; it has been seen to."""
        del version, budget_s
        return Supplied(1 / max(1e-9, self._between_s()[0]))

    def loader_stages(self, version: Version) -> tuple[Stage, ...]:
        """What the loop does between two steps; Python where its own thread computes."""
        if not self._whole:
            return ()
        wall_s, busy_s = self._between_s()
        return (
            Stage(
                index=0,
                kind="loop",
                at=self.workload.at,
                cpu_s_per_element=busy_s,
                wall_s_per_element=wall_s,
                elements_per_step=1.0,
                parallelism=1,
                random=True,
                python=2 * busy_s >= wall_s,
            ),
            *self._arrays.stages(),
        )

    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Run recorded calls of the step as written and otherwise, on the loop's own thread."""
        as_it_is = self.runner(self.original)
        if answers_otherwise(version.step):
            return prove_answers(lambda: as_it_is.block(_RECORDED_S))
        return self._step.prove(
            version,
            kind,
            budget_s,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def hand_over(self, version: Version, budget_s: float) -> HandedOver | None:
        """Recorded calls of the step, and what they lead to from its state."""
        del version, budget_s
        as_it_is = self.runner(self.original)
        return self._step.hand_over(
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def prove_elsewhere(self, version: Version, handed: HandedOver) -> Proof:
        """Make the calls that were recorded there."""
        as_it_is = self.runner(self.original)
        return self._step.prove_elsewhere(
            version,
            handed,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=as_it_is.prime,
        )

    def restore(self) -> None:
        """The step as written; weights were moved by the user's own loop, in a run thrown away."""
        self._step.to(Mode.WRITTEN)()

    def _between_s(self) -> tuple[float, float]:
        found = self._between
        if not found.wall_s:
            return 0.0, 0.0
        return statistics.fmean(found.wall_s), statistics.fmean(found.busy_s)


class _OtherRunner(LoopRunner):
    """The step on another batch, which it may not take.

    Args:
        subject: Whose step.
        call: With that batch.
        times: Of how many times as many samples.
    """

    def __init__(self, subject: StepLoopSubject, call: StepCall, times: int = 1) -> None:
        super().__init__(subject.board, _other_epoch, None)
        self._subject = subject
        self._call = call
        self._times = times

    def _run(self, seconds: float, *, whole: bool) -> Block:
        self._subject.use(self._call)
        try:
            found = super()._run(seconds, whole=whole)
            refused = self._subject.refused()
        finally:
            self._subject.use(None)
        if refused is not None:
            raise refused
        return dataclasses.replace(found, samples=self._times * found.samples)


def _other_epoch() -> Iterator[str]:
    return itertools.repeat(_OTHER)


def _as_it_is() -> Iterator[str]:
    return itertools.repeat(_AS_IT_IS)


def _resident_epoch() -> Iterator[str]:
    return itertools.repeat(_RESIDENT)


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()
