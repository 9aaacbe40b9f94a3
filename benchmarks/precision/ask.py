"""Ask the proof, as a tuning asks it, about one candidate after the other."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from benchmarks.precision.harms import (
    Harm,
    Harmed,
    coarse_gradients,
    coarse_layers,
    coarse_weights,
    faster_learning,
)
from benchmarks.precision.models import compiled
from uncork.core.base.record import Record
from uncork.core.edits.step import DtypePolicy
from uncork.training.input.feed import Feed
from uncork.training.precision.float32_layers import random_layer_names
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.snapshot import Snapshot, read_weights
from uncork.verify.criteria.rounding import create_nudge
from uncork.verify.provers.data_orders import TrainFunction, prove_over_orders, sample_order

# As a tuning holds them.
_BATCHES: Final = 64
_BYTES: Final = 256 << 20
_BUDGET_S: Final = 24.0

OTHER_DRAWS: Final = "float32, other draws"
ALL_LAYERS: Final = "mixed_bfloat16, dropout too"

Kind = Literal["same", "precision", "harm"]


class Asked(Record, frozen=True, kw_only=True):
    """One answer of the proof.

    Attributes:
        model: Which one.
        seed: That its weights and data were drawn by.
        candidate: What it was held against.
        kind: The same training, another precision, or harm done on purpose.
        kept: The proof passed.
        orders: Data orders that the proof took.
        steps: Of each training.
        bias: How much higher the candidate's loss ended, in standard deviations of the original's
            over data orders; None where a loss is not finite.
        detail: The proof's own words.
    """

    model: str
    seed: int
    candidate: str
    kind: Kind
    kept: bool
    orders: int
    steps: int
    bias: float | None
    detail: str


class Asker:
    """Holds one model against its candidates.

    The original's trainings are kept from one candidate to the next. With them what a training
    costs is unknown to the proof, so that all get as many steps as quick ones do, whatever else the
    machine is doing.

    Args:
        model: Built and compiled.
        feed: What it trains on.
    """

    def __init__(self, model: Any, feed: Feed) -> None:
        self.model = model
        self._snapshot = Snapshot(model)
        self._recording = BatchRecording.from_feed(
            feed, model, max_batches=_BATCHES, max_bytes=_BYTES
        )
        self._written = StepSettings(model)
        self._kept: dict[tuple[int, ...], ReplayResult] = {}

    def under(self, settings: StepSettings) -> TrainFunction:
        """Trains under these settings, over the orders that the proof wants."""
        return lambda order, windows: self._run(settings, order, windows)

    def nudged(self) -> TrainFunction:
        """Trains as written, from weights moved by some units in the last place."""
        seeds = itertools.count()
        return lambda order, windows: self._run(
            self._written, order, windows, disturb=create_nudge(next(seeds))
        )

    def with_other_draws(self) -> TrainFunction:
        """Trains as written, but dropout and the like draw other numbers in each training."""
        seeds = itertools.count(1000)
        return lambda order, windows: self._run(
            self._written, order, windows, disturb=_reseeded(next(seeds))
        )

    def in_other_orders(self) -> TrainFunction:
        """Trains as written, over orders of its own."""
        seeds, held = itertools.count(1000), len(self._recording.batches)
        return lambda order, windows: self._run(
            self._written, sample_order(held, len(order), next(seeds)), windows
        )

    def ask(self, candidate: TrainFunction, *, budget_s: float = _BUDGET_S) -> dict[str, Any]:
        """What the proof says, and the facts that it does not tell."""
        pairs: list[tuple[ReplayResult, ReplayResult]] = []
        steps = 0

        def trained(order: list[int], windows: int) -> ReplayResult:
            nonlocal steps
            steps = len(order)
            pairs.append((self._original(order, windows), candidate(order, windows)))
            return pairs[-1][1]

        held = len(self._recording.batches)
        self._snapshot.restore()
        start = ReplayResult((), read_weights(self.model))
        proof = prove_over_orders(
            self._original, trained, batch_count=held, budget_s=budget_s, start=start
        )
        self._snapshot.restore()
        return {
            "kept": proof.passed,
            "detail": proof.detail,
            "orders": len(pairs),
            "steps": steps,
            "bias": _bias(pairs),
        }

    def _original(self, order: list[int], windows: int) -> ReplayResult:
        key = (windows, *order)
        if key not in self._kept:
            self._kept[key] = self._run(self._written, order, windows)
        return self._kept[key]

    def _run(
        self,
        settings: StepSettings,
        order: list[int],
        windows: int,
        disturb: Callable[[Any], None] | None = None,
    ) -> ReplayResult:
        feed = self._recording.feed(order)
        return run_replay(settings, self._snapshot, feed, windows=windows, disturb=disturb)


def _sizes(
    name: str, harm: Callable[[Any], Harm], *sizes: float
) -> dict[str, tuple[Kind, Callable[[Asker], TrainFunction]]]:
    def of(size: float) -> Callable[[Asker], TrainFunction]:
        return lambda asker: asker.under(Harmed(asker.model, harm(size)))

    return {name.format(size): ("harm", of(size)) for size in sizes}


CANDIDATES: Final[dict[str, tuple[Kind, Callable[[Asker], TrainFunction]]]] = {
    "float32 again": ("same", lambda a: a.under(StepSettings(a.model))),
    "float32, last bits nudged": ("same", Asker.nudged),
    OTHER_DRAWS: ("same", Asker.with_other_draws),
    "float32, other data orders": ("same", Asker.in_other_orders),
    "mixed_bfloat16": ("precision", lambda a: a.under(_policy(a, "mixed_bfloat16"))),
    ALL_LAYERS: ("precision", lambda a: a.under(_policy(a, "mixed_bfloat16", keep=()))),
    "mixed_float16": ("precision", lambda a: a.under(_policy(a, "mixed_float16"))),
    **_sizes("layers, {} bits", coarse_layers, 4, 2, 1),
    **_sizes("gradients, {} bits", coarse_gradients, 0),
    **_sizes("weights after each step, {} bits", coarse_weights, 7, 5, 3),
    **_sizes("learning rate x{}", faster_learning, 0.8, 1.5, 2, 4),
}
# What is asked of a model that float16 breaks.
OF_PLANTED: Final = ("float32 again", "mixed_bfloat16", "mixed_float16")


def ask_all(model: str, seed: int, names: tuple[str, ...] = tuple(CANDIDATES)) -> list[Asked]:
    """All candidates of one model."""
    asker, found = Asker(*compiled(model, seed)), []
    for name in names:
        kind, train = CANDIDATES[name]
        if name in (OTHER_DRAWS, ALL_LAYERS) and not _seeds(asker.model):
            continue
        said = asker.ask(train(asker))
        found.append(Asked(model=model, seed=seed, candidate=name, kind=kind, **said))
    return found


def _seeds(model: Any) -> list[Any]:
    """Variables that generators of random numbers count by."""
    return [v for v in model.variables if v.path.endswith("seed_generator_state")]


def _reseeded(seed: int) -> Callable[[Any], None]:
    def disturb(model: Any) -> None:
        for state in _seeds(model):
            state.assign(np.array([seed, 0], state.dtype))

    return disturb


def _policy(asker: Asker, policy: Any, keep: tuple[str, ...] | None = None) -> StepSettings:
    kept = random_layer_names(asker.model) if keep is None else keep
    return StepSettings(asker.model, (DtypePolicy(policy=policy, float32_layers=kept),))


def _bias(pairs: list[tuple[ReplayResult, ReplayResult]]) -> float | None:
    if not all(run.is_finite for pair in pairs for run in pair):
        return None
    base, other = ([run.losses[-1] for run in runs] for runs in zip(*pairs, strict=True))
    noise = statistics.stdev(base)
    return (statistics.fmean(other) - statistics.fmean(base)) / noise if noise else None
