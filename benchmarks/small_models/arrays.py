"""What does Keras's own pipeline of arrays cost a small training, and ``array_feed`` spare of it?

    python -m benchmarks.small_models.arrays [--rounds 6] [--record]

``fit(x, y)`` as it is, read in one thread without the autotuner, and on one batch over and over,
which no feed can beat; in turn, steps one by one and twenty an execution.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.core.base.measurement import compare
from uncork.core.base.record import to_json
from uncork.core.edits.step import StepsPerExecution
from uncork.measure.benchmark.interleave import measure_blocks_interleaved, summarize
from uncork.measure.machine.probe import probe_host
from uncork.training.input.feed import Feed
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot

_RECORDS: Final = Path(__file__).parents[1] / "records"
_BLOCK_S: Final = 0.7
_CHAINED: Final = {"one by one": (), "twenty an execution": (StepsPerExecution(steps=20),)}
_WAYS: Final = ("fit", "array_feed", "resident")
_CLASSES: Final = 10


def _floats(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def _bytes(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 255, shape).astype("uint8")


def _images(stride: int) -> list[Any]:
    convolution = keras.layers.Conv2D(8, 3, stride, activation="relu")
    return [keras.layers.Rescaling(1 / 255), convolution, keras.layers.GlobalAveragePooling2D()]


# What is trained on, the layers before the last one, samples of a batch.
KINDS: Final[dict[str, tuple[Callable[[], Any], Callable[[], list[Any]], int]]] = {
    "30 numbers": (
        lambda: _floats(20_000, 30), lambda: [keras.layers.Dense(32, activation="relu")], 32,
    ),
    "28 x 28": (
        lambda: _floats(10_000, 28, 28, 1), lambda: [*_images(2), keras.layers.Flatten()], 128,
    ),
    "32 x 32 x 3 bytes": (lambda: _bytes(5_000, 32, 32, 3), lambda: _images(2), 64),
    "96 x 96 x 3": (lambda: _floats(2_000, 96, 96, 3), lambda: _images(4), 32),
    "224 x 224 x 3": (
        lambda: _floats(600, 224, 224, 3),
        lambda: [keras.layers.AveragePooling2D(8), keras.layers.Flatten()], 32,
    ),
}  # fmt: skip


def main() -> int:
    """Exit code 0 when every training ran every way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--record", action="store_true", help="keep a dated record")
    options = parser.parse_args()
    found = {
        name: {
            chained: _measured(name, edits, options.rounds) for chained, edits in _CHAINED.items()
        }
        for name in KINDS
    }
    machine = probe_host()
    text = _page(found, options.rounds, f"{machine.cpu_model}, {machine.cpus:g} cores")
    print(text)
    if options.record:
        date = datetime.date.today().isoformat()
        record = {"date": date, "machine": json.loads(to_json(machine)), "samples_per_s": found}
        (_RECORDS / f"arrays-{date}.json").write_text(json.dumps(record, indent=1) + "\n")
        (_RECORDS / f"arrays-{date}.md").write_text(text)
    return 0


def _measured(name: str, edits: Any, rounds: int) -> dict[str, list[float]]:
    made, layers, size = KINDS[name]
    x = made()
    y = np.arange(len(x)) % _CLASSES
    as_given = Feed.from_arguments({"x": x, "y": y, "batch_size": size})
    one = tf.data.Dataset.from_tensors((x[:size], y[:size])).repeat(len(x) // size)
    feeds = (as_given, as_given.with_single_threaded_arrays(), Feed.from_arguments({"x": one}))
    runners = [_runner(x, layers(), edits, feed, size) for feed in feeds]
    for runner in runners:
        runner.prime()
    blocks = measure_blocks_interleaved(runners, block_s=_BLOCK_S, rounds=rounds)
    print(f"{name}: {summarize(blocks[0]).samples_per_s:,.0f}/s", file=sys.stderr, flush=True)
    return {
        way: [block.samples_per_s for block in of_way]
        for way, of_way in zip(_WAYS, blocks, strict=True)
    }


def _runner(x: Any, layers: list[Any], edits: Any, feed: Feed, size: int) -> FitRunner:
    keras.utils.set_random_seed(1)
    inputs = keras.Input(x.shape[1:], dtype=str(x.dtype))
    model = keras.Sequential([inputs, *layers, keras.layers.Dense(_CLASSES)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return FitRunner(StepSettings(model, edits), feed, Snapshot(model), float(size))


def _page(found: dict[str, dict[str, dict[str, list[float]]]], rounds: int, machine: str) -> str:
    lines = [
        f"# Arrays, {datetime.date.today().isoformat()}",
        "",
        f"{machine}; TensorFlow {tf.__version__}; {rounds} blocks of {_BLOCK_S:g} s of each way in "
        "turn. `fit(x, y)` in samples/s, the others against it, with 95 % intervals.",
        "",
        "| rows, steps | fit | array_feed | on one batch over and over |",
        "|---|---|---|---|",
    ]
    for name, chained in found.items():
        for how, ways in chained.items():
            ratios = (compare(ways["fit"], ways[way]) for way in _WAYS[1:])
            cells = [f"{c.ratio:.2f}x ({c.low:.2f} to {c.high or 0:.2f})" for c in ratios]
            speed = sorted(ways["fit"])[len(ways["fit"]) // 2]
            lines.append(f"| {name}, {how} | {speed:,.0f}/s | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
