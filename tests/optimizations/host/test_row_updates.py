from __future__ import annotations

import pytest

from optimizations.situations import COMPUTING, PASSED_OVER, SITUATIONS, WAITING, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import RowUpdates
from uncork.optimizations.host.row_updates import RowUpdatesOptimization

BY_ROWS = RowUpdatesOptimization()
READ = replace(PASSED_OVER, phase="forward", share=0.2, main_kernel="ReadVariableOp")


def training(*kernels, shares=COMPUTING, **workload):
    return observed(
        shares=shares, kernels=kernels, workload={"row_update_table_count": 2, **workload}
    )


def test_what_passes_over_rows_that_no_sample_looks_up_is_saved():
    found = proposal(BY_ROWS, training(READ, PASSED_OVER))
    assert found.edits == (RowUpdates(),)
    assert found.predicted == pytest.approx(1 / (1 - 0.95 * 0.7 * 0.95))
    assert "1,000 of 20,000 rows" in found.rationale
    assert found.at == "train.py:33"


def test_reading_the_table_alone_may_be_worth_it():
    assert proposal(BY_ROWS, training(READ)).predicted == pytest.approx(1 / (1 - 0.95**2 * 0.2))


@pytest.mark.parametrize(
    "kernels",
    [
        (),
        (replace(PASSED_OVER, table_rows=0, max_used_rows=0),),
        (replace(PASSED_OVER, max_used_rows=20_000),),
        (replace(PASSED_OVER, max_used_rows=10**9),),
        (replace(PASSED_OVER, phase="backward"),),
    ],
    ids=["no kernels", "small table", "all rows", "unknown rows", "the gradient itself"],
)
def test_where_no_pass_is_in_vain_nothing_is_tried(kernels):
    assert "whole table" in reason(BY_ROWS, training(*kernels))


@pytest.mark.parametrize("changes", [{"share": 0.03}, {"max_used_rows": 19_000}], ids=str)
def test_what_saves_little_is_not_tried(changes):
    assert "predicted gain" in reason(BY_ROWS, training(replace(PASSED_OVER, **changes)))


def test_a_step_that_takes_no_time_is_left_alone():
    assert "predicted gain" in reason(BY_ROWS, training(PASSED_OVER, shares=WAITING))


def test_an_optimizer_that_changes_other_rows_is_left_alone():
    assert "changes the other rows" in reason(
        BY_ROWS, training(PASSED_OVER, row_update_table_count=0)
    )


def test_it_promises_every_bit_and_falls_back_on_rounding():
    assert (BY_ROWS.guarantee, BY_ROWS.fallback_guarantee) == ("exact", "rounding")


@pytest.mark.parametrize("situation", ["custom loop", "eager", "distributed"])
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation):
    assert reason(BY_ROWS, SITUATIONS[situation])
