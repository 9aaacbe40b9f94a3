"""Names of private modules that hooks wait for, or that tell who owns a frame or a class.

Borrowed: names of modules of TensorFlow and Keras, as text; nothing is imported here.
Why: hooks are installed before the script imports TensorFlow, which they must not do for it.
Works with: TensorFlow 2.18.1 with Keras 3.7.0, and 2.21.0 with 3.15.1; its test was run on both.
Where a name is missing: its hook is never called; the test of this file reports the module.
"""

from __future__ import annotations

from typing import Final

# Keras: where ``fit``, ``compile`` and the optimizers' ``apply`` are.
KERAS_TRAINER: Final = "keras.src.trainers.trainer"
KERAS_TF_TRAINER: Final = "keras.src.backend.tensorflow.trainer"
KERAS_JAX_TRAINER: Final = "keras.src.backend.jax.trainer"
KERAS_TORCH_TRAINER: Final = "keras.src.backend.torch.trainer"
KERAS_BASE_OPTIMIZER: Final = "keras.src.optimizers.base_optimizer"
# All names under which Keras sets a dtype policy for new layers end in a function of this module.
KERAS_GLOBAL_STATE: Final = "keras.src.backend.common.global_state"
KERAS_LAYER: Final = "keras.src.layers.layer"
KERAS_OPERATION: Final = "keras.src.ops.operation"

# Keras: where models are saved.
KERAS_MODEL: Final = "keras.src.models.model"
KERAS_SAVING: Final = "keras.src.saving.saving_lib"
KERAS_LEGACY_SAVING: Final = "keras.src.legacy.saving.legacy_h5_format"
KERAS_BACKUP: Final = "keras.src.callbacks.backup_and_restore"

# What the module of each layer, or optimizer, of Keras itself begins with.
KERAS_LAYERS: Final = "keras.src.layers."
KERAS_OPTIMIZERS: Final = "keras.src.optimizers."

# TensorFlow: where datasets, compiled functions and gradients are.
TF_DATASETS: Final = "tensorflow.python.data.ops.dataset_ops"
TF_FUNCTIONS: Final = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
TF_TAPES: Final = "tensorflow.python.eager.backprop"
# Where TensorFlow calls the user's Python functions and generators to make elements.
TF_PYTHON_CALLS: Final = "tensorflow.python.ops.script_ops"

# TensorFlow: where files are written and read.
TF_FILES: Final = "tensorflow.python.lib.io.file_io"
TF_SUMMARIES: Final = "tensorflow.python.ops.summary_ops_v2"
TF_SAVED_MODEL_LOADER: Final = "tensorflow.python.saved_model.load"
TF_CHECKPOINT_READER: Final = "tensorflow.python.training.py_checkpoint_reader"
TF_SAVED_MODEL: Final = "tensorflow.python.saved_model.save"
TF_CHECKPOINT: Final = "tensorflow.python.checkpoint.checkpoint"
TF_CHECKPOINT_MANAGEMENT: Final = "tensorflow.python.checkpoint.checkpoint_management"

# Keras 2, on which Uncork refuses to work.
KERAS_2_TRAINER: Final = "tf_keras.src.engine.training"


def is_keras_layer_class(kind: type) -> bool:
    """Whether a class of layers is Keras's own, and not the user's or another library's.

    Example:
        >>> is_keras_layer_class(type("Own", (), {}))
        False
    """
    return kind.__module__.startswith(KERAS_LAYERS)
