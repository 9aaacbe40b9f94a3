"""What one training call trains."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record
from uncork.core.edits.step import Precision
from uncork.core.evidence.stage import InStep

LoopKind = Literal["fit", "custom_loop"]
DataKind = Literal["tf.data", "numpy", "pydataset", "generator", "other"]


class ModelSignature(Record, frozen=True, kw_only=True):
    """What a plan expects of a model; trained values are no part of it.

    Attributes:
        name: Class of the model, e.g. ``Sequential``.
        parameters: Count of trainable and other weights.
        variables: Digest of shapes and dtypes of all weights, in order.
        optimizer: Class and configuration of the optimizer, without the learning rate's value.
        loss: As given to ``compile``.
        dtype_policy: Names in use, e.g. ``("float32",)``.
        train_step: Digest of an own ``train_step``, ``""`` for Keras's.
        code: Digest of all other code of the user's that a step runs: layers, losses, metrics;
            ``""`` where there is none.
        architecture: Digest of all layers, their settings and connections, whatever their names.
    """

    name: str
    parameters: int
    variables: str
    optimizer: str
    loss: str
    dtype_policy: tuple[str, ...]
    train_step: str = ""
    code: str = ""
    architecture: str = ""


class Workload(Record, frozen=True, kw_only=True):
    """One training call of a script.

    Attributes:
        index: Its number in order of reaching, from 0; ``--training N`` chooses it.
        at: ``file.py:line`` of the call or of the ``for`` statement.
        step_at: The same of what sets up its step: ``compile``, or the function that computes
            gradients eagerly; None where that is not known.
        called_at: The same of where a loop of the user's own calls its compiled step; None where
            that was not seen.
        policy_at: The same of where the script last set a dtype policy for new layers.
        kind: ``fit`` or ``custom_loop``.
        data: What feeds it.
        model: None in a custom loop, where the model is the user's own business.
        element_spec: Structure, shapes and dtypes of one batch, as text.
        batch_size: Samples a step; None when it cannot be known.
        steps_per_epoch: None when the length is unknown or infinite.
        steps_given: ``steps_per_epoch`` was given to ``fit``: the data may go on beyond an epoch.
        validation_steps: As given to ``fit``; None where it was not, or nothing is validated.
        epochs: As the user asked.
        epochs_assumed: Of a loop nobody knows how many it has: so many are reckoned with.
        reads_again: Its pipeline repeats its source by itself, within an epoch or beyond one.
        arrays_in_step: Set on arrays whose rows the training step could gather on its device.
        numbers: Arguments of a loop's step that are Python numbers and change from call to call.
        pipeline: Digest of the pipeline's structure, ``""`` when it is not tf.data.
        loader: Digest of the code of a ``PyDataset`` and of the settings that it reads.
        loader_kept: Its batches are made once and kept, by an edit.
        loader_workers: Threads or processes that make its batches; 1 where it has none.
        eager_step: The step runs op by op from Python.
        step_code: Digest of the code of a loop's step, where it can be run otherwise: of all code
            that runs op by op, or of the one ``tf.function`` that the loop calls; ``""`` in a fit.
        not_traceable: Why an eager step cannot be a ``tf.function``, as part of a sentence; ``""``
            where it can, as far as was seen.
        batch_hooks: Callbacks that act on every batch, by class name: they must keep seeing each.
        jit_compile: XLA is on already.
        steps_per_execution: Of the compiled model; 1 in a custom loop.
        layer_policies: Dtype policies of the layers that a loop's step calls, as far as was seen.
        first_layers: Names of the layers that the model begins with and that learn nothing.
        first_layers_draw: Some of these draw random numbers.
        random_layers: Names of layers that only draw at random, and may stay in float32.
        sensitive_layers: Names of those that a low precision harms first: they give the model's
            outputs, or normalize.
        careful: These stay in float32, too, where others compute in a lower precision.
        replicas: On how many devices a step runs.
        distributed: Runs under a tf.distribute strategy.
        small_weights: How many small weights its optimizer could update as one; 0 where it cannot.
        intra_op_threads: For the work within one kernel, as the script or its environment chose; 0
            where TensorFlow does.
        fusable_weights: How many weights one kernel each could update; 0 where there is none.
        row_tables: Of how many tables of embeddings the rows that a batch looks up could be updated
            alone; 0 where the optimizer changes others, too.
        called_in_loop: ``fit`` is called again and again, for a few steps each time.
        parts_later: Layers of the script's own are built by ``fit``, and may make others then.
        data_made_anew: A loop's dataset is another object in each pass: what is kept of one is not
            read again.
        default_rewrites: tf.data's own graph rewrites are on (parallel maps, injected prefetch).
    """

    index: int
    at: str
    kind: LoopKind
    data: DataKind
    model: ModelSignature | None
    element_spec: str
    batch_size: int | None
    steps_per_epoch: int | None
    epochs: int
    pipeline: str = ""
    loader: str = ""
    loader_kept: bool = False
    loader_workers: int = 1
    eager_step: bool = False
    step_code: str = ""
    not_traceable: str = ""
    batch_hooks: tuple[str, ...] = ()
    jit_compile: bool = False
    steps_per_execution: int = 1
    distributed: bool = False
    replicas: int = 1
    default_rewrites: bool = True
    steps_given: bool = False
    validation_steps: int | None = None
    step_at: str | None = None
    policy_at: str | None = None
    called_at: str | None = None
    called_in_loop: bool = False
    small_weights: int = 0
    fusable_weights: int = 0
    row_tables: int = 0
    intra_op_threads: int = 0
    parts_later: bool = False
    data_made_anew: bool = False
    layer_policies: tuple[str, ...] = ()
    first_layers: tuple[str, ...] = ()
    first_layers_draw: bool = False
    random_layers: tuple[str, ...] = ()
    sensitive_layers: tuple[str, ...] = ()
    careful: bool = False
    arrays_in_step: InStep | None = None
    numbers: tuple[str, ...] = ()
    reads_again: bool = False
    epochs_assumed: bool = False

    @property
    def passes(self) -> int:
        """Over the data, at least: what repeats its source by itself is not read once."""
        return max(self.epochs, 2) if self.reads_again else self.epochs

    @property
    def dtype_policies(self) -> tuple[str, ...]:
        """Of the layers that the step computes with."""
        return self.layer_policies if self.model is None else self.model.dtype_policy

    def kept_in(self, policy: Precision) -> tuple[str, ...]:
        """Names of layers that are left in float32 where the others compute in this policy."""
        if policy == "float32":
            return ()
        others = self.sensitive_layers if self.careful else ()
        return tuple(dict.fromkeys((*self.random_layers, *others)))
