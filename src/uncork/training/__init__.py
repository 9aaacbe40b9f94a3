"""Surgery on the training step of a Keras model: its state, its settings, its blocks of steps."""

from uncork.step.array_arguments import KeptTensors, arrays_in, is_large
from uncork.step.array_feed import arrays_in_one_thread, edits_of_arrays, is_array_feed
from uncork.step.building import build, parts_made_later
from uncork.step.callback_costs import callback_costs
from uncork.step.callbacks import batch_hooks
from uncork.step.checks import check
from uncork.step.compiled_step import CompiledStep, code_of
from uncork.step.copied_save import Buffers, CopiedSave
from uncork.step.dtype_policies import MIXED
from uncork.step.eager_model import graph_training, traceable
from uncork.step.eager_step import EagerStep
from uncork.step.epoch_hooks import epoch_costs
from uncork.step.feed import ARRAY_BATCH, Feed, batch_samples, executions, spec_text
from uncork.step.filled_arguments import argument_shapes, form_of
from uncork.step.first_layers import draws, first_layers
from uncork.step.flat_group import around, small_weights
from uncork.step.full_size import full_size
from uncork.step.fused_updates import fusable_weights
from uncork.step.graph_state import GraphState
from uncork.step.growth import growth_of
from uncork.step.held import held
from uncork.step.held_out import HeldOut
from uncork.step.in_float32 import in_float32
from uncork.step.keras_defects import defects_of_fit, defects_of_losses
from uncork.step.kernel_parts import kernel_parts
from uncork.step.last_maps import arrays_in_step
from uncork.step.left_out import left_out_of_fit
from uncork.step.loader_edits import (
    check_loader,
    edited_loader,
    fill_loader,
    has_hooks,
    loader_edited,
    of_py_dataset,
    stop_workers,
    workers_of,
)
from uncork.step.loaders import loader_stages
from uncork.step.mode import Mode
from uncork.step.new_shapes import Shapes, counted, filled_up, new_shapes_of, shapes_of
from uncork.step.one_hot import one_hot_of
from uncork.step.one_pass import OnePass, for_keras, read_on
from uncork.step.pad_lengths import are_alike, fills_of
from uncork.step.padding import Padding, padding_of
from uncork.step.per_example import draws_by_itself, why_not_in_parts, without_draws
from uncork.step.planned import PlannedStep
from uncork.step.random_layers import random_layers
from uncork.step.replay import Recording, Replay, first_rows, replay
from uncork.step.replicas import replicas_of, several_times
from uncork.step.rescaled_rate import rate_for, why_not_larger
from uncork.step.returned_loss import returned_loss
from uncork.step.reused_iterator import MOST_BATCHES, ReusedIterators
from uncork.step.row_updates import row_tables
from uncork.step.runner import FitRunner
from uncork.step.same_checkpoint import checkpoint_difference
from uncork.step.saves_beside import (
    SavesBeside,
    WrittenBeside,
    checkpoints,
    saver_of,
    saves_itself,
    who_waits,
)
from uncork.step.segments import segments_run_again
from uncork.step.sensitive_layers import sensitive_layers
from uncork.step.settings import StepSettings, apply, flat_group_of, iterators_of
from uncork.step.signature import signature
from uncork.step.slow_layers import slow_layers
from uncork.step.snapshot import (
    Snapshot,
    give_state,
    not_finite,
    state_of,
    variables,
    weights,
)
from uncork.step.taken_over import function_of
from uncork.step.taken_step import Call, TakenStep
from uncork.step.timed_fit import Timed, timed_fit
from uncork.step.told_loss import told_loss
from uncork.step.traced import device_of, is_categorical
from uncork.step.traced_policy import layers_seen
from uncork.step.traced_updates import fusable_in
from uncork.step.transfer import transfer_of
from uncork.step.validation import Validating, validation_steps
from uncork.step.warm_up import warms_up
from uncork.step.without_tf32 import without_tf32

__all__ = [
    "ARRAY_BATCH",
    "MIXED",
    "MOST_BATCHES",
    "Buffers",
    "Call",
    "CompiledStep",
    "CopiedSave",
    "EagerStep",
    "Feed",
    "FitRunner",
    "GraphState",
    "HeldOut",
    "KeptTensors",
    "Mode",
    "OnePass",
    "Padding",
    "PlannedStep",
    "Recording",
    "Replay",
    "ReusedIterators",
    "SavesBeside",
    "Shapes",
    "Snapshot",
    "StepSettings",
    "TakenStep",
    "Timed",
    "Validating",
    "WrittenBeside",
    "apply",
    "are_alike",
    "argument_shapes",
    "around",
    "arrays_in",
    "arrays_in_one_thread",
    "arrays_in_step",
    "batch_hooks",
    "batch_samples",
    "build",
    "callback_costs",
    "check",
    "check_loader",
    "checkpoint_difference",
    "checkpoints",
    "code_of",
    "counted",
    "defects_of_fit",
    "defects_of_losses",
    "device_of",
    "draws",
    "draws_by_itself",
    "edited_loader",
    "edits_of_arrays",
    "epoch_costs",
    "executions",
    "fill_loader",
    "filled_up",
    "fills_of",
    "first_layers",
    "first_rows",
    "flat_group_of",
    "for_keras",
    "form_of",
    "full_size",
    "function_of",
    "fusable_in",
    "fusable_weights",
    "give_state",
    "graph_training",
    "growth_of",
    "has_hooks",
    "held",
    "in_float32",
    "is_array_feed",
    "is_categorical",
    "is_large",
    "iterators_of",
    "kernel_parts",
    "layers_seen",
    "left_out_of_fit",
    "loader_edited",
    "loader_stages",
    "new_shapes_of",
    "not_finite",
    "of_py_dataset",
    "one_hot_of",
    "padding_of",
    "parts_made_later",
    "random_layers",
    "rate_for",
    "read_on",
    "replay",
    "replicas_of",
    "returned_loss",
    "row_tables",
    "saver_of",
    "saves_itself",
    "segments_run_again",
    "sensitive_layers",
    "several_times",
    "shapes_of",
    "signature",
    "slow_layers",
    "small_weights",
    "spec_text",
    "state_of",
    "stop_workers",
    "timed_fit",
    "told_loss",
    "traceable",
    "transfer_of",
    "validation_steps",
    "variables",
    "warms_up",
    "weights",
    "who_waits",
    "why_not_in_parts",
    "why_not_larger",
    "without_draws",
    "without_tf32",
    "workers_of",
]
