"""The road: what to try, left to right. One optimization, one file, one test, one page.

Adding one means a new file, a line in ROAD with the reason for its place, a test and a page.
"""

from uncork.road.array_arguments import CopyWhatChanged
from uncork.road.array_feed import CutInOneThread
from uncork.road.async_checkpoint import SaveBeside
from uncork.road.autotune_off import StopAutotune
from uncork.road.cache import CacheDeterministic
from uncork.road.data_on_device import GatherOnDevice
from uncork.road.decode_and_crop import DecodeWhatIsCropped
from uncork.road.disk_cache import CacheInFiles
from uncork.road.draw_first import DrawBeforeWork
from uncork.road.drop_unused import MakeWhatIsTaken
from uncork.road.filter_first import FilterBeforeMaps
from uncork.road.flat_updates import UpdateAtOnce
from uncork.road.full_precision import FullPrecision
from uncork.road.fused_updates import UpdateInOneKernel
from uncork.road.generator_cache import KeepElements
from uncork.road.generator_chunks import TakeInChunks
from uncork.road.inline_map import RunInline
from uncork.road.intra_op_threads import KernelsOnOneThread
from uncork.road.jit_compile import CompileStep
from uncork.road.jit_compile_off import LeaveXla
from uncork.road.keep_freed_memory import KeepMemory
from uncork.road.keras_backend import AnotherBackend
from uncork.road.larger_batch import TrainInLargerBatches
from uncork.road.layers_in_input import PreprocessBeside
from uncork.road.less_ahead import PrepareLessAhead
from uncork.road.loader_cache import KeepBatches
from uncork.road.loader_processes import LoadInProcesses
from uncork.road.loader_workers import LoadInThreads
from uncork.road.map_on_device import MakeOnDevice
from uncork.road.micro_batches import TrainInParts
from uncork.road.mixed_bfloat16 import MixedBfloat16
from uncork.road.mixed_float16 import MixedFloat16
from uncork.road.pad_lengths import FillBatchesUp
from uncork.road.parallel_interleave import ParallelizeInterleave
from uncork.road.parallel_map import ParallelizeMap
from uncork.road.parallelize_prefix import ParallelizePrefix
from uncork.road.prefetch import PrefetchBatches
from uncork.road.proposal import WORTH_TRYING, Optimization, Proposal, Skipped
from uncork.road.py_function_cache import KeepAnswers
from uncork.road.read_ahead import ReadFilesAhead
from uncork.road.recompute_activations import RunSegmentsAgain
from uncork.road.reduce_retracing import OpenShapes
from uncork.road.reuse_iterator import KeepIterator
from uncork.road.row_updates import UpdateRows
from uncork.road.shuffle_first import ShuffleBeforeMaps
from uncork.road.steps_per_execution import ChainSteps
from uncork.road.tensor_arguments import PassTensors
from uncork.road.tf_function import GraphStep
from uncork.road.validation_input import FeedValidation
from uncork.road.vectorize import VectorizeMaps
from uncork.road.vectorized_map import MapAtOnce

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

__all__ = ["ROAD", "WORTH_TRYING", "Optimization", "Proposal", "Skipped"]
