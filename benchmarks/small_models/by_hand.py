"""An expert's loop: arrays in memory, a whole epoch in one ``tf.function``, fused updates."""

from __future__ import annotations

import time
from typing import Any

import keras
import tensorflow as tf

from benchmarks.small_models.models import BATCH
from uncork.measure.benchmark.interleave import Block


class WholeEpoch:
    """Trains epoch after epoch; nothing of Keras's loop is left, only its model and its loss.

    Args:
        model: Compiled, with Adam.
        x: Its inputs.
        y: Their labels.
        fused: TensorFlow's kernel for Adam, one a weight; otherwise Keras's update.
    """

    def __init__(self, model: Any, x: Any, y: Any, *, fused: bool) -> None:
        self._model, self._steps = model, len(x) // BATCH
        self._x, self._y = tf.constant(x), tf.constant(y)
        self._loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._fused = fused
        zeros = [[tf.Variable(tf.zeros(v.shape)) for v in model.trainable_variables] for _ in "mv"]
        self._m, self._v = zeros
        self._count = tf.Variable(0.0)
        self._epoch = tf.function(self._whole)

    def prime(self) -> None:
        """Trace and compile."""
        self._epoch()

    def block(self, seconds: float) -> Block:
        """As many epochs as fit into the time."""
        epochs, cpu, begin = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - begin < seconds:
            self._epoch()
            epochs += 1
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        steps = epochs * self._steps
        return Block(
            steps=steps, samples=float(steps * BATCH), wall_s=wall_s, cpu_s=cpu_s, warmup_s=0.0
        )

    def _whole(self) -> None:
        order = tf.random.shuffle(tf.range(self._steps * BATCH))
        for step in tf.range(self._steps):
            rows = order[step * BATCH : (step + 1) * BATCH]
            self._step(tf.gather(self._x, rows), tf.gather(self._y, rows))

    def _step(self, x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = self._loss(y, self._model(x, training=True))
        weights = self._model.trainable_variables
        gradients = tape.gradient(loss, weights)
        if not self._fused:
            self._model.optimizer.apply(gradients, weights)
            return
        self._count.assign_add(1.0)
        powers = {
            "beta1_power": tf.pow(0.9, self._count),
            "beta2_power": tf.pow(0.999, self._count),
        }
        for weight, gradient, m, v in zip(weights, gradients, self._m, self._v, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.value.handle,
                m=m.handle,
                v=v.handle,
                **powers,
                lr=0.001,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-7,
                grad=tf.convert_to_tensor(gradient),
            )
