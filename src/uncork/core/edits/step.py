"""What to change in a training step, as data (see :mod:`uncork.core.edits.edit`)."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record
from uncork.core.evidence.batches import VaryingAxis

# Of layers, in Keras's words: what they compute in. Their weights are float32.
Precision = Literal["mixed_bfloat16", "mixed_float16", "float32"]


class TfFunction(Record, tag="tf_function", frozen=True, kw_only=True):
    """Run a step that runs op by op as a ``tf.function``.

    All code of the user's that the step runs has this digest. The arguments that are called
    ``number_arguments`` are given to it as tensors where they are Python numbers.
    """

    code_digest: str
    number_arguments: tuple[str, ...] = ()


class ReduceRetracing(Record, tag="reduce_retracing", frozen=True, kw_only=True):
    """Trace the ``tf.function`` that a loop calls, of this ``code_digest``, once for all shapes.

    Dimensions in which two calls differ are left open.
    """

    code_digest: str


class TensorArguments(Record, tag="tensor_arguments", frozen=True, kw_only=True):
    """Pass Python numbers as tensors to the ``tf.function`` of a loop, of this ``code_digest``.

    ``argument_names`` are those of the arguments.
    """

    code_digest: str
    argument_names: tuple[str, ...]


class ArrayArguments(Record, tag="array_arguments", frozen=True, kw_only=True):
    """Copy arrays for a loop's ``tf.function``, of this ``code_digest``, only where they changed.

    ``argument_names`` are those of the arguments.
    """

    code_digest: str
    argument_names: tuple[str, ...]


class ReuseIterator(Record, tag="reuse_iterator", frozen=True, kw_only=True):
    """Let ``fit``, ``evaluate`` and ``predict`` read arrays through a kept iterator."""


class LayersInInput(Record, tag="layers_in_input", frozen=True, kw_only=True):
    """Run the ``layer_names`` that the model begins with, by name, in the input pipeline.

    Where one of them ``is_random`` random numbers, for one batch after the other.
    """

    layer_names: tuple[str, ...]
    is_random: bool = False


class MapOnDevice(Record, tag="map_on_device", frozen=True, kw_only=True):
    """Do the last maps of the input pipeline in the training step, on the device that trains.

    What they do to a whole batch has this digest. Of several such edits the last one counts. The
    batches of a loop of the user's own are made before its step, on the device of this
    ``placement``, in TensorFlow's words.
    """

    expected_digest: str
    placement: str = ""


class PadLengths(Record, tag="pad_lengths", frozen=True, kw_only=True):
    """Fill each batch of a ``fit`` up, so that its lengths are multiples of ``multiple``.

    ``axes`` are those of its tensors that differ from batch to batch. With ``has_validation`` what
    is validated on is filled up likewise.
    """

    multiple: int
    axes: tuple[VaryingAxis, ...]
    has_validation: bool = False


class PadArguments(Record, tag="pad_arguments", frozen=True, kw_only=True):
    """Pad arguments of a loop's ``tf.function``, of this ``code_digest``, as :class:`PadLengths`.

    ``axes`` are of its arguments, taken apart, in which calls differ. Calls of any other
    ``call_signature`` are left as they are.
    """

    code_digest: str
    call_signature: str
    multiple: int
    axes: tuple[VaryingAxis, ...]


class StepsPerExecution(Record, tag="steps_per_execution", frozen=True, kw_only=True):
    """Run ``steps`` training steps for each call from Python."""

    steps: int


class LargerBatch(Record, tag="larger_batch", frozen=True, kw_only=True):
    """Multiply the batch by ``batch_multiplier``, the rate by ``learning_rate_multiplier``.

    A tf.data pipeline gives such batches by :class:`Rebatch`; arrays are cut into them.
    """

    batch_multiplier: int
    learning_rate_multiplier: float


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

    In a loop of the user's own the step is a function, whose ``code_digest`` has this digest.
    """

    code_digest: str = ""


class RowUpdates(Record, tag="row_updates", frozen=True, kw_only=True):
    """Read and update only those rows of tables of embeddings that a batch looks up."""


class VectorizedMapFn(Record, tag="maps_at_once", frozen=True, kw_only=True):
    """Answer what the training step asks of ``tf.map_fn`` for all elements at once.

    In a loop of the user's own the step is a function, whose ``code_digest`` has this digest.
    """

    code_digest: str = ""


class JitCompile(Record, tag="jit_compile", frozen=True, kw_only=True):
    """Compile the training step with XLA.

    In a loop of the user's own the step is a function, whose ``code_digest`` has this digest.
    """

    code_digest: str = ""


class JitCompileOff(Record, tag="jit_compile_off", frozen=True, kw_only=True):
    """Run the training step on TensorFlow's own kernels, where the script asks for XLA.

    In a loop of the user's own the step is a function, whose ``code_digest`` has this digest.
    """

    code_digest: str = ""


class DtypePolicy(Record, tag="dtype_policy", frozen=True, kw_only=True):
    """Compute in another dtype; ``float32_layers`` names layers that stay as they are.

    Those that only draw are meant and, where it is ``is_precision_conservative``, those that a low
    precision harms first; in another model of the script they have other names.

    In a loop of the user's own the step is a function, whose ``code_digest`` has this digest.
    """

    policy: Precision
    float32_layers: tuple[str, ...] = ()
    code_digest: str = ""
    is_precision_conservative: bool = False


# Of these, what has another function traced in the place of a loop's own.
FunctionEdit = (
    TensorArguments
    | ArrayArguments
    | ReduceRetracing
    | PadArguments
    | VectorizedMapFn
    | FusedUpdates
    | JitCompile
    | JitCompileOff
    | DtypePolicy
)
# What makes batches of few lengths of those of many.
PaddingEdit = PadLengths | PadArguments
# What was proved of a model holds for its own code and layers only.
CodeSpecificEdit = (
    JitCompile | DtypePolicy | PadLengths | MicroBatches | RecomputeActivations | LargerBatch
)
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


def has_reimplemented_math(edits: tuple[StepEdit, ...]) -> bool:
    """Whether they do themselves, as it was proved with one version, what Keras does."""
    own = FlatUpdates | FusedUpdates | RowUpdates | MicroBatches | LayersInInput
    return any(isinstance(edit, own) for edit in edits)


def has_tf_function(edits: tuple[StepEdit, ...]) -> bool:
    """Whether they make a step that runs op by op a ``tf.function``."""
    return any(isinstance(edit, TfFunction) for edit in edits)


def find_batch_multiplier(edits: tuple[StepEdit, ...]) -> int:
    """How many of the script's batches a step trains on.

    Example:
        >>> (
        ...     find_batch_multiplier(
        ...         (LargerBatch(batch_multiplier=4, learning_rate_multiplier=2.0),)
        ...     ),
        ...     find_batch_multiplier(()),
        ... )
        (4, 1)
    """
    return next((edit.batch_multiplier for edit in edits if isinstance(edit, LargerBatch)), 1)


def find_map_on_device(edits: tuple[StepEdit, ...]) -> MapOnDevice | None:
    """Which of the input pipeline's last maps the step does; of several edits the last one says."""
    return next((edit for edit in reversed(edits) if isinstance(edit, MapOnDevice)), None)


def select_function_edits(edits: tuple[StepEdit, ...]) -> tuple[FunctionEdit, ...]:
    """The edits that have another function traced in the place of a loop's own, in order."""
    return tuple(edit for edit in edits if isinstance(edit, FunctionEdit))
