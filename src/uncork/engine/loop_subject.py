"""A custom training loop under examination: the user's code drives, we choose what feeds it.

Its step is the user's own, and is only run otherwise: as a ``tf.function`` what runs op by op,
under XLA what is one. The run is thrown away: the loop's weights after the trials are those of a
training on mixed-up batches.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from uncork.capture import LoopCall
from uncork.core.edit import Guarantee, Precision, of_function
from uncork.core.errors import NothingToMeasure
from uncork.core.facts import Answering, LoopLine, Remade, Waiting
from uncork.core.measurement import Comparison
from uncork.core.plan import Proof
from uncork.core.record import replace
from uncork.core.workload import Workload
from uncork.engine.briefs import SOME_EPOCHS, assumed, started
from uncork.engine.call_proofs import answers_otherwise, prove_answers
from uncork.engine.grouped_loop import LONGEST_S, grouped_loop, seconds_of_a_call
from uncork.engine.loop_lines import loop_lines
from uncork.engine.loop_steps import StepSwitch, Ways, eager_step, step_of_loop
from uncork.engine.loop_waits import answering_in, waiting_in
from uncork.engine.pipelines import default_rewrites, fill_caches, readable, repeats
from uncork.engine.remade import remade
from uncork.engine.subject import Subject
from uncork.engine.switchboard import Switchboard
from uncork.engine.version import Version, VersionRunner
from uncork.measure.backlog import runs_behind
from uncork.measure.compiled_calls import CompiledCalls, compiled_calls
from uncork.measure.interleave import Block
from uncork.measure.line_times import LineTimes
from uncork.measure.python_time import outside_ops
from uncork.measure.settle import settle
from uncork.pipeline import Pipeline, from_disk
from uncork.step import (
    CompiledStep,
    Mode,
    batch_samples,
    code_of,
    held,
    in_float32,
    policies_of,
    random_layers_of,
    replicas_of,
    spec_text,
)

# Epochs up to so long are timed whole where the loop leaves its data early.
_LEFT_EARLY_S: Final = 4.0
# Steps that tell how long an epoch is.
_TELLING: Final = 8
# Steps in which it is seen what the loop calls.
_WATCHED: Final = 32
_WATCHED_S: Final = 0.5
# In which proofs record what the step is called with.
_RECORDED_S: Final = 0.5


class LoopRunner(VersionRunner):
    """Lets the loop run on some batches.

    Where epochs are shorter than a block, whole ones are timed, as in a ``fit``; so are longer ones
    of a loop that leaves its data before the end, as what was made ahead in vain belongs to them.
    Whether epochs are short is seen once, and holds for all runners: blocks that are to be compared
    are of one kind.

    Args:
        board: The loop's other end.
        epoch: Makes an iterator over one epoch of batches.
        pipeline: Where they come from, None for a resident batch.
        switch: Called before each block, to set up the loop's step.
        check: Called after the first steps; raises where the step cannot be run so.
    """

    def __init__(
        self,
        board: Switchboard,
        epoch: Callable[[], Iterator[Any]],
        pipeline: Pipeline | None,
        switch: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = board
        self._epoch = epoch
        self._pipeline = pipeline
        self._switch = switch
        self._check = check

    def prime(self) -> float:
        """Fill caches and let the loop run its first steps; seconds it took."""
        begin = time.perf_counter()
        if self._pipeline is not None:
            fill_caches(self._pipeline)
        self._run(self._unknown_s(), whole=False)
        self._check()
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """None: the loop's own epochs are not ours to count."""
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        """Let the loop run for about so long."""
        longest_s = max(seconds, _LEFT_EARLY_S) if self._left_early() else seconds
        return self._run(seconds, whole=self._board.epoch_s <= longest_s)

    def _left_early(self) -> bool:
        if self._pipeline is None or not self._board.steps_before_left:
            return False
        length = _length(self._pipeline)
        return length is None or self._board.steps_before_left < length

    def _unknown_s(self) -> float:
        """How long to wait, once, for the loop to leave data that has no end."""
        pipeline, board = self._pipeline, self._board
        unknown = pipeline is not None and steps_of_epoch(pipeline, board) is None
        return board.seconds_to_look() if unknown else 0.0

    def _run(self, seconds: float, *, whole: bool) -> Block:
        from_disk(self._pipeline)
        self._switch()  # the loop waits for a batch: none of its steps is running
        settle()
        if self._pipeline is None:
            return self._board.block(self._epoch, seconds)[0]
        found, _ = self._board.block(self._epoch, seconds, whole=whole, anew=True)
        steps = steps_of_epoch(self._pipeline, self._board)
        if steps and math.isinf(self._board.epoch_s) and found.steps >= min(steps, _TELLING):
            self._board.epoch_s = steps * found.wall_s / found.steps
        return found


class ResidentRunner(LoopRunner):
    """Lets the loop run on batches from memory."""

    def __init__(
        self,
        board: Switchboard,
        batches: Sequence[Any],
        switch: Callable[[], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(board, lambda: itertools.cycle(batches), None, switch, check)
        self._batches = batches

    def prime(self) -> float:
        """Let the loop run a step on each of them: one may be compiled for its shape."""
        begin = time.perf_counter()
        self._switch()
        first = [*self._batches, *self._batches[:1]]
        self._board.block(lambda: iter(first), 0.0, whole=True)
        self._check()
        return time.perf_counter() - begin


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
            steps_per_epoch=_length(self._pipeline),
            epochs=epochs or SOME_EPOCHS,
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
            EditRefused: The loop does not call the step that is to be compiled.
        """
        assert version.pipeline is not None
        dataset = version.pipeline.dataset
        switch, check = self._ways(version)
        return LoopRunner(self.board, lambda: iter(dataset), version.pipeline, switch, check)

    def resident(self, version: Version) -> VersionRunner:
        """The user's loop, fed with the same batches over and over."""
        return self._resident(*self._ways(version))

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
        policies = policies_of(self.layers) if self.layers else ()
        drawing = random_layers_of(self.layers) if self.layers else ()
        return self._step.described(
            replace(
                self.workload,
                steps_per_epoch=steps,
                replicas=replicas,
                layer_policies=policies,
                random_layers=drawing,
            )
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
        if self._again is None or resident_s > LONGEST_S or of_function(version.step):
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
        if code_of(self._again.func):
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


def steps_of_epoch(pipeline: Pipeline, board: Switchboard) -> int | None:
    """How many batches a pass over the data takes, or the loop before it is left."""
    known = [n for n in (_length(pipeline), board.steps_before_left) if n]
    return min(known, default=None)


def _length(pipeline: Pipeline) -> int | None:
    return pipeline.cardinality if pipeline.cardinality >= 0 else None
