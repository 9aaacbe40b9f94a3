"""Runs the epochs that the proof of a loader's edit compares."""

from __future__ import annotations

import time
from typing import Any

from uncork.core.edit import Guarantee
from uncork.core.plan import Proof
from uncork.pipeline import ElementDigests
from uncork.pipeline.digests import EpochDigests, element_digest
from uncork.proof.elements import prove_elements
from uncork.step import Feed, dependence, drawn_alike, random_state, set_random_state

# Batches that are compared: with threads racing for them, a wrong order shows early or never.
_MOST = 256


def prove_batches(
    original: Feed, edited: Feed, model: Any, kind: Guarantee, budget_s: float
) -> Proof:
    """Both give the same batches in the same order, the order of a shuffled epoch included.

    A loader that draws random numbers is ``resampled`` at best: where all of its batches are drawn
    from equal states, they must be equal.

    One epoch is read of each, from the same random states. Between two epochs nothing of the loader
    runs but its ``on_epoch_end``, which Keras calls when all threads have ended.

    Args:
        original: The user's.
        edited: The same data, read otherwise.
        model: Whose ``fit`` it feeds.
        kind: What is being proved.
        budget_s: Seconds for both.
    """
    if dependence(original.x) == "draws":
        if kind == "exact":
            return Proof(
                kind=kind, passed=False, detail="which batch draws first is left to chance"
            )
        original, edited = (f.with_dataset(drawn_alike(f.x)) for f in (original, edited))
    random = random_state()
    try:
        ours = _epoch(original, model, budget_s / 2)
        set_random_state(random)
        theirs = _epoch(edited, model, budget_s / 2)
    finally:
        set_random_state(random)
    return prove_elements(ElementDigests((ours,)), ElementDigests((theirs,)), kind, whole=False)


def _epoch(feed: Feed, model: Any, seconds: float) -> EpochDigests:
    found: list[str] = []
    deadline = time.monotonic() + seconds
    with feed.reading(model) as epochs, epochs.catch_stop_iteration():
        for begin, end, iterator in epochs:
            for _ in range(begin, end + 1):
                found.append(element_digest(next(iterator)))
                if len(found) >= _MOST or time.monotonic() > deadline:
                    return EpochDigests(tuple(found), complete=False)
    return EpochDigests(tuple(found), complete=True)
