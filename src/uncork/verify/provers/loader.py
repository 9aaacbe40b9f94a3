"""Runs the epochs that the proof of a loader's edit compares."""

from __future__ import annotations

import time
from typing import Any

from uncork.compat.random_state import random_state, set_random_state
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.pipeline.equivalence.digests import ElementDigests, EpochDigests, element_digest
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pycode.purity.index_dependence import find_dependence
from uncork.pycode.purity.random_draws import (
    copy_noting_random_batches,
    copy_with_fixed_random_state,
)
from uncork.training.input.array_feed import array_feed_edits
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.variant import Variant
from uncork.verify.criteria.elements import prove_elements
from uncork.verify.provers.pipeline import PipelineProver

# Batches that are compared: with threads racing for them, a wrong order shows early or never.
_MOST = 256
# Seconds for arrays, whose batches are quick to make.
_ARRAYS_S = 15.0


def prove_batches(
    original: Feed,
    edited: Feed,
    model: Any,
    kind: Guarantee,
    *,
    passes: int = 1,
    budget_s: float = 60.0,
) -> Proof:
    """Both give the same batches in the same order, the order of a shuffled epoch included.

    A loader that draws random numbers is ``resampled`` at best: where all of its batches are drawn
    from equal states, they must be equal.

    They are read from the same random states, for two epochs: what is kept shows in the second one.
    A loader that does something of its own between them would do it twice; of that one is read.

    Args:
        original: The user's.
        edited: The same data, read otherwise.
        model: Whose ``fit`` it feeds.
        kind: What is being proved.
        passes: Epochs to read; what is kept shows in the second one.
        budget_s: Seconds for both.
    """
    needs = find_dependence(original.x)
    if needs == "more":
        return _failed(kind, "the loader depends on more than its index and random numbers")
    if needs == "draws" and kind == "exact":
        return _failed(kind, "the order in which batches draw random numbers is not fixed")
    if needs == "index" and kind != "exact":
        return _failed(kind, "the loader draws no random numbers that could differ")
    drew: list[int] = []
    if needs == "draws":
        original, edited = (
            f.with_dataset(copy_with_fixed_random_state(f.x)) for f in (original, edited)
        )
    else:
        original = original.with_dataset(copy_noting_random_batches(original.x, drew))
    random = random_state()
    try:
        ours = _epochs(original, model, passes, budget_s / 2)
        set_random_state(random)
        theirs = _epochs(edited, model, passes, budget_s / 2)
    finally:
        set_random_state(random)
    if drew:
        return _failed(kind, f"batch {drew[0]} draws random numbers, others do not")
    return prove_elements(ours, theirs, kind, require_complete=False)


def prove_arrays(feed: Feed, model: Any, kind: Guarantee, budget_s: float) -> Proof:
    """The pipeline that Keras makes of arrays gives the same batches, in the same order.

    Args:
        feed: The user's.
        model: Whose ``fit`` it feeds.
        kind: What is being proved.
        budget_s: Seconds for both.
    """
    pipeline = read_pipeline(feed.batches_dataset(model))
    try:
        candidate = Variant(pipeline).with_pipeline_edits(array_feed_edits(pipeline))
    except EditRefused as refusal:
        return _failed(kind, refusal.received)
    return PipelineProver(pipeline).prove(candidate, kind, min(budget_s, _ARRAYS_S))


def _failed(kind: Guarantee, detail: str) -> Proof:
    return Proof(kind=kind, passed=False, detail=detail)


def _epochs(feed: Feed, model: Any, passes: int, seconds: float) -> ElementDigests:
    found = []
    with feed.open_epoch_iterator(model) as epochs:
        for _ in range(passes):
            found.append(_epoch(epochs, seconds / passes))
            epochs.reset()
    return ElementDigests(tuple(found))


def _epoch(epochs: Any, seconds: float) -> EpochDigests:
    found: list[str] = []
    deadline = time.monotonic() + seconds
    with epochs.catch_stop_iteration():
        for begin, end, iterator in iterate_executions(epochs):
            for _ in range(begin, end + 1):
                found.append(element_digest(next(iterator)))
                if len(found) >= _MOST or time.monotonic() > deadline:
                    return EpochDigests(tuple(found), is_complete=False)
    return EpochDigests(tuple(found), is_complete=True)
