"""Rules that read whose kernels the step runs."""

from __future__ import annotations

import pytest

from records import MACHINE, WORKLOAD, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.model import SlowLayer, Transfer
from uncork.rules.device import (
    augmentation_in_model,
    dense_embedding_update,
    optimizer_kernels,
    per_example_loop,
    rnn_slow_kernel,
    slow_kernel,
)

AS_IS = [100, 101, 99, 100, 100, 101]
TWICE = compare(AS_IS, [200, 202, 198, 200, 200, 202])
ALIKE = compare(AS_IS, [100, 99, 101, 101, 100, 100])


def update(share, **changes):
    """Of small weights: all of it is brief."""
    return part(
        share,
        "optimizer",
        calls=2000.0,
        short_kernel_share=share,
        short_calls_per_step=2000.0,
        **changes,
    )


def part(share, phase="forward", kernel="MatMul", calls=1.0, **changes):
    return KernelGroup(
        share=share, phase=phase, main_kernel=kernel, calls_per_step=calls, **changes
    )


def found(rule, *parts, machine=MACHINE, **changes):
    diagnosis = observed(kernels=parts, step_s=0.01, shares={"step": 1.0}, **changes)
    return list(rule.find(diagnosis, machine))


class TestOptimizerKernels:
    def test_many_small_updates_are_named_where_the_model_was_compiled(self):
        (finding,) = found(optimizer_kernels, update(0.5, at="train.py:9"))
        assert (finding.cause, finding.at) == ("optimizer_kernels", WORKLOAD.step_setup_at)
        assert finding.upper_bound == pytest.approx(1 / (1 - 0.8 * 0.5))
        assert "5 ms of a 10 ms step go to 2000 kernels" in finding.evidence

    def test_in_a_loop_of_ones_own_where_they_are_applied(self):
        small = update(0.5, at="train.py:9")
        (finding,) = found(optimizer_kernels, small, workload={"step_setup_at": None})
        assert finding.at == "train.py:9"

    def test_few_large_updates_compute(self):
        assert found(optimizer_kernels, part(0.5, "optimizer", calls=20.0)) == []

    def test_many_small_ones_beside_few_large_ones_are_not_charged_with_these(self):
        mixed = part(
            0.5, "optimizer", calls=2000.0, short_kernel_share=0.08, short_calls_per_step=1900.0
        )
        assert found(optimizer_kernels, mixed) == []
        (finding,) = found(optimizer_kernels, replace(mixed, short_kernel_share=0.3))
        assert finding.upper_bound == pytest.approx(1 / (1 - 0.8 * 0.3))
        assert "3 ms of a 10 ms step go to 1900 kernels" in finding.evidence

    def test_where_one_update_of_all_was_tried_that_tells(self):
        (finding,) = found(optimizer_kernels, update(0.1), flat_updates_speedup=TWICE)
        assert finding.upper_bound == pytest.approx(2.0, rel=0.02)
        assert finding.evidence.endswith("with one vectorized update the step ran 2.00x as fast")
        assert found(optimizer_kernels, update(0.5), flat_updates_speedup=ALIKE) == []

    def test_what_takes_little_is_not_named(self):
        assert found(optimizer_kernels, update(0.05)) == []
        assert found(optimizer_kernels) == []

    def test_a_large_table_has_a_cause_of_its_own(self):
        table = update(0.5, table_rows=9000, max_used_rows=10)
        assert found(optimizer_kernels, table) == []


class TestPerExampleLoop:
    def test_as_many_rounds_as_examples_are_a_loop_over_these(self):
        forward = part(0.2, loop_iterations=32, calls=900.0, at="train.py:7")
        backward = part(0.3, "backward", loop_iterations=33, calls=1500.0, at="train.py:8")
        (finding,) = found(per_example_loop, backward, forward)
        assert (finding.cause, finding.at) == ("per_example_loop", "train.py:7")
        assert finding.upper_bound == pytest.approx(1 / (1 - 0.5 * 31 / 32))
        assert "a loop of 32 iterations" in finding.evidence

    def test_a_loop_over_time_is_none(self):
        assert found(per_example_loop, part(0.8, loop_iterations=81)) == []
        assert found(per_example_loop, part(0.8, loop_iterations=40)) == []
        assert found(per_example_loop, part(0.8, loop_iterations=30)) != []
        assert found(per_example_loop, part(0.8, loop_iterations=32, layer="LSTM")) == []

    def test_a_small_one_is_not_named(self):
        assert found(per_example_loop, part(0.05, loop_iterations=32)) == []


