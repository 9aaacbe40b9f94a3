"""The road: what to try, left to right. One optimization, one file, one test, one page.

Adding one means a new file, a line in ROAD with the reason for its place, a test and a page.
"""

from __future__ import annotations

from uncork.optimizations.base.proposal import Optimization
from uncork.optimizations.batch.larger_batch import TrainInLargerBatches
from uncork.optimizations.batch.micro_batches import TrainInParts
from uncork.optimizations.batch.recompute_activations import RunSegmentsAgain
from uncork.optimizations.compile.jit_compile import CompileStep
from uncork.optimizations.compile.jit_compile_off import LeaveXla
from uncork.optimizations.compile.keras_backend import AnotherBackend
from uncork.optimizations.compile.pad_lengths import FillBatchesUp
from uncork.optimizations.compile.vectorized_map import MapAtOnce
from uncork.optimizations.host.array_arguments import CopyWhatChanged
from uncork.optimizations.host.async_checkpoint import SaveBeside
from uncork.optimizations.host.data_on_device import GatherOnDevice
from uncork.optimizations.host.flat_updates import UpdateAtOnce
from uncork.optimizations.host.fused_updates import UpdateInOneKernel
from uncork.optimizations.host.intra_op_threads import KernelsOnOneThread
from uncork.optimizations.host.keep_freed_memory import KeepMemory
from uncork.optimizations.host.layers_in_input import PreprocessBeside
from uncork.optimizations.host.map_on_device import MakeOnDevice
from uncork.optimizations.host.reduce_retracing import OpenShapes
from uncork.optimizations.host.reuse_iterator import KeepIterator
from uncork.optimizations.host.row_updates import UpdateRows
from uncork.optimizations.host.steps_per_execution import ChainSteps
from uncork.optimizations.host.tensor_arguments import PassTensors
from uncork.optimizations.host.tf_function import GraphStep
from uncork.optimizations.input_caching.cache import CacheDeterministic
from uncork.optimizations.input_caching.disk_cache import CacheInFiles
from uncork.optimizations.input_caching.generator_cache import KeepElements
from uncork.optimizations.input_caching.loader_cache import KeepBatches
from uncork.optimizations.input_caching.py_function_cache import KeepAnswers
from uncork.optimizations.input_parallelism.array_feed import CutInOneThread
from uncork.optimizations.input_parallelism.autotune_off import StopAutotune
from uncork.optimizations.input_parallelism.draw_first import DrawBeforeWork
from uncork.optimizations.input_parallelism.inline_map import RunInline
from uncork.optimizations.input_parallelism.less_ahead import PrepareLessAhead
from uncork.optimizations.input_parallelism.loader_processes import LoadInProcesses
from uncork.optimizations.input_parallelism.loader_workers import LoadInThreads
from uncork.optimizations.input_parallelism.parallel_interleave import ParallelizeInterleave
from uncork.optimizations.input_parallelism.parallel_map import ParallelizeMap
from uncork.optimizations.input_parallelism.parallelize_prefix import ParallelizePrefix
from uncork.optimizations.input_parallelism.prefetch import PrefetchBatches
from uncork.optimizations.input_parallelism.read_ahead import ReadFilesAhead
from uncork.optimizations.input_rewrites.decode_and_crop import DecodeWhatIsCropped
from uncork.optimizations.input_rewrites.drop_unused import MakeWhatIsTaken
from uncork.optimizations.input_rewrites.filter_first import FilterBeforeMaps
from uncork.optimizations.input_rewrites.generator_chunks import TakeInChunks
from uncork.optimizations.input_rewrites.shuffle_first import ShuffleBeforeMaps
from uncork.optimizations.input_rewrites.vectorize import VectorizeMaps
from uncork.optimizations.precision.full_precision import FullPrecision
from uncork.optimizations.precision.mixed_bfloat16 import MixedBfloat16
from uncork.optimizations.precision.mixed_float16 import MixedFloat16
from uncork.optimizations.validation_input import FeedValidation

ROAD: tuple[Optimization, ...] = (
    # input: what the step waits for; exact steps before the one that draws other random numbers
    FilterBeforeMaps(),  # what is dropped need be neither made nor kept
    MakeWhatIsTaken(),  # the same of parts of elements
    CacheDeterministic(),  # first: work that is not done needs no threads
    KeepAnswers(),  # of Python code, which no cache of TensorFlow's is legal above
    KeepElements(),
    TakeInChunks(),  # from where they are kept, too
    DecodeWhatIsCropped(),  # a cache of whole images is better; what is cut in two has no crop left
    ParallelizePrefix(),  # what cannot be cached; and the first epoch
    CacheInFiles(),  # what memory has no room for, against what is made in parallel by then
    ShuffleBeforeMaps(),  # a cache that fits has done it already: it stands below the shuffle
    ParallelizeInterleave(),  # the readers; what stands above them is fed by them
    ReadFilesAhead(),  # the same of files that are gone through in turn; it takes memory
    DrawBeforeWork(),  # what is left of a random map, where a cache keeps the rest
    VectorizeMaps(),  # what is not cached and draws nothing any more, a batch at a time
    RunInline(),  # what is left of brief maps
    KeepBatches(),  # where there is no tf.data pipeline, these three stand for all of the above
    LoadInThreads(),
    LoadInProcesses(),  # what threads do as well costs less so
    CutInOneThread(),  # arrays have a pipeline, but it is Keras's
    ParallelizeMap(),  # only where the random part itself is the brake
    PrepareLessAhead(),  # what is thrown away is as dear as the steps before left it
    PrefetchBatches(),  # it can only hide what is left
    StopAutotune(),  # last of these: it must not choose for stages that are still to change
    FeedValidation(),  # weighs what it likely will: an epoch is as fast as the above made it
    # host: shows once the input keeps up
    GraphStep(),  # what follows is for compiled steps
    PassTensors(),  # nothing else shows while steps are traced anew
    OpenShapes(),
    CopyWhatChanged(),  # what a loop hands over is input, copied in the step's own time
    KeepIterator(),  # what a call takes beyond its steps hides all that comes after
    MakeOnDevice(),  # sending is part of the step, and hides the rest of it
    GatherOnDevice(),  # takes the device's memory, for what is left to be sent
    PreprocessBeside(),  # the step that all others below are for is what this leaves of it
    UpdateRows(),  # a step that passes over no table is a shorter one to chain
    ChainSteps(),
    UpdateAtOnce(),  # before XLA, which does the like at a weaker promise
    UpdateInOneKernel(),  # of the large weights, too; the vector of the small ones is one of them
    KeepMemory(),  # behind all of these, as it takes a process of its own; so does the next one
    KernelsOnOneThread(),
    SaveBeside(),  # weighs what the steps above leave of the time between two saves
    # compile before precision: both change the kernels, and XLA is the milder promise
    MapAtOnce(),  # before XLA, which compiles a loop as a loop, and is only worth what is left
    CompileStep(),
    FillBatchesUp(),  # XLA with few shapes, before XLA is given up for having many
    LeaveXla(),  # the other way, for a script that has it on
    AnotherBackend(),  # compiles, too; the others of these are for TensorFlow's step
    FullPrecision(),  # a precision that the device has no kernels for
    MixedBfloat16(),
    MixedFloat16(),  # where a GPU has nothing better: its loss must be scaled
    # batch: what does not fit into memory at all is made to before the road is walked
    TrainInParts(),
    RunSegmentsAgain(),  # where a part is not the batch: it takes the time of a forward pass
    # another training, with consent; last, as every step before it changes what it gains
    TrainInLargerBatches(),
)
