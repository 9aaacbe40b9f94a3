"""Preconditions that several optimizations share: each returns a reason to try nothing, or ""."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from uncork.optimizations.base.proposal import Context, Skipped


def pipeline_refusal(context: Context) -> str:
    """Set when there is no tf.data pipeline to edit."""
    if context.workload.data_kind != "tf.data":
        return f"the training is fed by {context.workload.data_kind}, not by tf.data"
    return "" if context.stages else "the stages of the input pipeline are unknown"


def pydataset_refusal(context: Context) -> str:
    """Set when no ``PyDataset`` feeds the training."""
    if any(stage.kind == "pydataset" for stage in context.stages):
        return ""
    return f"the training is fed by {context.workload.data_kind}, not by a PyDataset"


def single_pass_refusal(context: Context) -> str:
    """Set when the training would not read a cache again."""
    if context.workload.min_passes < 2:
        return "one epoch only: nothing is read twice"
    if context.workload.is_dataset_recreated:
        return (
            "the script recreates its dataset for each pass, and a cache is not read "
            "again: create it once, before the loop over epochs, and tune again"
        )
    return ""


def explicit_steps_refusal(context: Context) -> str:
    """Set when an epoch is a number of steps, not a pass over the dataset."""
    if context.workload.has_explicit_steps:
        return "with steps_per_epoch an epoch need not start where the data starts"
    return ""


def shuffle_memory_refusal(
    context: Context,
    moved_maps: Collection[int],
    remaining_bytes: Mapping[int, int] | None = None,
) -> Skipped | None:
    """Set when a shuffle would hold too much if these maps followed it.

    A map that parses reduces its input: long records become two numbers.

    Args:
        context: Of the training.
        moved_maps: Indices of the maps.
        remaining_bytes: Bytes of an element before the shuffle, of maps that are moved in part.
    """
    budget = context.memory_budget_bytes
    for shuffle in context.stages:
        below = (
            [i for i in shuffle.shuffle_buffer.movable_maps if i in moved_maps]
            if shuffle.shuffle_buffer
            else []
        )
        if shuffle.shuffle_buffer is None or not below:
            continue
        lowest = min(below)
        buffered, computed = (
            context.stages[i - 1].bytes_per_element for i in (shuffle.index, lowest)
        )
        remaining = (remaining_bytes or {}).get(lowest, computed)
        before, after = (
            shuffle.shuffle_buffer.element_count * (size or 0) for size in (buffered, remaining)
        )
        if after > max(before, budget):
            return Skipped(
                reason=f"the shuffle would hold {after / 1e9:.1f} GB of inputs of the map, "
                f"the budget is {budget / 1e9:.1f} GB"
            )
    return None


def policy_edit_refusal(context: Context) -> str:
    """Set when Uncork must not change the precision of the model."""
    if context.workload.has_late_built_layers:
        return (
            "fit builds custom layers, and what they create then has the script's dtype policy: "
            "call the model on a first batch before fit, and tune again"
        )
    return any_step_refusal(context)


def mixed_policies_refusal(context: Context) -> str:
    """Set when layers use another dtype than float32 already, or none is known."""
    policies = context.workload.dtype_policies
    if not policies:
        return "the step calls no Keras layer, so there is no policy to set"
    return "" if policies == ("float32",) else f"the model uses {', '.join(policies)} already"


def any_step_refusal(context: Context) -> str:
    """Set when the step, of Keras or of a loop, cannot be traced again as another function."""
    return (function_edit_refusal if context.is_loop else step_edit_refusal)(context)


def step_edit_refusal(context: Context) -> str:
    """Set when the training step is not Keras's, and so not Uncork's to change."""
    if context.is_loop:
        return "the step of a custom loop is your own code"
    if context.workload.is_eager_step:
        return "the script makes the model run eagerly (run_eagerly=True)"
    return "not tried under a tf.distribute strategy yet" if context.workload.is_distributed else ""


def function_edit_refusal(context: Context) -> str:
    """Set when the step of a loop cannot be traced again as another function."""
    if context.workload.is_eager_step:
        return "the step runs eagerly: it must be a tf.function first"
    if not context.workload.step_code_digest:
        return "the loop calls more than one compiled function for a batch, or none"
    if context.diagnosis.recreated_function is not None:
        return "the script recreates its step for each epoch, and TensorFlow would trace it again"
    return strategy_refusal(context)


def strategy_refusal(context: Context) -> str:
    """Set when several devices train."""
    is_distributed = context.workload.is_distributed or context.workload.replicas > 1
    return "not tried under a tf.distribute strategy yet" if is_distributed else ""


def batch_callbacks_refusal(context: Context) -> str:
    """Set when callbacks act on every batch, and would see fewer batches."""
    names = ", ".join(context.workload.batch_callbacks)
    return f"callbacks act on every batch and must see each: {names}" if names else ""


def no_retracing_refusal(context: Context) -> str:
    """Set when no time is lost to tracing a function again."""
    is_retraced = any(finding.cause == "retracing" for finding in context.diagnosis.findings)
    return "" if is_retraced else "no time is lost to tracing"


def unknown_length_refusal(context: Context) -> str:
    """Set when ``fit`` would count the step at the end of the dataset differently."""
    if context.workload.kind != "fit" or context.workload.steps_per_epoch is not None:
        return ""
    return (
        "the length of the dataset is unknown, so Keras would count the last step differently; "
        "set it with .apply(tf.data.experimental.assert_cardinality(n))"
    )


def loop_process_refusal(context: Context) -> str:
    """Set when another process cannot call the step of a loop again."""
    if not context.is_loop:
        return ""
    if context.workload.tf_function_refusal:
        return (
            "the step cannot be called again in another process: "
            f"{context.workload.tf_function_refusal}"
        )
    if not context.workload.step_code_digest:
        return "the loop calls no single function that another process could call again"
    return ""
