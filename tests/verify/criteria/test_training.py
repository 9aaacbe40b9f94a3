"""The proof of another training, and the trainings that it must not believe."""

from __future__ import annotations

import math
import random

import pytest

from uncork.verify.criteria.training import (
    final_losses,
    orders_needed,
    prove_training,
    samples_to_loss_ratio,
)

NOISE = 0.01


def curves(count, end, *, start=2.0, seed=0, noise=NOISE):
    draw = random.Random(seed)
    return [[(0, start), (500, 1.4), (1000, end + draw.gauss(0, noise))] for _ in range(count)]


def test_as_good_a_training_is_believed():
    proof = prove_training(curves(12, 1.0), curves(12, 1.0, seed=1), 1000)
    assert proof.passed
    assert proof.kind == "training"
    assert "12 data orders" in proof.detail


def test_a_better_one_too():
    assert prove_training(curves(6, 1.0), curves(6, 0.9, seed=1), 1000).passed


@pytest.mark.parametrize("worse", [3, 6, 30])
def test_a_worse_one_is_not(worse):
    proof = prove_training(curves(12, 1.0), curves(12, 1.0 + worse * NOISE, seed=1), 1000)
    assert not proof.passed
    assert "not ruled out" in proof.detail


def test_too_few_orders_show_nothing():
    found = [prove_training(curves(2, 1.0, seed=s), curves(2, 1.0, seed=s + 50), 9) for s in (1, 2)]
    assert not any(proof.passed for proof in found)


def test_where_nothing_was_learned_nothing_can_be_told():
    ours, theirs = (curves(8, 2.0, seed=seed) for seed in (0, 1))
    proof = prove_training(ours, theirs, 1000)
    assert not proof.passed
    assert "too little to detect" in proof.detail


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused(loss):
    broken = [*curves(3, 1.0), [(0, 2.0), (1000, loss)]]
    assert "NaN or infinite" in prove_training(curves(4, 1.0), broken, 1000).detail
    assert "original's loss" in prove_training(broken, curves(4, 1.0), 1000).detail
    assert orders_needed(curves(4, 1.0), broken, 12) == 4


def test_more_orders_where_they_differ_much():
    calm = curves(6, 1.0, noise=1e-5, seed=1)
    wild = curves(6, 1.0, noise=0.05, seed=1)
    assert orders_needed(curves(6, 1.0), calm, 12) == 6
    assert orders_needed(curves(6, 1.0), wild, 12) == 12


def test_what_it_costs_in_samples():
    written = [[(0, 3.0), (100, 2.0), (200, 1.0)], [(0, 3.0), (100, 2.0), (200, 1.0)]]
    assert final_losses(written) == [1.0, 1.0]
    assert samples_to_loss_ratio(written, [[(0, 3.0), (200, 2.0), (400, 0.0)]]) == pytest.approx(
        1.5
    )
    assert samples_to_loss_ratio(written, [[(0, 3.0), (50, 1.0)]]) == pytest.approx(0.25)
    assert samples_to_loss_ratio(written, [[(0, 3.0), (400, 1.5)]]) is None
