"""The same ``fit`` on Keras's jax backend, in a process of its own that is asked for blocks.

python -m benchmarks.small_models.on_jax MODEL ROWS    reads seconds of a block, writes the block
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from uncork.measure.benchmark.interleave import Block


class OnJax:
    """A runner: prime it, then ask for blocks.

    Args:
        name: Of the model.
        rows: Of its arrays.
    """

    def __init__(self, name: str, rows: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, name, str(rows)],
            env={**os.environ, "KERAS_BACKEND": "jax"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def prime(self) -> float:
        """Start up and compile."""
        return self.block(0.1).wall_s

    def block(self, seconds: float) -> Block:
        """Train for about so long, warm."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return Block(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def main(name: str, rows: int) -> int:
    """Answer until nobody asks any more."""
    import tensorflow as tf  # noqa: PLC0415 - the backend is chosen by then

    from benchmarks.small_models.models import BATCH, compiled  # noqa: PLC0415
    from uncork.training.run.timed_fit import time_fit  # noqa: PLC0415

    model, x, y = compiled(name, rows)
    slices = tf.data.Dataset.from_tensor_slices((x, y))
    data: Any = slices.shuffle(len(x)).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    for line in sys.stdin:
        given = {"x": data, "shuffle": False}
        found = time_fit(
            model.fit, given, samples_per_step=float(BATCH), block_count=1, block_s=float(line)
        )
        (block,) = found.blocks
        told = {"steps": block.steps, "samples": block.samples, "wall_s": block.wall_s}
        print(json.dumps({**told, "cpu_s": block.cpu_s, "warmup_s": 0.0}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
