"""A custom training loop under examination: the user's code drives, we choose what feeds it.

Its step is the user's own, and is only run otherwise: as a ``tf.function`` what runs op by op,
under XLA what is one. The run is thrown away: the loop's weights after the trials are those of a
training on mixed-up batches.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from uncork.capture.base.listener import LoopCall
from uncork.core.base.errors import NothingToMeasure
from uncork.core.base.measurement import Comparison
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import Precision, of_function, on_device
from uncork.core.evidence.batches import NewShapes
from uncork.core.evidence.loop import Answering, LoopLine, Remade, Waiting
from uncork.core.evidence.model import Transfer
from uncork.engine.loop.device_batches import Compared, epoch_of, made_there
from uncork.engine.loop.grouped_loop import LONGEST_S, grouped_loop, seconds_of_a_call
from uncork.engine.loop.loop_costs import answering_in, loop_lines, waiting_in
from uncork.engine.loop.loop_driver import Switchboard
from uncork.engine.loop.loop_runner import LoopRunner, ResidentRunner, length_of, steps_of_epoch
from uncork.engine.loop.recreated_functions import remade
from uncork.engine.loop.step_lookup import eager_step, step_of_loop
from uncork.engine.loop.step_switch import StepSwitch, Ways
from uncork.engine.subject.data_subset import ShorterData
from uncork.engine.subject.subject import Subject
from uncork.engine.subject.workload_summary import SOME_EPOCHS, assumed, started
from uncork.measure.benchmark.async_backlog import runs_behind
from uncork.measure.profile.function_calls import CompiledCalls, compiled_calls
from uncork.measure.profile.line_profiler import LineTimes
from uncork.measure.profile.python_overhead import outside_ops
from uncork.pipeline.analysis.passes import default_rewrites, repeats
from uncork.pipeline.runtime.trial_copy import readable
from uncork.training.input.feed import batch_samples, spec_text
from uncork.training.input.resident_batches import held
from uncork.training.inspect.module_speed import in_float32
from uncork.training.inspect.replicas import replicas_of
from uncork.training.inspect.transfer import transfer_of
from uncork.training.loop_step.compiled_step import CompiledStep, code_of
from uncork.training.loop_step.mode import Mode
from uncork.training.precision.traced_policy import layers_seen
from uncork.training.tracing.step_info import device_of
from uncork.training.variant import Version, VersionRunner
from uncork.verify.provers.handover import HandedOver
from uncork.verify.provers.keras_calls import answers_otherwise, prove_answers

# Steps in which it is seen what the loop calls.
_WATCHED: Final = 32
_WATCHED_S: Final = 0.5
# In which proofs record what the step is called with.
_RECORDED_S: Final = 0.5


class LoopSubject(Subject):
    """Measures and compares input pipelines under a loop of the user's own.

    Args:
        call: The loop, recognised by the capture layer.
        epochs: How often the loop runs; None where more than once, and nobody knows how often.
        anew: Its dataset is another object each time.
        scratch: Directory for files that a trial would otherwise write into the user's.
    """

    ends_here = True

    def __init__(
        self, call: LoopCall, *, epochs: int | None, scratch: str, anew: bool = False
    ) -> None:
        self.layers = call.layers
        self._behind = runs_behind()
        self._repeated = epochs != 1
        self._pipeline = readable(call.dataset, scratch)
        assert self._pipeline is not None
        if epochs == 1 and repeats(self._pipeline):
            epochs = None  # the data begins anew within the loop
        self.notes = list(assumed(epochs))
        self.start = started(call, epochs)
        self.counted = epochs is not None
        self.first_step_s = call.evidence.first_step_s
        self.original = Version(self._pipeline)
        self.shorter = ShorterData(self.notes)
        self._batches = held(self._pipeline.dataset)
        if not self._batches:
            raise NothingToMeasure(
                f"the data of the loop at {call.at} gives no batch when it is read again",
                "a dataset that can be read more than once",
                "let its generator begin anew each time: from_generator(function, ...)",
            )
        self.workload = Workload(
            index=call.index,
            at=call.at,
            step_at=call.evidence.eager_at,
            policy_at=call.policy_at,
            kind="custom_loop",
            data="tf.data",
            model=None,
            element_spec=spec_text(self._pipeline.element_spec),
            batch_size=batch_samples(self._batches[0]),
            steps_per_epoch=length_of(self._pipeline),
            epochs=epochs or SOME_EPOCHS,
            epochs_assumed=epochs is None,
            pipeline=self._pipeline.digest,
            eager_step=call.evidence.eager_step,
            data_made_anew=anew,
            default_rewrites=default_rewrites(self._pipeline),
        )
        samples = float(self.workload.batch_size or 1)
        self.board = Switchboard(samples, sys.setprofile, call.evidence.steps_seen)
        codes = call.evidence.eager_codes
        self._step = StepSwitch(eager_step(step_of_loop(codes, call.at)))
        self._step.record()
        self._again: partial[Any] | None = None

    def runner(self, version: Version) -> VersionRunner:
        """The user's loop, fed by this version's pipeline.

        Raises:
            EditRefused: The loop does not call the step that is to be compiled, or its batches
                cannot be made where they are to be.
        """
        version = self.on_part(version)
        assert version.pipeline is not None
        switch, check = self._ways(version)
        return LoopRunner(self.board, epoch_of(version), version.pipeline, switch, check)

    def resident(self, version: Version) -> VersionRunner:
        """The user's loop, fed with the same batches over and over."""
        there = made_there(version)
        if there is None:
            return self._resident(*self._ways(version))
        batches = held(there.below)
        return ResidentRunner(self.board, batches, *self._ways(version), there.made)

    def grouped(self, version: Version, resident_s: float) -> VersionRunner | None:
        """Of a step that runs op by op, the same step as a graph: Python between ops is gone.

        Of one that is compiled, if it is all that the loop calls, many of them in one function.
        """
        if self._behind:
            return None
        if not self.workload.eager_step:
            return self._many(version, resident_s)
        if not self._step.may_be_graph(version):
            return None
        runner = self._resident(self._step.to(Mode.GRAPH))
        runner.prime()
        return runner if self._step.may_be_graph(version) else None

    def python_s(self, resident_s: float) -> float | None:
        """What of a resident step passes outside TensorFlow's ops."""
        if self._behind:
            return None
        block, ops = self.board.block(self._resident_epoch, 4 * resident_s, profiled=True)
        return None if ops is None else outside_ops(resident_s, block, ops.seconds)

    def graphs(self, version: Version) -> tuple[str, ...]:
        """What its step was traced to."""
        return self._step.graphs(version)

    def in_policy(self, version: Version, policy: Precision) -> Version | None:
        """Its step traced anew, where the loop calls one."""
        self._know_step()
        return self._step.in_policy(version, policy, self.seen().kept_in(policy))

    def in_float32(self, block_s: float) -> Comparison | None:
        """The model by itself, of a loop whose step is not one function."""
        if self.layers is None or self.workload.batch_size is None:
            return None
        return in_float32(self.layers, self.workload.batch_size, block_s)

    def waiting(self, seconds: float) -> Waiting | None:
        """In the loop as it runs."""
        runner = self.runner(self.original)
        return None if self.workload.eager_step else waiting_in(runner, seconds)

    def transfer(self, version: Version) -> Transfer | None:
        """Of a batch, to where the variables are of the one compiled function that is the step.

        Raises:
            EditRefused: As :meth:`runner`.
        """
        if self.workload.eager_step or self.seen().replicas > 1:
            return None
        self._know_step()
        if self._again is None:
            return None
        there = made_there(version)
        batches = self._batches if there is None else held(there.below)
        largest = max(batches, key=lambda batch: batch_samples(batch) or 0)
        return transfer_of(largest, device_of(self._again.func))

    def new_shapes(self, step_s: float, seconds: float) -> NewShapes | None:
        """Of the one compiled function that is the step, where XLA compiles it."""
        del step_s
        if self.workload.eager_step or len(self._batches) < 2 or self.seen().replicas > 1:
            return None
        self._know_step()
        assert self._pipeline is not None
        call = self.resident(self.original).prime
        return self._step.new_shapes(self._batches, self._pipeline, call, seconds)

    def answering(self, seconds: float) -> Answering | None:
        """In the loop as it runs."""
        return answering_in(self.runner(self.original), seconds)

    def remade(self, step_s: float) -> Remade | None:
        """Functions that the loop calls, if the script makes them for each epoch."""
        if self.workload.eager_step:
            return None
        called = self._called(min(step_s, _WATCHED_S / _WATCHED))
        with suppress(Exception):  # a function that only its own loop can call
            return remade(called, step_s, repeated=self._repeated)
        return None

    def loop_lines(self, seconds: float) -> tuple[LoopLine, ...]:
        """On a resident batch, watched and not."""
        if self.workload.eager_step:
            return ()
        times = LineTimes()
        before, _ = self.board.block(self._resident_epoch, seconds)
        watched, _ = self.board.block(self._resident_epoch, seconds, lines=times)
        after, _ = self.board.block(self._resident_epoch, seconds)
        alone = (block.wall_s / block.steps for block in (before, after))
        return loop_lines(times, watched.steps, statistics.fmean(alone))

    def seen(self) -> Workload:
        """The workload; a loop that leaves its data early has epochs of that length."""
        assert self._pipeline is not None
        steps = steps_of_epoch(self._pipeline, self.board)
        replicas = replicas_of(self.layers.known()) if self.layers else 1
        return self._step.described(
            replace(
                self.workload,
                steps_per_epoch=steps,
                replicas=replicas,
                **layers_seen(self.layers),
            )
        )

    def prove_step(self, version: Version, kind: Guarantee, budget_s: float) -> Proof:
        """Run recorded calls of the step as written and otherwise, on the loop's own thread."""
        as_it_is = self.runner(self.original)
        if answers_otherwise(version.step):
            return prove_answers(lambda: as_it_is.block(_RECORDED_S))
        there = made_there(version)
        if there is not None:
            return self._prove_made_there(version, kind, budget_s, Compared(there))
        return self._step.prove(
            version,
            kind,
            budget_s,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident(self.original).prime,
        )

    def _prove_made_there(
        self, version: Version, kind: Guarantee, budget_s: float, compared: Compared
    ) -> Proof:
        """The batches themselves, and what the step makes of them."""
        self._know_step()
        runner = LoopRunner(self.board, compared.epoch, None, *self._ways(self.original))
        proof = self._step.prove(
            version,
            kind,
            budget_s,
            run_steps=lambda: runner.block(_RECORDED_S),
            call_once=self.resident(self.original).prime,
            compared=compared,
        )
        return compared.judged(proof, kind)

    def hand_over(self, version: Version, budget_s: float) -> HandedOver | None:
        """Recorded calls of the step, and what they lead to from its state."""
        del version, budget_s
        self._know_step()
        as_it_is = self.runner(self.original)
        return self._step.hand_over(
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident(self.original).prime,
        )

    def prove_elsewhere(self, version: Version, handed: HandedOver) -> Proof:
        """Make the calls that were recorded there."""
        self._know_step()
        as_it_is = self.runner(self.original)
        return self._step.prove_elsewhere(
            version,
            handed,
            run_steps=lambda: as_it_is.block(_RECORDED_S),
            call_once=self.resident(self.original).prime,
        )

    def restore(self) -> None:
        """The step as written; weights were moved by the user's own loop, in a run thrown away."""
        self._step.to(Mode.WRITTEN)()

    def _ways(self, version: Version) -> Ways:
        if of_function(version.step):
            self._know_step()
        return self._step.ways(version)

    def _know_step(self) -> None:
        if not self._step.known:
            self._find_step(_WATCHED_S / _WATCHED)  # nobody has asked for grouped steps before

    def _many(self, version: Version, resident_s: float) -> VersionRunner | None:
        if not self._step.known:
            self._find_step(resident_s)
        # A group is traced from the function as written.
        is_another = of_function(version.step) or on_device(version.step)
        if self._again is None or resident_s > LONGEST_S or is_another:
            return None
        return grouped_loop(self._again, float(self.workload.batch_size or 1))

    def untraced_s(self, seconds: float) -> float | None:
        """Of the one compiled function that the loop calls, on one of its calls."""
        if not self._step.known:
            self._find_step(_WATCHED_S / _WATCHED)
        return None if self._again is None else seconds_of_a_call(self._again, seconds)

    def _find_step(self, resident_s: float) -> None:
        """The one compiled function that the loop calls, and calls once for each batch."""
        before = self.board.given
        found = self._called(min(resident_s, _WATCHED_S / _WATCHED))
        calls_for_a_batch = found.count / max(1, self.board.given - before)
        if len(found.calls) != 1 or round(calls_for_a_batch, 1) != 1:
            return
        self._again = found.calls[0]
        self.workload = replace(self.workload, called_at=found.at)
        if found.by_users and code_of(self._again.func):
            self._step = StepSwitch(CompiledStep(self._again.func))

    def _called(self, resident_s: float) -> CompiledCalls:
        """What the loop calls in a few steps."""
        with compiled_calls() as found:
            self.board.block(self._resident_epoch, _WATCHED * resident_s)
        return found

    def _resident(
        self, switch: Callable[[], None], check: Callable[[], None] = lambda: None
    ) -> LoopRunner:
        return ResidentRunner(self.board, self._batches, switch, check)

    def _resident_epoch(self) -> Iterator[Any]:
        return itertools.cycle(self._batches)
