from __future__ import annotations

import pytest

from optimizations.situations import SITUATIONS, proposal, reason
from records import observed
from uncork.core.edits.edit import ArrayFeed
from uncork.optimizations.input_parallelism.array_feed import ArrayFeedOptimization

CUT = ArrayFeedOptimization()


def arrays(*, waiting=0.4, host=0.1, **workload):
    given = {"data_kind": "numpy", "pipeline_digest": "", **workload}
    return observed(shares={"input": waiting, "host": host}, workload=given)


def test_half_of_the_wait_is_promised():
    found = proposal(CUT, arrays())
    assert found.edits == (ArrayFeed(),)
    assert found.predicted == pytest.approx(1 / 0.8)
    assert found.prerequisite == ""
    assert "synchronous=True" in found.source_edit


def test_where_python_takes_longer_it_comes_first():
    assert proposal(CUT, arrays(host=0.5)).prerequisite == "steps_per_execution"


def test_a_short_wait_is_not_worth_it():
    assert "predicted gain" in reason(CUT, arrays(waiting=0.05))


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ({"data_kind": "tf.data"}, "fed by tf.data"),
        ({"data_kind": "pydataset"}, "fed by pydataset"),
        ({"kind": "custom_loop"}, "not by arrays passed to fit"),
        ({"is_fit_in_loop": True}, "reuse_iterator"),
        ({"is_distributed": True}, "strategy"),
    ],
    ids=str,
)
def test_only_arrays_that_one_fit_trains_on(workload, why):
    assert why in reason(CUT, arrays(**workload))


def test_a_training_that_waits_for_its_arrays_is_among_the_situations():
    assert proposal(CUT, SITUATIONS["arrays that are waited for"])
