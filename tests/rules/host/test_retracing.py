from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.rules.host import retracing, small_steps


def found(tracing, *stages, **workload):
    shares = {"input": 0.9, "step": 0.1}
    diagnosis = observed(*stages, shares=shares, tracing_share=tracing, workload=workload)
    return list(retracing.find(diagnosis, MACHINE))


def test_tracing_in_every_step_is_named():
    (finding,) = found(0.6)
    assert finding.cause == "retracing"
    assert finding.at == "train.py:41"
    assert finding.upper_bound == pytest.approx(2.5)
    assert "60 ms of a 100 ms step" in finding.evidence


def test_the_first_traces_are_over_when_a_step_is_measured():
    assert found(0.0) == []
    assert found(0.08) == []


def test_each_call_of_fit_traces_at_its_start():
    assert found(0.6, is_fit_in_loop=True) == []


def test_what_follows_a_trace_shows_on_arguments_that_are_known():
    shares = {"input": 0.1, "host": 0.5, "step": 0.4}
    diagnosis = observed(shares=shares, tracing_share=0.4, step_s_without_tracing=0.02)
    (finding,) = retracing.find(diagnosis, MACHINE)
    assert finding.upper_bound == pytest.approx(1 / 0.3)
    assert list(small_steps.find(diagnosis, MACHINE)) == [], "the same time is not blamed twice"
    apart = observed(shares=shares)
    assert [found.cause for found in small_steps.find(apart, MACHINE)] == ["small_steps"]


def test_what_follows_a_trace_is_known_where_the_loop_calls_its_step():
    (finding,) = found(0.6, stage(0, "loop", 0.01))
    assert finding.upper_bound == pytest.approx(5.0)
    assert "80 ms are lost" in finding.evidence


def test_numbers_that_change_are_named():
    (finding,) = found(0.6, number_arguments=("rate", "epoch"))
    assert finding.remedy.startswith("rate=tf.constant(rate) and epoch=tf.constant(epoch) where")
    assert "input_signature" in found(0.6)[0].remedy
