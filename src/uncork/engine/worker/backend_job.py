"""A training on another backend of Keras's: is it the same training, and how fast is it?"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Final

import keras

from uncork.capture.base.listener import FitCall
from uncork.capture.base.stop import StopScript
from uncork.core.base.errors import NothingToMeasure
from uncork.core.base.machine import Machine
from uncork.core.base.record import replace
from uncork.core.documents.job import BackendJob, Confirmation, JobResult, ProcessTrial
from uncork.core.documents.plan import Proof
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.subject.subject import Subject
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.benchmark.interleave import summarize
from uncork.measure.machine.devices import detect_machine as this_machine
from uncork.training.run.timed_fit import FitTiming, time_fit
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.loss_value import find_logged_loss
from uncork.verify.criteria.precision import LOSS_WINDOWS, NO_LOSS_REASON, prove_precision
from uncork.verify.provers.handover import FitHandover

_BLOCKS: Final = 4
_BLOCK_S: Final = 1.0


class BackendListener(JobListener):
    """Acts on the ``fit`` that a plan was made for, in a process that was started on the backend.

    It does so for a :class:`BackendJob`, and for what confirms a plan with another backend.
    """

    wants_source_lines = False

    def fit(self, call: FitCall) -> Any:
        """Let earlier ones happen; prove and time the one that is meant."""
        if call.index != self.job.training_index:
            return call.original(**call.arguments)
        assert self.plan is not None
        arguments = {
            **call.arguments,
            "x": PlanListener(self.plan, strict=True).training_data(call),
        }
        proof = None
        if isinstance(self.job, BackendJob):
            proof = prove_backend(call.model, FitHandover.read(Path(self.job.handover_path)))
        self._finish_with(_result(self._timed(call, arguments), proof))
        raise StopScript

    def _timed(self, call: FitCall, arguments: dict[str, Any]) -> FitTiming:
        assert self.plan is not None
        samples = float(self.plan.before.workload.batch_size or 1)
        found = time_fit(
            call.original,
            arguments,
            samples_per_step=samples,
            block_count=_BLOCKS,
            block_s=_BLOCK_S,
        )
        if not found.blocks:
            raise NothingToMeasure(
                "the training ended before it was timed", "a training that continues", "tune again"
            )
        return found

    def run_on(self, subject: Subject, machine: Machine) -> JobResult:
        """There is no subject: what looks into a step is made for TensorFlow's."""
        raise NotImplementedError


def prove_backend(model: Any, handover: FitHandover) -> Proof:
    """Train from the same state over the same batches in the same orders; compare the losses."""
    if not handover.orders:
        return Proof(kind="resampled", passed=False, detail=NO_LOSS_REASON)
    originals = [ReplayResult(losses=losses, weights=[]) for losses in handover.losses]
    candidates = [
        ReplayResult(_losses(model, handover, order), weights=[]) for order in handover.orders
    ]
    found = prove_precision(originals, candidates, len(handover.orders[0]))
    return replace(found, kind="resampled")


def _losses(model: Any, handed: FitHandover, order: list[int]) -> tuple[float, ...]:
    model.set_weights(handed.weights)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    for variable, value in zip(model.optimizer.variables, handed.optimizer_variables, strict=True):
        variable.assign(value)
    losses = []
    for index in order:
        model.reset_metrics()
        batch = keras.utils.unpack_x_y_sample_weight(handed.batches[index])
        losses.append(find_logged_loss(model.train_on_batch(*batch, return_dict=True))[1])
    length = len(order) // LOSS_WINDOWS
    parts = (losses[k * length : (k + 1) * length] for k in range(LOSS_WINDOWS))
    return tuple(statistics.fmean(part) for part in parts)


def _result(timed: FitTiming, proof: Proof | None) -> JobResult:
    machine, measured = this_machine(), summarize(timed.blocks)
    if proof is None:
        confirmation = Confirmation(measurement=measured, first_epoch_s=timed.first_epoch_s)
        return JobResult(machine=machine, confirmation=confirmation)
    return JobResult(machine=machine, process_trial=ProcessTrial(measurement=measured, proof=proof))
