"""All optimizations in the order in which Uncork tries them.

A new one needs a file, an entry here with the reason for its position, a test and a page.
"""

from __future__ import annotations

from uncork.optimizations.base.proposal import Optimization
from uncork.optimizations.batch.larger_batch import LargerBatchOptimization
from uncork.optimizations.batch.micro_batches import MicroBatchesOptimization
from uncork.optimizations.batch.recompute_activations import RecomputeActivationsOptimization
from uncork.optimizations.compile.jit_compile import JitCompileOptimization
from uncork.optimizations.compile.jit_compile_off import JitCompileOffOptimization
from uncork.optimizations.compile.keras_backend import KerasBackendOptimization
from uncork.optimizations.compile.pad_lengths import PadLengthsOptimization
from uncork.optimizations.compile.vectorized_map import VectorizedMapOptimization
from uncork.optimizations.host.array_arguments import ArrayArgumentsOptimization
from uncork.optimizations.host.async_checkpoint import AsyncCheckpointOptimization
from uncork.optimizations.host.data_on_device import DataOnDeviceOptimization
from uncork.optimizations.host.flat_updates import FlatUpdatesOptimization
from uncork.optimizations.host.fused_updates import FusedUpdatesOptimization
from uncork.optimizations.host.intra_op_threads import IntraOpThreadsOptimization
from uncork.optimizations.host.keep_freed_memory import KeepFreedMemoryOptimization
from uncork.optimizations.host.layers_in_input import LayersInInputOptimization
from uncork.optimizations.host.map_on_device import MapOnDeviceOptimization
from uncork.optimizations.host.reduce_retracing import ReduceRetracingOptimization
from uncork.optimizations.host.reuse_iterator import ReuseIteratorOptimization
from uncork.optimizations.host.row_updates import RowUpdatesOptimization
from uncork.optimizations.host.steps_per_execution import StepsPerExecutionOptimization
from uncork.optimizations.host.tensor_arguments import TensorArgumentsOptimization
from uncork.optimizations.host.tf_function import TfFunctionOptimization
from uncork.optimizations.input_caching.cache import CacheOptimization
from uncork.optimizations.input_caching.disk_cache import DiskCacheOptimization
from uncork.optimizations.input_caching.generator_cache import GeneratorCacheOptimization
from uncork.optimizations.input_caching.loader_cache import LoaderCacheOptimization
from uncork.optimizations.input_caching.py_function_cache import PyFunctionCacheOptimization
from uncork.optimizations.input_parallelism.array_feed import ArrayFeedOptimization
from uncork.optimizations.input_parallelism.autotune_off import AutotuneOffOptimization
from uncork.optimizations.input_parallelism.draw_first import DrawFirstOptimization
from uncork.optimizations.input_parallelism.inline_map import InlineMapOptimization
from uncork.optimizations.input_parallelism.less_ahead import LessAheadOptimization
from uncork.optimizations.input_parallelism.loader_processes import LoaderProcessesOptimization
from uncork.optimizations.input_parallelism.loader_workers import LoaderWorkersOptimization
from uncork.optimizations.input_parallelism.parallel_interleave import (
    ParallelInterleaveOptimization,
)
from uncork.optimizations.input_parallelism.parallel_map import ParallelMapOptimization
from uncork.optimizations.input_parallelism.parallelize_prefix import ParallelizePrefixOptimization
from uncork.optimizations.input_parallelism.prefetch import PrefetchOptimization
from uncork.optimizations.input_parallelism.read_ahead import ReadAheadOptimization
from uncork.optimizations.input_rewrites.decode_and_crop import DecodeAndCropOptimization
from uncork.optimizations.input_rewrites.drop_unused import DropUnusedOptimization
from uncork.optimizations.input_rewrites.filter_first import FilterFirstOptimization
from uncork.optimizations.input_rewrites.generator_chunks import GeneratorChunksOptimization
from uncork.optimizations.input_rewrites.shuffle_first import ShuffleFirstOptimization
from uncork.optimizations.input_rewrites.vectorize import VectorizeOptimization
from uncork.optimizations.precision.full_precision import FullPrecisionOptimization
from uncork.optimizations.precision.mixed_bfloat16 import MixedBfloat16Optimization
from uncork.optimizations.precision.mixed_float16 import MixedFloat16Optimization
from uncork.optimizations.validation_input import ValidationInputOptimization

