"""Short trainings over the same batches in several orders: what ``precision`` is proved by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from uncork.core.documents.plan import Proof
from uncork.training.state.arrays import Replay
from uncork.verify.criteria.precision import (
    MOST_ORDERS,
    ORDERS,
    WINDOWS,
    orders_needed,
    prove_precision,
)

MOST_STEPS: Final = 400
_STEPS: Final = (40, MOST_STEPS)
# Seconds for all runs together.
_MOST_S: Final = 24.0

# Trains over batches in this order; their losses are averaged in so many windows.
Train = Callable[[list[int], int], Replay]


def prove_over_orders(
    original: Train,
    candidate: Train,
    *,
    held: int,
    budget_s: float,
    start: Replay,
    unit: int = 1,
    least: int = 0,
) -> Proof:
    """Train both over the same orders, more of them where their variance asks for it.

    Args:
        original: Trains as the user wrote it.
        candidate: Trains as it is to be proved.
        held: Batches there are.
        budget_s: Seconds for all runs together, as far as ``original`` tells.
        start: Weights that all runs begin with.
        unit: Losses are told after so many steps only.
        least: Steps that a run must have.
    """
    unit *= WINDOWS  # windows must end where losses are told
    steps = _affordable(original, held, min(budget_s, _MOST_S) / (2 * MOST_ORDERS))
    steps = max(unit, steps // unit * unit)
    if steps < least:
        detail = f"there was time for {steps} steps, and some updates of accumulated gradients"
        return Proof(kind="precision", passed=False, detail=f"{detail} take {least}")
    originals: list[Replay] = []
    candidates: list[Replay] = []

    def run(seeds: range) -> None:
        for order in [order_of(held, steps, seed) for seed in seeds]:
            originals.append(original(order, WINDOWS))
            candidates.append(candidate(order, WINDOWS))

    run(range(ORDERS))
    # By the variance alone, never by how the comparison stands; few runs often show too little.
    while (needed := orders_needed(originals, candidates)) > len(originals):
        run(range(len(originals), needed))
    return prove_precision(originals, candidates, steps, start)


def some_orders(
    train: Train, *, held: int, budget_s: float, unit: int = 1
) -> tuple[list[list[int]], list[Replay]]:
    """Orders of the data, and what a training makes of each: for another process to compare with.

    Args:
        train: As the user wrote it.
        held: Batches there are.
        budget_s: Seconds for all runs.
        unit: Losses are told after so many steps only.
    """
    unit *= WINDOWS  # windows must end where losses are told
    steps = _affordable(train, held, budget_s / MOST_ORDERS)
    steps = max(unit, steps // unit * unit)
    orders = [order_of(held, steps, seed) for seed in range(MOST_ORDERS)]
    return orders, [train(order, WINDOWS) for order in orders]


def order_of(held: int, steps: int, seed: int) -> list[int]:
    """Passes over so many batches, each in an order of its own.

    Example:
        >>> order = order_of(3, 7, seed=0)
        >>> sorted(order[:3]), sorted(order[3:6]), len(order)
        ([0, 1, 2], [0, 1, 2], 7)
    """
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(held) for _ in range(-(-steps // held))])
    return [int(index) for index in order[:steps]]


def _affordable(train: Train, held: int, seconds: float) -> int:
    """Steps that fit into the time, within the limits."""
    least, most = _STEPS
    train(order_of(held, WINDOWS, seed=0), 1)
    few_s, more_s = (_seconds(train, order_of(held, n, seed=0)) for n in (WINDOWS, least))
    # What is there beside the steps is in both.
    step_s = max(1e-6, (more_s - few_s) / (least - WINDOWS))
    return int(np.clip((seconds - few_s) / step_s, least, most))


def _seconds(train: Train, order: list[int]) -> float:
    begin = time.perf_counter()
    train(order, 1)
    return time.perf_counter() - begin
