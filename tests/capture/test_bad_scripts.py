from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


def test_missing_script_suggests_a_close_name(write, uncork):
    write("")
    got = uncork("tell", "trian.py")
    assert got.returncode == 2
    assert got.stderr == (
        "no script 'trian.py'\n  expected: a Python file\n  try: did you mean train.py?\n"
    )


def test_missing_folder(uncork):
    got = uncork("tell", "nowhere/train.py")
    assert got.returncode == 2
    assert "no script 'nowhere/train.py'" in got.stderr


def test_directory(uncork, tmp_path):
    (tmp_path / "project").mkdir()
    got = uncork("tell", "project")
    assert (got.returncode, got.stdout) == (2, "")
    assert "'project' is a directory" in got.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(write, uncork):
    write("print('never')").chmod(0)
    got = uncork("tell", "train.py")
    assert (got.returncode, got.stdout) == (2, "")
    assert "cannot read 'train.py'" in got.stderr


def test_name_no_file_can_have(uncork):
    got = uncork("tell", "x" * 300)
    assert (got.returncode, got.stdout) == (2, "")
    assert "File name too long" in got.stderr


def test_not_python_at_all(tmp_path, uncork):
    (tmp_path / "train.py").write_bytes(b"\x00\xff\x7fELF")
    got = uncork("tell", "train.py")
    assert got.returncode == 1
    assert "null bytes" in got.stderr
    assert "uncork" not in got.stderr


def test_raises_before_training(write, uncork):
    write("""
        print("loading")
        open("missing.csv")
        """)
    got = uncork("tell", "train.py")
    assert (got.returncode, got.stdout) == (1, "loading\n")
    assert got.stderr.endswith("No such file or directory: 'missing.csv'\n")
    assert "capture" not in got.stderr


def test_never_trains(write, uncork):
    write("print('done')")
    got = uncork("tell", "train.py")
    assert (got.returncode, got.stdout, got.stderr) == (0, "done\n", "")


def test_exits_before_training(write, uncork):
    write("import sys; print('bye'); sys.exit(7)")
    got = uncork("stop", "train.py")
    assert (got.returncode, got.stdout, got.stderr) == (7, "bye\n", "")


def test_reads_stdin_that_has_ended(write, plain, uncork):
    write("input()")
    got = uncork("tell", "train.py")
    assert (got.returncode, got.stderr) == (1, plain("train.py").stderr)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_processes")
def test_interrupted_during_training(write, driver, tmp_path):
    write("""
        import atexit, keras, tensorflow as tf
        atexit.register(lambda: print("exit handler", flush=True))
        class Say(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch == 3: print("training", flush=True)
        x = tf.zeros((8, 4))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        try:
            model.fit(tf.data.Dataset.from_tensors((x, x[:, :1])).repeat(), epochs=1,
                      steps_per_epoch=10**9, verbose=0, callbacks=[Say()])
        finally:
            print("finally", flush=True)
        print("never")
        """)
    process = subprocess.Popen(
        [sys.executable, str(driver), "pass", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C works, even where the tests themselves run in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert rest == "finally\nexit handler\n"
    assert process.returncode == 130
