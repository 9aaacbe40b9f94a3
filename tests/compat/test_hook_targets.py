from __future__ import annotations

import importlib
import subprocess
import sys
from functools import reduce
from pathlib import Path

import keras
import pytest

from uncork.compat import hook_targets as targets

# What hooks replace in each module; they are called with the module once it is imported.
REPLACED = {
    targets.KERAS_TRAINER: ["Trainer.compile"],
    targets.KERAS_TF_TRAINER: ["TensorFlowTrainer.fit", "TensorFlowTrainer.train_on_batch"],
    targets.KERAS_BASE_OPTIMIZER: ["BaseOptimizer.apply"],
    targets.KERAS_GLOBAL_STATE: ["set_global_attribute"],
    targets.KERAS_LAYER: ["Layer.__new__"],
    targets.KERAS_OPERATION: ["Operation.__call__"],
    targets.KERAS_MODEL: ["Model.save", "Model.save_weights", "Model.export"],
    targets.KERAS_SAVING: ["save_model", "save_weights_only"],
    targets.KERAS_LEGACY_SAVING: ["save_model_to_hdf5"],
    targets.KERAS_BACKUP: ["BackupAndRestore._save_model", "BackupAndRestore.on_train_end"],
    targets.TF_DATASETS: ["DatasetV2.__iter__", "context.executing_eagerly"],
    targets.TF_FUNCTIONS: ["Function.__call__", "context.executing_eagerly"],
    targets.TF_TAPES: ["GradientTape.gradient", "context.executing_eagerly"],
    targets.TF_PYTHON_CALLS: [],
    targets.TF_FILES: ["FileIO"],
    targets.TF_SUMMARIES: ["_ResourceSummaryWriter", "_TrackableResourceSummaryWriter"],
    targets.TF_SAVED_MODEL: ["save_and_return_nodes"],
    targets.TF_CHECKPOINT: [
        *("Checkpoint.write", "Checkpoint.save", "Checkpoint._write"),
        *("TrackableSaver.save", "TrackableSaver.restore"),
    ],
    targets.TF_CHECKPOINT_READER: ["NewCheckpointReader"],
    targets.TF_SAVED_MODEL_LOADER: ["load_partial"],
    targets.TF_CHECKPOINT_MANAGEMENT: ["CheckpointManager.save"],
}
# They are only there where another backend, or Keras 2, is installed.
OTHERS = {targets.KERAS_JAX_TRAINER, targets.KERAS_TORCH_TRAINER, targets.KERAS_2_TRAINER}
# What names of modules begin with.
PREFIXES = {targets.KERAS_LAYERS, targets.KERAS_OPTIMIZERS}


@pytest.mark.parametrize("target", REPLACED)
def test_a_module_that_hooks_wait_for_has_what_they_replace(target):
    module = importlib.import_module(target)
    for path in REPLACED[target]:
        assert reduce(getattr, path.split("."), module) is not None


@pytest.mark.parametrize("target", [targets.KERAS_JAX_TRAINER, targets.KERAS_TORCH_TRAINER])
def test_other_backends_are_where_they_are_waited_for(target):
    _, *folders, module = target.split(".")
    assert Path(keras.__file__).parent.joinpath(*folders, f"{module}.py").exists()


def test_all_targets_are_tested():
    names = {value for name, value in vars(targets).items() if name.isupper()}
    assert names == REPLACED.keys() | OTHERS | PREFIXES


def test_classes_of_keras_s_layers_are_told_apart():
    assert targets.is_keras_layer_class(keras.layers.Dense)
    assert not targets.is_keras_layer_class(type("Dense", (keras.layers.Dense,), {}))
    assert type(keras.optimizers.SGD()).__module__.startswith(targets.KERAS_OPTIMIZERS)


def test_keras_is_not_imported():
    code = f"import sys, {targets.__name__}; sys.exit('keras' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
