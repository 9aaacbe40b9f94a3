"""What one training call trains."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record
from uncork.core.edits.step import Precision
from uncork.core.evidence.stage import StepOffload

LoopKind = Literal["fit", "custom_loop"]
DataKind = Literal["tf.data", "numpy", "pydataset", "generator", "other"]


class ModelSignature(Record, frozen=True, kw_only=True):
    """What a plan expects of a model; trained values are no part of it.

    Attributes:
        name: Class of the model, e.g. ``Sequential``.
        parameter_count: Count of trainable and other weights.
        variables_digest: Digest of shapes and dtypes of all weights, in order.
        optimizer: Class and configuration of the optimizer, without the learning rate's value.
        loss: As given to ``compile``.
        dtype_policies: Names in use, e.g. ``("float32",)``.
        train_step_digest: Digest of an own ``train_step_digest``, ``""`` for Keras's.
        code_digest: Digest of all other code of the user's that a step runs: layers, losses,
            metrics; ``""`` where there is none.
        architecture_digest: Digest of all layers, their settings and connections, whatever their
            names.
    """

    name: str
    parameter_count: int
    variables_digest: str
    optimizer: str
    loss: str
    dtype_policies: tuple[str, ...]
    train_step_digest: str = ""
    code_digest: str = ""
    architecture_digest: str = ""


class Workload(Record, frozen=True, kw_only=True):
    """One training call of a script.

    Attributes:
        index: Its number in order of reaching, from 0; ``--training N`` chooses it.
        at: ``file.py:line`` of the call or of the ``for`` statement.
        step_setup_at: The same of what sets up its step: ``compile``, or the function that computes
            gradients eagerly; None where that is not known.
        step_call_at: The same of where a loop of the user's own calls its compiled step; None where
            that was not seen.
        dtype_policy_at: The same of where the script last set a dtype policy for new layers.
        kind: ``fit`` or ``custom_loop``.
        data_kind: What feeds it.
        model: None in a custom loop, where the model is the user's own business.
        element_spec: Structure, shapes and dtypes of one batch, as text.
        batch_size: Samples a step; None when it cannot be known.
        steps_per_epoch: None when the length is unknown or infinite.
        has_explicit_steps: ``steps_per_epoch`` was given to ``fit``: the data may go on beyond an
            epoch.
        validation_steps: As given to ``fit``; None where it was not, or nothing is validated.
        epochs: As the user asked.
        is_epoch_count_assumed: Of a loop nobody knows how many it has: so many are reckoned with.
        is_source_repeated: Its pipeline repeats its source by itself, within an epoch or beyond
            one.
        array_offload: Set on arrays whose rows the training step could gather on its device.
        number_arguments: Arguments of a loop's step that are Python numbers and change from call to
            call.
        pipeline_digest: Digest of the pipeline's structure, ``""`` when it is not tf.data.
        loader_digest: Digest of the code of a ``PyDataset`` and of the settings that it reads.
        is_loader_cached: Its batches are made once and kept, by an edit.
        loader_workers: Threads or processes that make its batches; 1 where it has none.
        is_eager_step: The step runs op by op from Python.
        step_code_digest: Digest of the code of a loop's step, where it can be run otherwise: of all
            code that runs op by op, or of the one ``tf.function`` that the loop calls; ``""`` in a
            fit.
        tf_function_refusal: Why an eager step cannot be a ``tf.function``, as part of a sentence;
            ``""`` where it can, as far as was seen.
        batch_callbacks: Callbacks that act on every batch, by class name: they must keep seeing
            each.
        jit_compile: XLA is on already.
        steps_per_execution: Of the compiled model; 1 in a custom loop.
        layer_dtype_policies: Dtype policies of the layers that a loop's step calls, as far as was
            seen.
        preprocessing_layers: Names of the layers that the model begins with and that learn nothing.
        is_preprocessing_random: Some of these draw random numbers.
        random_layers: Names of layers that only draw at random, and may stay in float32.
        precision_sensitive_layers: Names of those that a low precision harms first: they give the
            model's outputs, or normalize.
        is_precision_conservative: These stay in float32, too, where others compute in a lower
            precision.
        replicas: On how many devices a step runs.
        is_distributed: Runs under a tf.distribute strategy.
        small_weight_count: How many small weights its optimizer could update as one; 0 where it
            cannot.
        intra_op_threads: For the work within one kernel, as the script or its environment chose; 0
            where TensorFlow does.
        fusable_weight_count: How many weights one kernel each could update; 0 where there is none.
        row_update_table_count: Of how many tables of embeddings the rows that a batch looks up
            could be updated alone; 0 where the optimizer changes others, too.
        is_fit_in_loop: ``fit`` is called again and again, for a few steps each time.
        has_late_built_layers: Layers of the script's own are built by ``fit``, and may make others
            then.
        is_dataset_recreated: A loop's dataset is another object in each pass: what is kept of one
            is not read again.
        has_default_rewrites: tf.data's own graph rewrites are on (parallel maps, injected
            prefetch).
    """

    index: int
    at: str
    kind: LoopKind
    data_kind: DataKind
    model: ModelSignature | None
    element_spec: str
    batch_size: int | None
    steps_per_epoch: int | None
    epochs: int
    pipeline_digest: str = ""
    loader_digest: str = ""
    is_loader_cached: bool = False
    loader_workers: int = 1
    is_eager_step: bool = False
    step_code_digest: str = ""
    tf_function_refusal: str = ""
    batch_callbacks: tuple[str, ...] = ()
    jit_compile: bool = False
    steps_per_execution: int = 1
    is_distributed: bool = False
    replicas: int = 1
    has_default_rewrites: bool = True
    has_explicit_steps: bool = False
    validation_steps: int | None = None
    step_setup_at: str | None = None
    dtype_policy_at: str | None = None
    step_call_at: str | None = None
    is_fit_in_loop: bool = False
    small_weight_count: int = 0
    fusable_weight_count: int = 0
    row_update_table_count: int = 0
    intra_op_threads: int = 0
    has_late_built_layers: bool = False
    is_dataset_recreated: bool = False
    layer_dtype_policies: tuple[str, ...] = ()
    preprocessing_layers: tuple[str, ...] = ()
    is_preprocessing_random: bool = False
    random_layers: tuple[str, ...] = ()
    precision_sensitive_layers: tuple[str, ...] = ()
    is_precision_conservative: bool = False
    array_offload: StepOffload | None = None
    number_arguments: tuple[str, ...] = ()
    is_source_repeated: bool = False
    is_epoch_count_assumed: bool = False

    @property
    def min_passes(self) -> int:
        """Over the data, at least: what repeats its source by itself is not read once."""
        return max(self.epochs, 2) if self.is_source_repeated else self.epochs

    @property
    def dtype_policies(self) -> tuple[str, ...]:
        """Of the layers that the step computes with."""
        return self.layer_dtype_policies if self.model is None else self.model.dtype_policies

    def float32_layers(self, policy: Precision) -> tuple[str, ...]:
        """Names of layers that are left in float32 where the others compute in this policy."""
        if policy == "float32":
            return ()
        others = self.precision_sensitive_layers if self.is_precision_conservative else ()
        return tuple(dict.fromkeys((*self.random_layers, *others)))
