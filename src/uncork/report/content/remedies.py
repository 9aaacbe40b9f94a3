"""Which optimizations remove which cause: the reasons for not trying these say most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from uncork.core.documents.diagnosis import Cause, Finding
from uncork.core.documents.plan import PlanStep

# Where several do, in the order in which they are worth reading of.
OPTIMIZATIONS_BY_CAUSE: Final[dict[Cause, tuple[str, ...]]] = {
    "serial_map": ("parallel_map", "parallelize_prefix", "parallel_interleave"),
    "stateful_serial_map": ("parallelize_prefix", "draw_first"),
    "python_loader": ("loader_processes", "loader_workers", "loader_cache", "generator_cache"),
    "py_function": ("py_function_cache", "cache"),
    "no_prefetch": ("prefetch",),
    "per_element_work": ("vectorize", "inline_map"),
    "shuffle_of_decoded": ("shuffle_first",),
    "cache_missing": ("cache", "disk_cache"),
    "cache_misplaced": ("cache",),
    "storage_bound": ("read_ahead", "cache"),
    "autotune_memory": ("less_ahead",),
    "array_copies": ("array_arguments",),
    "wasted_work": ("filter_first", "drop_unused", "decode_and_crop"),
    "transfer": ("map_on_device", "data_on_device"),
    "eager_step": ("tf_function",),
    "retracing": ("tensor_arguments", "reduce_retracing"),
    "recompiling": ("pad_lengths", "jit_compile_off"),
    "small_steps": ("steps_per_execution", "array_feed"),
    "validation_setup": ("validation_input",),
    "fit_in_loop": ("reuse_iterator",),
    "augmentation_in_model": ("layers_in_input",),
    "per_example_loop": ("vectorized_map",),
    "dense_embedding_update": ("row_updates",),
    "optimizer_kernels": ("flat_updates", "fused_updates"),
    "low_precision_unused": ("mixed_bfloat16", "mixed_float16"),
    "low_precision_harmful": ("full_precision",),
    "page_faults": ("keep_freed_memory",),
    "input_bound": ("cache", "parallel_map", "prefetch", "vectorize", "inline_map"),
    "host_bound": ("steps_per_execution", "array_feed"),
    "compile_time": ("pad_lengths", "jit_compile_off", "reduce_retracing"),
    "validation_time": ("validation_input",),
    "saving_time": ("async_checkpoint",),
}


def steps_for_findings(findings: Iterable[Finding], steps: Iterable[PlanStep]) -> list[PlanStep]:
    """Of these steps those that answer one of these findings, in the order of the findings."""
    by_name = {step.name: step for step in steps}
    names = [name for finding in findings for name in OPTIMIZATIONS_BY_CAUSE.get(finding.cause, ())]
    return [by_name[name] for name in dict.fromkeys(names) if name in by_name]
