"""What older tutorials say to write: it fails, and what takes its place is told, and works."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.capture.script import print_traceback
from uncork.pycode.syntax.removed_apis import suggest_replacement

RANGE = tf.data.Dataset.range(4)
X, Y = np.zeros((4, 2), "float32"), np.zeros((4, 1), "float32")


def scaling() -> keras.optimizers.LossScaleOptimizer:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())


def scale_of_a_built_one() -> keras.Variable:
    optimizer = scaling()
    optimizer.build([keras.Variable(1.0)])
    return optimizer.dynamic_scale


def model() -> keras.Model:
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return X, Y


def batches():
    yield X, Y


def policy_by_the_new_name() -> None:
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    keras.mixed_precision.set_global_policy(before)


def replicated() -> None:
    with tf.distribute.MirroredStrategy().scope():
        model()


GONE: dict[str, tuple[Callable[[], object], Callable[[], object], str]] = {
    "scaled loss": (
        lambda: scaling().get_scaled_loss(1.0),
        lambda: scaling().scale_loss(1.0),
        "optimizer.scale_loss(loss)",
    ),
    "unscaled gradients": (
        lambda: scaling().get_unscaled_gradients([1.0]),
        lambda: scaling().apply_gradients([(tf.constant(1.0), keras.Variable(1.0))]),
        "apply_gradients",
    ),
    "loss scale": (
        lambda: scaling().loss_scale,
        scale_of_a_built_one,
        "optimizer.dynamic_scale",
    ),
    "policy": (
        lambda: tf.keras.mixed_precision.experimental.set_policy("mixed_float16"),
        policy_by_the_new_name,
        "set_global_policy",
    ),
    "graph rewrite": (
        lambda: tf.train.experimental.enable_mixed_precision_graph_rewrite(scaling()),
        policy_by_the_new_name,
        "set_global_policy",
    ),
    "shuffle": (
        lambda: list(RANGE.shuffle(tf.data.AUTOTUNE)),
        lambda: list(RANGE.shuffle(len(RANGE))),
        "len(dataset)",
    ),
    "workers": (
        lambda: model().fit(Batches(), workers=2, verbose=0),
        lambda: model().fit(Batches(workers=2), verbose=0),
        "super().__init__(workers=...)",
    ),
    "processes": (
        lambda: model().fit(Batches(), use_multiprocessing=True, verbose=0),
        lambda: Batches(use_multiprocessing=True),
        "super().__init__(use_multiprocessing=...)",
    ),
    "generator": (
        lambda: model().fit_generator(batches()),
        lambda: model().fit(batches(), verbose=0),
        "fit takes generators",
    ),
    "several GPUs": (
        lambda: tf.keras.utils.multi_gpu_model(model(), 2),
        replicated,
        "MirroredStrategy().scope()",
    ),
    "run": (
        lambda: tf.distribute.MirroredStrategy().experimental_run_v2(lambda: 1),
        lambda: tf.distribute.MirroredStrategy().run(lambda: 1),
        "strategy.run",
    ),
    "steps per execution": (
        lambda: model().compile("sgd", "mse", experimental_steps_per_execution=4),
        lambda: model().compile("sgd", "mse", steps_per_execution=4),
        "steps_per_execution now",
    ),
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_gone_and_what_takes_its_place(name):
    gone, now, told = GONE[name]
    with pytest.raises(Exception) as failed:  # noqa: PT011 - of several kinds
        gone()
    assert told in suggest_replacement(str(failed.value))
    now()


def test_it_is_told_in_a_compiled_step_too():
    """TensorFlow puts the user's lines before the error's own words."""
    optimizer = scaling()

    @tf.function
    def step(loss):
        return optimizer.get_scaled_loss(loss)

    with pytest.raises(AttributeError) as failed:
        step(tf.constant(1.0))
    assert "scale_loss" in suggest_replacement(str(failed.value))


@pytest.mark.parametrize(
    "error",
    [
        "'Adam' object has no attribute 'learn'",
        "Batch size must be greater than zero",
        "fit() got an unexpected keyword argument 'epoch'",
        "",
    ],
)
def test_of_other_errors_nothing_is_said(error):
    assert suggest_replacement(error) == ""


def test_where_there_is_a_patch_it_is_told_what_to_type(capsys):
    with pytest.raises(AttributeError) as failed:
        scaling().get_scaled_loss(1.0)
    print_traceback(failed.value, "my train.py")
    told = capsys.readouterr().err.rstrip().splitlines()[-1]
    assert told.endswith("optimizer.scale_loss(loss); as a patch: uncork diff 'my train.py'")


def test_a_script_is_told_below_its_traceback(write, uncork):
    write("""
        import tensorflow as tf

        list(tf.data.Dataset.range(4).shuffle(tf.data.AUTOTUNE))
        """)
    got = uncork("tell", "train.py")
    assert got.returncode == 1
    assert got.stderr.rstrip().splitlines()[-1].startswith("uncork: shuffle takes a number")
