"""What to change in a training step, as data (see :mod:`uncork.core.edits.edit`)."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record
from uncork.core.evidence.batches import OpenAxis

# Of layers, in Keras's words: what they compute in. Their weights are float32.
Precision = Literal["mixed_bfloat16", "mixed_float16", "float32"]


class TfFunction(Record, tag="tf_function", frozen=True, kw_only=True):
    """Run a step that runs op by op as a ``tf.function``.

    All code of the user's that the step runs has this digest. The arguments that are called
    ``numbers`` are given to it as tensors where they are Python numbers.
    """

    code: str
    numbers: tuple[str, ...] = ()


class ReduceRetracing(Record, tag="reduce_retracing", frozen=True, kw_only=True):
    """Trace the ``tf.function`` that a loop calls, of this ``code``, once for all shapes.

    Dimensions in which two calls differ are left open.
    """

    code: str


class TensorArguments(Record, tag="tensor_arguments", frozen=True, kw_only=True):
    """Hand Python numbers over as tensors to the ``tf.function`` of a loop, of this ``code``.

    ``names`` are those of the arguments.
    """

    code: str
    names: tuple[str, ...]


class ArrayArguments(Record, tag="array_arguments", frozen=True, kw_only=True):
    """Copy arrays for the ``tf.function`` of a loop, of this ``code``, only where they changed.

    ``names`` are those of the arguments.
    """

    code: str
    names: tuple[str, ...]


class ReuseIterator(Record, tag="reuse_iterator", frozen=True, kw_only=True):
    """Let ``fit``, ``evaluate`` and ``predict`` read arrays through a kept iterator."""


class LayersInInput(Record, tag="layers_in_input", frozen=True, kw_only=True):
    """Run the ``layers`` that the model begins with, by name, in the input pipeline.

    Where one of them ``draws`` random numbers, for one batch after the other.
    """

    layers: tuple[str, ...]
    draws: bool = False


class MapOnDevice(Record, tag="map_on_device", frozen=True, kw_only=True):
    """Do the last maps of the input pipeline in the training step, on the device that trains.

    What they do to a whole batch has this digest. Of several such edits the last one counts. The
    batches of a loop of the user's own are made before its step, on the device of this
    ``placement``, in TensorFlow's words.
    """

    expects: str
    placement: str = ""


class PadLengths(Record, tag="pad_lengths", frozen=True, kw_only=True):
    """Fill each batch of a ``fit`` up, so that its lengths are multiples of ``multiple``.

    ``axes`` are those of its tensors that differ from batch to batch. With ``validation`` what is
    validated on is filled up likewise.
    """

    multiple: int
    axes: tuple[OpenAxis, ...]
    validation: bool = False


class PadArguments(Record, tag="pad_arguments", frozen=True, kw_only=True):
    """Fill arguments of the ``tf.function`` of a loop, of this ``code``, up as :class:`PadLengths`.

    ``axes`` are of its arguments, taken apart, in which calls differ. Calls of any other ``form``
    are left as they are.
    """

    code: str
    form: str
    multiple: int
    axes: tuple[OpenAxis, ...]


class StepsPerExecution(Record, tag="steps_per_execution", frozen=True, kw_only=True):
    """Run ``steps`` training steps for each call from Python."""

    steps: int


class LargerBatch(Record, tag="larger_batch", frozen=True, kw_only=True):
    """Train on batches ``times`` as large, at the learning rate times ``rate``.

    A tf.data pipeline gives such batches by :class:`Rebatch`; arrays are cut into them.
    """

    times: int
    rate: float


class MicroBatches(Record, tag="micro_batches", frozen=True, kw_only=True):
    """Go through each batch in ``parts``, one after the other, and update once."""

    parts: int


class RecomputeActivations(Record, tag="recompute_activations", frozen=True, kw_only=True):
    """Hold what goes into each segment of the model, and run it again for the backward pass.

    No segment holds more than one of ``segments`` parts of what all layers give.
    """

    segments: int


class FlatUpdates(Record, tag="flat_updates", frozen=True, kw_only=True):
    """Update all small weights by one run of the optimizer's own update, laid end to end."""


class FusedUpdates(Record, tag="fused_updates", frozen=True, kw_only=True):
    """Update each weight by one kernel of TensorFlow's, on the state as Keras keeps it.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class RowUpdates(Record, tag="row_updates", frozen=True, kw_only=True):
    """Read and update only those rows of tables of embeddings that a batch looks up."""


class MapsAtOnce(Record, tag="maps_at_once", frozen=True, kw_only=True):
    """Answer what the training step asks of ``tf.map_fn`` for all elements at once.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class JitCompile(Record, tag="jit_compile", frozen=True, kw_only=True):
    """Compile the training step with XLA.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class JitCompileOff(Record, tag="jit_compile_off", frozen=True, kw_only=True):
    """Run the training step on TensorFlow's own kernels, where the script asks for XLA.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    code: str = ""


class DtypePolicy(Record, tag="dtype_policy", frozen=True, kw_only=True):
    """Compute in another dtype; ``keep`` names layers that stay as they are.

    Those that only draw are meant and, where it is ``careful``, those that a low precision harms
    first; in another model of the script they have other names.

    In a loop of the user's own the step is a function, whose ``code`` has this digest.
    """

    policy: Precision
    keep: tuple[str, ...] = ()
    code: str = ""
    careful: bool = False


# Of these, what has another function traced in the place of a loop's own.
FunctionEdit = (
    TensorArguments
    | ArrayArguments
    | ReduceRetracing
    | PadArguments
    | MapsAtOnce
    | FusedUpdates
    | JitCompile
    | JitCompileOff
    | DtypePolicy
)
# What makes batches of few lengths of those of many.
FillsUp = PadLengths | PadArguments
# What was proved of a model holds for its own code and layers only.
OfCode = JitCompile | DtypePolicy | PadLengths | MicroBatches | RecomputeActivations | LargerBatch
StepEdit = (
    TfFunction
    | FunctionEdit
    | ReuseIterator
    | LayersInInput
    | MapOnDevice
    | PadLengths
    | StepsPerExecution
    | FlatUpdates
    | RowUpdates
    | LargerBatch
    | MicroBatches
    | RecomputeActivations
)


def has_own_mathematics(edits: tuple[StepEdit, ...]) -> bool:
    """Whether they do themselves, as it was proved with one version, what Keras does."""
    own = FlatUpdates | FusedUpdates | RowUpdates | MicroBatches | LayersInInput
    return any(isinstance(edit, own) for edit in edits)


def is_graph(edits: tuple[StepEdit, ...]) -> bool:
    """Whether they make a step that runs op by op a ``tf.function``."""
    return any(isinstance(edit, TfFunction) for edit in edits)


def batches_in_one(edits: tuple[StepEdit, ...]) -> int:
    """How many of the script's batches a step trains on.

    Example:
        >>> batches_in_one((LargerBatch(times=4, rate=2.0),)), batches_in_one(())
        (4, 1)
    """
    return next((edit.times for edit in edits if isinstance(edit, LargerBatch)), 1)


def on_device(edits: tuple[StepEdit, ...]) -> MapOnDevice | None:
    """Which of the input pipeline's last maps the step does; of several edits the last one says."""
    return next((edit for edit in reversed(edits) if isinstance(edit, MapOnDevice)), None)


def of_function(edits: tuple[StepEdit, ...]) -> tuple[FunctionEdit, ...]:
    """The edits that have another function traced in the place of a loop's own, in order."""
    return tuple(edit for edit in edits if isinstance(edit, FunctionEdit))
