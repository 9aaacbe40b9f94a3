"""Whole scripts with TensorFlow, in processes of their own."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

DETERMINISTIC = """
    import os, sys
    assert not {"tensorflow", "keras", "numpy"} & set(sys.modules)
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras, numpy as np, tensorflow as tf

    keras.utils.set_random_seed(1)
    assert tf.config.threading.get_intra_op_parallelism_threads() in (0, 1)
    x = np.random.random((64, 8)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(64).batch(8)
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5),
                              keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for epoch in range(2):
        for number, (x_batch, y_batch) in enumerate(dataset):
            step(x_batch, y_batch)
        losses = [float(tf.reduce_mean((model(a) - b) ** 2)) for a, b in dataset]
    model.compile("adam", "mse")
    model.fit(dataset, epochs=2, shuffle=False, verbose=2 if "-v" in sys.argv else 0,
              validation_data=dataset)
    model.fit(x, x[:, :1], verbose=0)
    for batch in dataset:
        model.train_on_batch(*batch)
    model.save("model.keras")
    np.savez(sys.argv[1], *model.get_weights(), *[v.numpy() for v in optimizer.variables])
    print(losses)
    """


def test_weights_equal_those_of_plain_python(write, plain, uncork, tmp_path):
    import numpy as np  # noqa: PLC0415

    write(DETERMINISTIC)
    expected = plain("train.py", "plain.npz")
    got = uncork("tell", "train.py", "uncork.npz")
    assert (expected.returncode, got.returncode) == (0, 0), expected.stderr + got.stderr
    told = [each for each in got.stdout.splitlines() if each.startswith("<")]
    assert told == [
        "<loop 0 train.py:24>",
        "<loop 0 train.py:24>",
        "<fit 1 train.py:28>",
        "<fit 2 train.py:30>",
        "<loop 3 train.py:31>",
    ]
    assert got.stdout.splitlines()[-1] == expected.stdout.splitlines()[-1]
    one, other = np.load(tmp_path / "plain.npz"), np.load(tmp_path / "uncork.npz")
    assert one.files == other.files != []
    for name in one.files:
        assert one[name].tobytes() == other[name].tobytes()


@pytest.mark.deep
@pytest.mark.usefixtures("forked_processes")
def test_stopped_script_ends_cleanly(write, uncork, tmp_path):
    write("""
        import atexit, keras, numpy as np
        atexit.register(lambda: print("exit handler"))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        try:
            model.fit(np.zeros((4, 1)), np.zeros((4, 1)))
        except Exception:
            print("taken for a failure")
        except:
            print("swallowed")
        finally:
            print("finally")
        model.fit(np.zeros((4, 1)), np.zeros((4, 1)))
        print("never")
        """)
    got = uncork("stop", "train.py")
    assert got.stdout == "<stop>\nswallowed\nfinally\nexit handler\n"
    assert got.returncode == 0
    assert "Traceback" not in got.stderr


@pytest.mark.usefixtures("forked_processes")
def test_script_that_swallows_stops_for_ever_is_left(write, uncork):
    write("""
        import keras, numpy as np
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        while True:
            try:
                model.fit(np.zeros((4, 1)), np.zeros((4, 1)))
            except:
                print("retry")
        """)
    got = uncork("refuse", "train.py")
    assert (got.stdout, got.returncode) == ("retry\n" * 3, 2)
    assert "the plan does not fit" in got.stderr
    assert "caught BaseException and continued 3 times" in got.stderr


def test_error_during_training_is_shown_as_python_shows_it(write, plain, uncork):
    write("""
        import keras, numpy as np
        class Break(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                raise ValueError("in the callback")
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(np.zeros((4, 1)), np.zeros((4, 1)), verbose=0, callbacks=[Break()])
        """)
    got = uncork("pass", "train.py")

    def traceback(text):
        return text[text.index("Traceback (most recent call last)") :]

    assert got.returncode == 1
    assert traceback(got.stderr) == traceback(plain("train.py").stderr)


def test_saves_are_held_from_the_first_import_on(write, uncork, tmp_path):
    write("""
        import keras, tensorflow as tf
        from keras.saving import save_model
        from tensorflow import saved_model
        from tensorflow.summary import create_file_writer
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.save("model.keras")
        save_model(model, "function.keras")
        saved_model.save(tf.Module(), "saved_model")
        with create_file_writer("logs").as_default():
            tf.summary.write("loss", 1.0, step=0)
        tf.train.Checkpoint(model=model).save("checkpoint")
        """)
    got = uncork("hold", "train.py")
    assert got.stdout.splitlines() == [
        "<held Checkpoint.save x1>",
        "<held Model.save x1>",
        "<held keras.saving.save_model x1>",
        "<held tf.saved_model.save x1>",
        "<held tf.summary.create_file_writer x1>",
    ], got.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
