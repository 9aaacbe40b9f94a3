from __future__ import annotations

import pytest

from optimizations.situations import AUGMENTING, COMPUTING, CUT_UP, SITUATIONS, proposal, reason
from records import observed
from uncork.core.base.record import replace
from uncork.core.edits.step import LayersInInput
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import Transfer
from uncork.optimizations.host.layers_in_input import LayersInInputOptimization

BESIDE = LayersInInputOptimization()


def training(cpu_s=0.08, *, draws=False, kernels=(CUT_UP,), **workload):
    workload = {
        "preprocessing_layers": ("cut", "count"),
        "is_preprocessing_random": draws,
        **workload,
    }
    return observed(
        *AUGMENTING, shares=COMPUTING, consumer_cpu_s=cpu_s, workload=workload, kernels=kernels
    )


def test_the_first_layers_are_run_beside_the_step():
    found = proposal(BESIDE, training())
    assert found.edits == (LayersInInput(layer_names=("cut", "count")),)
    assert found.predicted == pytest.approx(1 / (1 - 0.95 * 0.4))
    assert found.at == "train.py:33"
    assert "(cut, count)" in found.rationale


def test_arrays_have_a_pipeline_of_keras():
    assert proposal(BESIDE, training(data_kind="numpy", pipeline_digest="")).predicted > 1.5


def test_all_cores_together_must_do_the_work_nevertheless():
    assert proposal(BESIDE, training(cpu_s=0.32)).predicted == pytest.approx(0.1 / 0.08)
    assert "predicted gain 1.00x" in reason(BESIDE, training(cpu_s=0.4))


def test_what_draws_is_done_by_one_of_them():
    most = replace(CUT_UP, batch_only_share=0.8)
    assert proposal(BESIDE, training(kernels=(most,))).predicted == pytest.approx(1 / 0.24)
    drawing = proposal(BESIDE, training(kernels=(most,), draws=True))
    assert drawing.edits == (LayersInInput(layer_names=("cut", "count"), is_random=True),)
    assert drawing.predicted == pytest.approx(1 / 0.76)


def test_a_model_that_begins_with_what_it_learns_is_left_alone():
    assert "layer that learns" in reason(BESIDE, training(preprocessing_layers=()))


def test_what_another_device_computes_is_left_to_it():
    sent = Transfer(device="GPU:0", batch_bytes=100, min_bytes=100, wall_s=0.001, cpu_s=0.0)
    assert "sent to GPU:0" in reason(BESIDE, replace(training(), transfer=sent))


def test_where_nothing_of_the_step_is_of_the_batch_alone_there_is_nothing_to_win():
    dense = KernelGroup(
        phase="forward", share=0.9, calls_per_step=1.0, main_kernel="MatMul", layer="Dense"
    )
    assert "predicted gain 1.00x" in reason(BESIDE, training(kernels=(dense,)))
    assert "predicted gain 1.00x" in reason(BESIDE, training(kernels=()))


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ({"is_fit_in_loop": True}, "runs a few steps only"),
        ({"is_eager_step": True}, "run_eagerly"),
        ({"is_distributed": True}, "strategy"),
        ({"kind": "custom_loop"}, "custom loop"),
        ({"data_kind": "pydataset"}, "not by tf.data"),
    ],
)
def test_where_it_cannot_be_done(situation, told):
    assert told in reason(BESIDE, training(**situation))


def test_it_is_proposed_where_words_are_cut_up_in_the_model():
    assert proposal(BESIDE, SITUATIONS["words cut up in the model"]).predicted > 1.5
