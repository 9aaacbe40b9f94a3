"""What an optimization answers: a proposal with its prediction, or a reason to leave it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.optimizations.base.proposal import Skipped


def pipeline_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when there is no tf.data pipeline to edit."""
    if diagnosis.workload.data_kind != "tf.data":
        return Skipped(
            reason=f"the training is fed by {diagnosis.workload.data_kind}, not by tf.data"
        )
    if not diagnosis.stages:
        return Skipped(reason="nothing is known about the stages of the input pipeline")
    return None


def single_pass_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when what is kept of the data would not be read again."""
    if diagnosis.workload.min_passes < 2:
        return Skipped(reason="one epoch only: nothing is read twice")
    if diagnosis.workload.is_dataset_recreated:
        return Skipped(
            reason="the script makes its dataset anew for each pass, and what is kept is not "
            "read again: make it once, before the loop over epochs, and tune again"
        )
    return None


def shuffle_memory_refusal(
    diagnosis: WorkloadDiagnosis,
    policy: Policy,
    moved_maps: Collection[int],
    remaining_bytes: Mapping[int, int] | None = None,
) -> Skipped | None:
    """Set when a shuffle would hold too much, were these maps above it instead of below.

    A map that parses makes little of much: of long records two numbers.

    Args:
        diagnosis: Of the training.
        policy: Says how much memory may be used.
        moved_maps: Indices of the maps.
        remaining_bytes: Bytes of an element of what stays below, of a map that is moved in part.
    """
    room = policy.memory_share * diagnosis.memory_available_bytes
    for shuffle in diagnosis.stages:
        below = (
            [i for i in shuffle.shuffle_buffer.movable_maps if i in moved_maps]
            if shuffle.shuffle_buffer
            else []
        )
        if shuffle.shuffle_buffer is None or not below:
            continue
        lowest = min(below)
        held, given = (diagnosis.stages[i - 1].bytes_per_element for i in (shuffle.index, lowest))
        taken = (remaining_bytes or {}).get(lowest, given)
        now, then = (shuffle.shuffle_buffer.element_count * (size or 0) for size in (held, taken))
        if then > max(now, room):
            return Skipped(
                reason=f"the shuffle would hold {then / 1e9:.1f} GB of what the map is made from, "
                f"the budget is {room / 1e9:.1f} GB"
            )
    return None


def policy_edit_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when the precision of the model is not to be changed from outside."""
    if diagnosis.workload.has_late_built_layers:
        return Skipped(
            reason="layers of the script's own are built by fit, and what they make then has the "
            "script's dtype policy: call the model on a first batch before fit, and tune again"
        )
    if diagnosis.workload.kind == "custom_loop":
        return function_edit_refusal(diagnosis)
    return step_edit_refusal(diagnosis)


def mixed_policies_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when layers compute in something else than float32 already, or none is known."""
    policies = diagnosis.workload.dtype_policies
    if not policies:
        return Skipped(reason="no layer of Keras's was seen in the step: there is no policy to set")
    if policies != ("float32",):
        return Skipped(reason=f"the model uses {', '.join(policies)} already")
    return None


def function_edit_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when the step of a loop cannot be traced anew, as another function."""
    work = diagnosis.workload
    if work.is_eager_step:
        return Skipped(reason="the step runs op by op: it must be a tf.function first")
    if not work.step_code_digest:
        return Skipped(reason="the loop calls more than one compiled function for a batch, or none")
    if diagnosis.recreated_function is not None:
        return Skipped(
            reason="the script makes its step anew for each epoch: it would be traced anew"
        )
    if work.is_distributed or work.replicas > 1:
        return Skipped(reason="not tried under a tf.distribute strategy yet")
    return None


def unknown_length_refusal(workload: Workload) -> Skipped | None:
    """Set when the step that meets the end of a fit's data would be counted otherwise."""
    if workload.kind != "fit" or workload.steps_per_epoch is not None:
        return None
    return Skipped(
        reason="the length of the data is unknown, and the step that meets their end would count "
        "otherwise; .apply(tf.data.experimental.assert_cardinality(n)) tells it"
    )


def loop_process_refusal(workload: Workload) -> Skipped | None:
    """Set when it is a loop whose step cannot be called again in a process of its own."""
    if workload.kind != "custom_loop":
        return None
    if workload.tf_function_refusal:
        reason = (
            f"the step cannot be called again in another process: {workload.tf_function_refusal}"
        )
        return Skipped(reason=reason)
    if not workload.step_code_digest:
        reason = "the loop calls no one function that could be called again in another process"
        return Skipped(reason=reason)
    return None


def step_edit_refusal(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    """Set when the training step is not Keras's to change."""
    if diagnosis.workload.kind == "custom_loop":
        return Skipped(reason="the step of a custom loop is your own code")
    if diagnosis.workload.is_eager_step:
        return Skipped(reason="the model runs eagerly by choice (run_eagerly=True)")
    if diagnosis.workload.is_distributed:
        return Skipped(reason="not tried under a tf.distribute strategy yet")
    return None
