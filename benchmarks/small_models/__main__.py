"""How much of a small step is Keras's loop, and how much of that do the road's steps take away?

    python -m benchmarks.small_models [--rounds 6] [--rows 6400] [--only NAME] [--record]

``fit`` as introductions show it, with one lever at a time, with all exact ones, on arrays as Keras
and as ``array_feed`` read them, the loop that an expert would write, and the same ``fit`` on
Keras's jax backend in a process of its own, in turn; ratios are within rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from benchmarks.small_models.by_hand import WholeEpoch
from benchmarks.small_models.models import BATCH, MODELS, ROWS, compiled
from benchmarks.small_models.on_jax import OnJax
from uncork.core.base.measurement import Comparison, compare
from uncork.core.base.record import to_json
from uncork.core.edits.pipeline import AutotuneOff
from uncork.core.edits.step import (
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    StepEdit,
    StepsPerExecution,
)
from uncork.measure.benchmark.interleave import Block, measure_blocks_interleaved, summarize
from uncork.measure.machine.probe import probe_host
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.training.input.feed import Feed
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot

_RECORDS: Final = Path(__file__).parents[1] / "records"
_BLOCK_S: Final = 1.0
_GROUPED: Final = StepsPerExecution(steps=50)
_LEVERS: Final[dict[str, tuple[StepEdit, ...]]] = {
    "fit": (),
    "steps_per_execution": (_GROUPED,),
    "flat_updates": (FlatUpdates(),),
    "fused_updates": (FusedUpdates(),),
    "jit_compile": (JitCompile(),),
    "both exact": (_GROUPED, FlatUpdates()),
    "grouped, fused": (_GROUPED, FusedUpdates()),
    "three": (_GROUPED, FlatUpdates(), FusedUpdates()),
    "with jit_compile": (_GROUPED, FlatUpdates(), JitCompile()),
    "all": (_GROUPED, FlatUpdates(), FusedUpdates(), JitCompile()),
}
_OF_ARRAYS: Final[dict[str, tuple[StepEdit, ...]]] = {
    "array_feed": (),
    "array_feed, grouped, fused": _LEVERS["grouped, fused"],
    "array_feed, all": _LEVERS["all"],
}
_TUNER_OFF: Final[dict[str, tuple[StepEdit, ...]]] = {
    "autotune_off": (),
    "autotune_off, all": _LEVERS["all"],
}
_ON_JAX: Final = "keras_backend"
_BY_HAND: Final = {"by hand": False, "by hand, fused": True}


def main() -> int:
    """Exit code 0 when every model was trained every way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the arrays; MNIST has 60000")
    parser.add_argument("--only", default="", help="models whose names begin so")
    parser.add_argument("--record", nargs="?", const="small-models", help="keep a dated record")
    options = parser.parse_args()
    chosen = [name for name in MODELS if name.startswith(options.only)]
    found = {name: _measured(name, options.rounds, options.rows) for name in chosen}
    machine = probe_host()
    text = _page(found, options, f"{machine.cpu_model}, {machine.cpus:g} cores")
    print(text)
    if options.record:
        _record(found, machine, text, options.record)
    return 0


def _measured(name: str, rounds: int, rows: int) -> dict[str, list[Block]]:
    model, x, y = compiled(name, rows)
    slices = tf.data.Dataset.from_tensor_slices((x, y))
    data = slices.shuffle(len(x)).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    feed, snapshot = Feed.from_arguments({"x": data}), Snapshot(model)
    runners: dict[str, Any] = {
        lever: FitRunner(StepSettings(model, edits), feed, snapshot, float(BATCH))
        for lever, edits in _LEVERS.items()
    }
    pipeline = read_pipeline(data)
    untuned = apply_edit(pipeline, AutotuneOff(expected_digest=pipeline.digest)).dataset
    for way, edits in _TUNER_OFF.items():
        settings = StepSettings(model, edits)
        runners[way] = FitRunner(
            settings, Feed.from_arguments({"x": untuned}), snapshot, float(BATCH)
        )
    arrays = Feed.from_arguments({"x": x, "y": y, "batch_size": BATCH})
    runners["arrays"] = FitRunner(StepSettings(model), arrays, snapshot, float(BATCH))
    for way, edits in _OF_ARRAYS.items():
        fed = arrays.with_single_threaded_arrays()
        runners[way] = FitRunner(StepSettings(model, edits), fed, snapshot, float(BATCH))
    for way, fused in _BY_HAND.items():
        runners[way] = WholeEpoch(model, x, y, fused=fused)
    runners[_ON_JAX] = on_jax = OnJax(name, rows)
    try:
        for runner in runners.values():
            runner.prime()
        found = measure_blocks_interleaved(list(runners.values()), block_s=_BLOCK_S, rounds=rounds)
    finally:
        on_jax.close()
    print(f"{name}: {_speed(found[0]):,.0f} samples/s", file=sys.stderr, flush=True)
    return dict(zip(runners, found, strict=True))


def _speed(blocks: list[Block]) -> float:
    return summarize(blocks).samples_per_s


def _against(found: dict[str, list[Block]], way: str) -> Comparison:
    speeds = ([block.samples_per_s for block in found[each]] for each in ("fit", way))
    return compare(*speeds)


def _page(
    found: dict[str, dict[str, list[Block]]], options: argparse.Namespace, machine: str
) -> str:
    ways = [*_LEVERS, *_TUNER_OFF, "arrays", *_OF_ARRAYS, *_BY_HAND, _ON_JAX]
    lines = [
        f"# Small models, {datetime.date.today().isoformat()}",
        "",
        f"{machine}; TensorFlow {tf.__version__}; {options.rows:,} rows, batch {BATCH}, Adam; "
        f"{options.rounds} blocks of {_BLOCK_S:g} s of each way in turn. `fit` in samples/s, the "
        "others against it, with 95 % "
        "intervals.",
        "",
        f"| model | {' | '.join(ways)} |",
        f"|---|{'---|' * len(ways)}",
    ]
    for name, blocks in found.items():
        cells = [f"{_speed(blocks['fit']):,.0f}/s"]
        for way in ways[1:]:
            c = _against(blocks, way)
            cells.append(f"{c.ratio:.2f}x ({c.low:.2f} to {c.high or 0:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _record(
    found: dict[str, dict[str, list[Block]]], machine: Any, text: str, record_name: str
) -> None:
    date = datetime.date.today().isoformat()
    speeds = {
        name: {way: [b.samples_per_s for b in blocks] for way, blocks in ways.items()}
        for name, ways in found.items()
    }
    record = {"date": date, "machine": json.loads(to_json(machine)), "samples_per_s": speeds}
    (_RECORDS / f"{record_name}-{date}.json").write_text(json.dumps(record, indent=1) + "\n")
    (_RECORDS / f"{record_name}-{date}.md").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
