"""Short trainings over the same batches in several orders: what ``precision`` is proved by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from uncork.core.documents.plan import Proof
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.precision import (
    LOSS_WINDOWS,
    MAX_ORDERS,
    MIN_ORDERS,
    orders_needed,
    prove_precision,
)

MAX_STEPS: Final = 400
_STEPS: Final = (40, MAX_STEPS)
# Seconds for all runs together.
_MOST_S: Final = 24.0

# Trains over batches in this order; their losses are averaged in so many windows.
TrainFunction = Callable[[list[int], int], ReplayResult]


def prove_over_orders(
    original: TrainFunction,
    candidate: TrainFunction,
    *,
    batch_count: int,
    budget_s: float,
    start: ReplayResult,
    steps_per_loss: int = 1,
    min_steps: int = 0,
) -> Proof:
    """Train both over the same orders, more of them where their variance asks for it.

    Args:
        original: Trains as the user wrote it.
        candidate: Trains as it is to be proved.
        batch_count: Batches there are.
        budget_s: Seconds for all runs together, as far as ``original`` tells.
        start: Weights that all runs begin with.
        steps_per_loss: Losses are told after so many steps only.
        min_steps: Steps that a run must have.
    """
    steps_per_loss *= LOSS_WINDOWS  # windows must end where losses are told
    steps = _affordable(original, batch_count, min(budget_s, _MOST_S) / (2 * MAX_ORDERS))
    steps = max(steps_per_loss, steps // steps_per_loss * steps_per_loss)
    if steps < min_steps:
        detail = f"there was time for {steps} steps, and several updates of accumulated gradients"
        return Proof(kind="precision", passed=False, detail=f"{detail} take {min_steps}")
    originals: list[ReplayResult] = []
    candidates: list[ReplayResult] = []

    def run(seeds: range) -> None:
        for order in [sample_order(batch_count, steps, seed) for seed in seeds]:
            originals.append(original(order, LOSS_WINDOWS))
            candidates.append(candidate(order, LOSS_WINDOWS))

    run(range(MIN_ORDERS))
    # By the variance alone, never by how the comparison stands; few runs often show too little.
    while (needed := orders_needed(originals, candidates)) > len(originals):
        run(range(len(originals), needed))
    return prove_precision(originals, candidates, steps, start)


def train_over_orders(
    train: TrainFunction, *, batch_count: int, budget_s: float, steps_per_loss: int = 1
) -> tuple[list[list[int]], list[ReplayResult]]:
    """Orders of the data, and what a training makes of each: for another process to compare with.

    Args:
        train: As the user wrote it.
        batch_count: Batches there are.
        budget_s: Seconds for all runs.
        steps_per_loss: Losses are told after so many steps only.
    """
    steps_per_loss *= LOSS_WINDOWS  # windows must end where losses are told
    steps = _affordable(train, batch_count, budget_s / MAX_ORDERS)
    steps = max(steps_per_loss, steps // steps_per_loss * steps_per_loss)
    orders = [sample_order(batch_count, steps, seed) for seed in range(MAX_ORDERS)]
    return orders, [train(order, LOSS_WINDOWS) for order in orders]


def sample_order(batch_count: int, steps: int, seed: int) -> list[int]:
    """Passes over so many batches, each in an order of its own.

    Example:
        >>> order = sample_order(3, 7, seed=0)
        >>> sorted(order[:3]), sorted(order[3:6]), len(order)
        ([0, 1, 2], [0, 1, 2], 7)
    """
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(batch_count) for _ in range(-(-steps // batch_count))])
    return [int(index) for index in order[:steps]]


def _affordable(train: TrainFunction, held: int, seconds: float) -> int:
    """Steps that fit into the time, within the limits."""
    least, most = _STEPS
    train(sample_order(held, LOSS_WINDOWS, seed=0), 1)
    few_s, more_s = (_seconds(train, sample_order(held, n, seed=0)) for n in (LOSS_WINDOWS, least))
    # What is there beside the steps is in both.
    step_s = max(1e-6, (more_s - few_s) / (least - LOSS_WINDOWS))
    return int(np.clip((seconds - few_s) / step_s, least, most))


def _seconds(train: TrainFunction, order: list[int]) -> float:
    begin = time.perf_counter()
    train(order, 1)
    return time.perf_counter() - begin