OPTIMIZATIONS: tuple[Optimization, ...] = (
    # Input: what the step waits for. Exact optimizations come before those that resample.
    FilterFirstOptimization(),  # dropped elements need be neither computed nor cached
    DropUnusedOptimization(),  # the same for unused parts of elements
    CacheOptimization(),  # before parallelism: work that is not done needs no threads
    PyFunctionCacheOptimization(),  # Python code above which no TensorFlow cache is legal
    GeneratorCacheOptimization(),
    GeneratorChunksOptimization(),  # also reads faster from a cached generator
    DecodeAndCropOptimization(),  # after the cache of whole images, which gains more
    ParallelizePrefixOptimization(),  # what cannot be cached, and the first epoch
    DiskCacheOptimization(),  # where memory is too small; compared with parallel work
    ShuffleFirstOptimization(),  # not needed where a cache stands below the shuffle
    ParallelInterleaveOptimization(),  # the readers feed all stages after them
    ReadAheadOptimization(),  # files read one after the other; it needs memory
    DrawFirstOptimization(),  # the rest of a random map whose prefix is cached
    VectorizeOptimization(),  # deterministic maps that are not cached, a batch at a time
    InlineMapOptimization(),  # the remaining short maps
    LoaderCacheOptimization(),  # Python loaders: these three replace all optimizations above
    LoaderWorkersOptimization(),
    LoaderProcessesOptimization(),  # after threads, which cost less
    ArrayFeedOptimization(),  # arrays: their pipeline is Keras's
    ParallelMapOptimization(),  # only where the random part itself is the bottleneck
    LessAheadOptimization(),  # after the optimizations that make discarded elements cheaper
    PrefetchOptimization(),  # hides only what the optimizations above leave
    AutotuneOffOptimization(),  # after all changes of the stages that autotune serves
    ValidationInputOptimization(),  # its share depends on how fast an epoch has become
    # Host: its costs are visible once the input keeps up.
    TfFunctionOptimization(),  # the optimizations below need a compiled step
    TensorArgumentsOptimization(),  # retracing hides all other costs
    ReduceRetracingOptimization(),
    ArrayArgumentsOptimization(),  # arguments are input that is copied inside the step
    ReuseIteratorOptimization(),  # the fixed cost of a call hides all later gains
    MapOnDeviceOptimization(),  # the transfer is part of the step
    DataOnDeviceOptimization(),  # uses device memory for what is still transferred
    LayersInInputOptimization(),  # shortens the step that the optimizations below change
    RowUpdatesOptimization(),  # a shorter step, before several steps become one call
    StepsPerExecutionOptimization(),
    FlatUpdatesOptimization(),  # before XLA, which has a weaker guarantee
    FusedUpdatesOptimization(),  # the large weights, and the vector of the small ones
    KeepFreedMemoryOptimization(),  # this and the next need a process of their own
    IntraOpThreadsOptimization(),
    AsyncCheckpointOptimization(),  # its gain depends on the time between two saves
    # Compile before precision: both change kernels, and XLA's guarantee is stronger.
    VectorizedMapOptimization(),  # before XLA, which compiles a loop as a loop
    JitCompileOptimization(),
    PadLengthsOptimization(),  # XLA with few shapes, before XLA is switched off
    JitCompileOffOptimization(),  # the opposite, for a script that switches XLA on
    KerasBackendOptimization(),  # compiles, too, but replaces TensorFlow's step
    FullPrecisionOptimization(),  # where the device has no kernels for the script's precision
    MixedBfloat16Optimization(),
    MixedFloat16Optimization(),  # where a GPU has no bfloat16: its loss must be scaled
    # Batch: a training that does not fit into memory is made to fit before all of these.
    MicroBatchesOptimization(),
    RecomputeActivationsOptimization(),  # costs a second forward pass
    # Opt-in: changes the training. Last, as every optimization before it changes its gain.
    LargerBatchOptimization(),
)
