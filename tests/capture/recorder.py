"""A listener that remembers, and what the scripts under it have in common."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

from uncork.capture.base.listener import FitCall, LoopCall, PassThroughListener, StepCall


def line(offset: int = 0) -> int:
    """The number of the calling line, or of one near it."""
    return sys._getframe(1).f_lineno + offset


class Recorder(PassThroughListener):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.fits: list[FitCall] = []
        self.loops: list[LoopCall] = []
        self.steps: list[StepCall] = []
        self.iterated: list[str] = []

    def fit(self, call: FitCall):
        self.fits.append(call)
        return super().fit(call)

    def loop(self, call: LoopCall, first):
        self.loops.append(call)
        return super().loop(call, first)

    def step_loop(self, call: StepCall):
        self.steps.append(call)
        return super().step_loop(call)

    def dataset(self, dataset, at):
        self.iterated.append(at)
        return super().dataset(dataset, at)


def at(line_number: int) -> str:
    """As Uncork names a line of the calling file."""
    caller = Path(sys._getframe(1).f_code.co_filename)
    return f"{caller.relative_to(Path.cwd())}:{line_number}"


def make_step(model, optimizer):
    """An eager training step."""

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step
