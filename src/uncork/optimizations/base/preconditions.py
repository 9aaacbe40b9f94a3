"""Reasons to try nothing that several optimizations share, as preconditions of theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from uncork.optimizations.base.proposal import Context, Skipped


def pipeline_refusal(context: Context) -> str:
    """Set when there is no tf.data pipeline to edit."""
    if context.workload.data_kind != "tf.data":
        return f"the training is fed by {context.workload.data_kind}, not by tf.data"
    return "" if context.stages else "nothing is known about the stages of the input pipeline"


def pydataset_refusal(context: Context) -> str:
    """Set when no ``PyDataset`` feeds the training."""
    if any(stage.kind == "pydataset" for stage in context.stages):
        return ""
    return f"fed by {context.workload.data_kind}, not by a PyDataset"


def single_pass_refusal(context: Context) -> str:
    """Set when what is kept of the data would not be read again."""
    if context.workload.min_passes < 2:
        return "one epoch only: nothing is read twice"
    if context.workload.is_dataset_recreated:
        return (
            "the script makes its dataset anew for each pass, and what is kept is not "
            "read again: make it once, before the loop over epochs, and tune again"
        )
    return ""


def explicit_steps_refusal(context: Context) -> str:
    """Set when an epoch is a number of steps, not a pass over the data."""
    if context.workload.has_explicit_steps:
        return "with steps_per_epoch an epoch need not begin where the data does"
    return ""


def shuffle_memory_refusal(
    context: Context,
    moved_maps: Collection[int],
    remaining_bytes: Mapping[int, int] | None = None,
) -> Skipped | None:
    """Set when a shuffle would hold too much, were these maps above it instead of below.

    A map that parses makes little of much: of long records two numbers.

    Args:
        context: Of the training.
        moved_maps: Indices of the maps.
        remaining_bytes: Bytes of an element of what stays below, of a map that is moved in part.
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
        held, given = (context.stages[i - 1].bytes_per_element for i in (shuffle.index, lowest))
        taken = (remaining_bytes or {}).get(lowest, given)
        now, then = (shuffle.shuffle_buffer.element_count * (size or 0) for size in (held, taken))
        if then > max(now, budget):
            return Skipped(
                reason=f"the shuffle would hold {then / 1e9:.1f} GB of what the map is made from, "
                f"the budget is {budget / 1e9:.1f} GB"
            )
    return None


def policy_edit_refusal(context: Context) -> str:
    """Set when the precision of the model is not to be changed from outside."""
    if context.workload.has_late_built_layers:
        return (
            "layers of the script's own are built by fit, and what they make then has the "
            "script's dtype policy: call the model on a first batch before fit, and tune again"
        )
    return any_step_refusal(context)


def mixed_policies_refusal(context: Context) -> str:
    """Set when layers compute in something else than float32 already, or none is known."""
    policies = context.workload.dtype_policies
    if not policies:
        return "no layer of Keras's was seen in the step: there is no policy to set"
    return "" if policies == ("float32",) else f"the model uses {', '.join(policies)} already"


def any_step_refusal(context: Context) -> str:
    """Set when the step, be it Keras's or a loop's, cannot be traced anew as another function."""
    return (function_edit_refusal if context.is_loop else step_edit_refusal)(context)


def step_edit_refusal(context: Context) -> str:
    """Set when the training step is not Keras's to change."""
    if context.is_loop:
        return "the step of a custom loop is your own code"
    if context.workload.is_eager_step:
        return "the model runs eagerly by choice (run_eagerly=True)"
    return "not tried under a tf.distribute strategy yet" if context.workload.is_distributed else ""


def function_edit_refusal(context: Context) -> str:
    """Set when the step of a loop cannot be traced anew, as another function."""
    if context.workload.is_eager_step:
        return "the step runs op by op: it must be a tf.function first"
    if not context.workload.step_code_digest:
        return "the loop calls more than one compiled function for a batch, or none"
    if context.diagnosis.recreated_function is not None:
        return "the script makes its step anew for each epoch: it would be traced anew"
    return strategy_refusal(context)


def strategy_refusal(context: Context) -> str:
    """Set when several devices train."""
    is_distributed = context.workload.is_distributed or context.workload.replicas > 1
    return "not tried under a tf.distribute strategy yet" if is_distributed else ""


def batch_callbacks_refusal(context: Context) -> str:
    """Set when callbacks act on every batch, and would see fewer."""
    names = ", ".join(context.workload.batch_callbacks)
    return f"callbacks act on every batch and must keep seeing each: {names}" if names else ""


def no_retracing_refusal(context: Context) -> str:
    """Set when no time is lost to tracing a function again."""
    is_retraced = any(finding.cause == "retracing" for finding in context.diagnosis.findings)
    return "" if is_retraced else "no time is lost to tracing"


def unknown_length_refusal(context: Context) -> str:
    """Set when the step that meets the end of a fit's data would be counted otherwise."""
    if context.workload.kind != "fit" or context.workload.steps_per_epoch is not None:
        return ""
    return (
        "the length of the data is unknown, and the step that meets their end would count "
        "otherwise; .apply(tf.data.experimental.assert_cardinality(n)) tells it"
    )


def loop_process_refusal(context: Context) -> str:
    """Set when it is a loop whose step cannot be called again in a process of its own."""
    if not context.is_loop:
        return ""
    if context.workload.tf_function_refusal:
        return (
            "the step cannot be called again in another process: "
            f"{context.workload.tf_function_refusal}"
        )
    if not context.workload.step_code_digest:
        return "the loop calls no one function that could be called again in another process"
    return ""