class TestAugmentationInModel:
    def test_work_on_the_batch_alone_can_leave_the_step(self):
        words = part(
            0.6, kernel="StringNGrams", layer="TextVectorization", batch_only_share=0.6, at="a.py:3"
        )
        (finding,) = found(augmentation_in_model, words, consumer_cpu_s=0.011)
        assert (finding.cause, finding.at) == ("augmentation_in_model", "a.py:3")
        assert finding.upper_bound == pytest.approx(0.01 / 0.0055)
        assert "StringNGrams of TextVectorization" in finding.evidence

    def test_what_the_model_begins_with_is_for_tune_to_move(self):
        words = part(0.6, batch_only_share=0.6, at="a.py:3")
        first = {"preprocessing_layers": ("vectorize",)}
        (finding,) = found(augmentation_in_model, words, consumer_cpu_s=0.011, workload=first)
        assert "layers_in_input" in finding.remedy

    def test_where_the_step_itself_does_it_its_own_line_is_told(self):
        called = part(0.6, batch_only_share=0.6, at="a.py:3", batch_only_at="a.py:9")
        (finding,) = found(augmentation_in_model, called, consumer_cpu_s=0.011)
        assert finding.at == "a.py:9"

    def test_where_all_cores_are_busy_moving_it_wins_nothing(self):
        assert (
            found(augmentation_in_model, part(0.6, batch_only_share=0.6), consumer_cpu_s=0.0199)
            == []
        )

    def test_what_the_input_takes_meanwhile_counts(self):
        busy = replace(observed(step_s=0.01).measurement, cpu_s_per_step=0.019)
        words = part(0.6, batch_only_share=0.6)
        assert found(augmentation_in_model, words, consumer_cpu_s=0.01, measurement=busy) == []

    def test_what_another_device_computes_is_left_to_it(self):
        words = part(0.6, batch_only_share=0.6, at="a.py:3")
        sent = Transfer(device="GPU:0", batch_bytes=100, min_bytes=100, wall_s=0.001, cpu_s=0.0)
        assert found(augmentation_in_model, words, consumer_cpu_s=0.011, transfer=sent) == []

    def test_layers_that_learn_stay(self):
        assert found(augmentation_in_model, part(1.0), consumer_cpu_s=0.001) == []


class TestDenseEmbeddingUpdate:
    def test_passes_over_rows_that_no_batch_needs_are_named(self):
        table = part(0.5, "optimizer", table_rows=10_000, max_used_rows=1_000, at="train.py:5")
        (finding,) = found(dense_embedding_update, table)
        assert (finding.cause, finding.at) == ("dense_embedding_update", "train.py:5")
        assert finding.upper_bound == pytest.approx(1 / 0.55)
        assert "1,000 of 10,000 rows" in finding.evidence

    def test_where_the_optimizer_leaves_other_rows_alone_tune_tries_it(self):
        table = part(0.5, "optimizer", table_rows=10_000, max_used_rows=1_000, at="train.py:5")
        (finding,) = found(dense_embedding_update, table, workload={"row_update_table_count": 1})
        assert "row_updates" in finding.remedy

    def test_a_batch_that_looks_up_all_of_it_needs_the_pass(self):
        table = part(0.5, "optimizer", table_rows=10_000, max_used_rows=10_000)
        assert found(dense_embedding_update, table) == []
        assert found(dense_embedding_update, replace(table, max_used_rows=10**9)) == []


class TestSlowKernel:
    def test_a_scan_is_named_where_it_stands(self):
        forward = part(0.2, kernel="Cumsum", at="train.py:5")
        backward = part(0.3, "backward", kernel="Cumsum", at="train.py:6")
        (finding,) = found(slow_kernel, backward, forward)
        assert (finding.cause, finding.at) == ("slow_kernel", "train.py:5")
        assert finding.upper_bound == pytest.approx(2.0)

    def test_a_grouped_convolution_compiled_apart_is_named(self):
        conv = part(0.5, "backward", kernel="PartitionedCall", layer="Conv2D", at="train.py:5")
        (finding,) = found(slow_kernel, replace(conv, is_compiled_separately=True))
        assert "grouped convolution" in finding.evidence

    def test_other_functions_and_ordinary_convolutions_are_not(self):
        mine = part(0.5, kernel="StatefulPartitionedCall", layer="Mine")
        assert found(slow_kernel, replace(mine, is_compiled_separately=True)) == []
        assert found(slow_kernel, part(0.5, kernel="Conv2D", layer="Conv2D")) == []

    def test_on_an_accelerator_nothing_is_said_of_a_processors_kernels(self):
        gpu = replace(MACHINE, devices=("GPU:0 NVIDIA H100",))
        assert found(slow_kernel, part(0.5, kernel="Cumsum"), machine=gpu) == []


class TestRnnSlowKernel:
    def test_its_price_counts_for_the_share_of_its_kernels(self):
        rnn = SlowLayer(
            layer="GRU",
            argument="recurrent_dropout",
            at="train.py:8",
            speedup_without_argument=TWICE,
        )
        kernels = (part(0.3, layer="GRU", at="train.py:8"), part(0.5, layer="Dense"))
        backward = part(0.2, "backward", layer="GRU", at="train.py:8")
        (finding,) = found(rnn_slow_kernel, *kernels, backward, slow_layers=(rnn,))
        assert (finding.cause, finding.at) == ("rnn_slow_kernel", "train.py:8")
        assert finding.upper_bound == pytest.approx(1 / 0.75, rel=0.02)
        assert "without recurrent_dropout" in finding.evidence

    def test_one_that_pays_little_is_not_named(self):
        rnn = SlowLayer(
            layer="GRU", argument="recurrent_dropout", at=None, speedup_without_argument=ALIKE
        )
        assert found(rnn_slow_kernel, part(0.3, layer="GRU"), slow_layers=(rnn,)) == []
