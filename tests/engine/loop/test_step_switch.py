"""Steps of loops: real scripts, measured, and run with their step as a graph or under XLA."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import keras
import pytest

from plan_files import made_here
from records import STEPS, WORKLOAD, plan, workload_diagnosis
from running import Run, Write
from uncork.core.base.record import from_json, replace
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    PadArguments,
    ReduceRetracing,
    StepEdit,
    TensorArguments,
    TfFunction,
)
from uncork.engine.loop.step_lookup import find_step_of_loop
from uncork.pycode.frames.stack import format_location

SCRIPT = """
    import sys
    import keras, tensorflow as tf
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"),
                              keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    seen = []

    def gradients_of(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    def train_step(x):
        loss, gradients = gradients_of(x)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        {extra}
        return loss

    def main():
        rows = tf.random.stateless_normal((640, 32), (1, 2))
        data = tf.data.Dataset.from_tensor_slices(rows).shuffle(640, seed=1).batch(64)
        for epoch in range(int(sys.argv[1])):
            for x in data:
                loss = train_step(x)
            print(f"epoch {{epoch + 1}}: loss {{float(loss):.5f}}", flush=True)
        model.save_weights("trained.weights.h5")

    main()
    """


def script(extra: str = "pass") -> str:
    return SCRIPT.format(extra=extra)


def diagnosed(uncork: Run, path: Path, folder: Path, first: str = ""):
    """A brief look at what is trained; a longer one where a cause is to be named first.

    On a busy machine it may name none, or another one: it is taken up to three times.
    """
    for _ in range(3 if first else 1):
        budget_s = 3 if first else 2
        done = uncork("diagnose", "--budget", budget_s, "--json", "d.json", path, "100000")
        assert done.returncode == 0, done.stderr
        found = from_json((folder / "d.json").read_bytes(), Diagnosis).workloads[0]
        if found.is_inconclusive or [finding.cause for finding in found.findings[:1]] == [first]:
            break
    assert not first or found.is_inconclusive or found.findings[0].cause == first
    return found


def plain(path: Path, epochs: int) -> list[str]:
    """What the script prints in plain Python: here, where TensorFlow is imported already."""
    said, policy = io.StringIO(), keras.config.dtype_policy()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", [str(path), str(epochs)])
        patch.chdir(path.parent)
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:
            keras.config.set_dtype_policy(policy)
    return said.getvalue().splitlines()


def planned(folder: Path, workload, *others: StepEdit) -> Path:
    """Stands in for ``uncork tune``, whose choice depends on the machine."""
    kept = next(step for step in STEPS if step.outcome == "kept")
    edits = others or (TfFunction(code_digest=workload.step_code_digest),)
    made = plan(
        before=workload_diagnosis(workload=workload, stages=()),
        after=None,
        steps=(replace(kept, name="tf_function", edits=edits, guarantee="rounding"),),
    )
    (folder / "plan.json").write_bytes(serialize_plan(made_here(made)))
    return folder / "plan.json"


@pytest.mark.deep
@pytest.mark.slow
def test_a_step_that_computes_alone_becomes_a_graph(write: Write, uncork: Run, tmp_path: Path):
    path = write(script())
    found = diagnosed(uncork, path, tmp_path, "eager_step")
    assert found.workload.is_eager_step
    assert found.workload.tf_function_refusal == ""
    assert found.workload.step_code_digest
    made = planned(tmp_path, found.workload)
    tuned = uncork("run", "--plan", made, path, "3")
    assert tuned.returncode == 0, tuned.stderr
    assert [losses(t) for t in tuned.stdout.splitlines()] == pytest.approx(
        [losses(p) for p in plain(path, 3)], rel=1e-3
    )
    assert "uncork:" not in tuned.stderr
    # The same plan, and a step that does something else: as written, and said so.
    other = write(script("optimizer.learning_rate.assign(0.001)"), path.name)
    refused = uncork("run", "--allow-partial", "--plan", made, other, "1")
    assert refused.returncode == 0
    assert "continues eagerly: the code of the step, or a function that it calls" in refused.stderr
    strict = uncork("run", "--plan", made, other, "1")
    assert strict.returncode != 0
    assert "the code of the step, or a function that it calls" in strict.stderr


@pytest.mark.slow
def test_a_step_that_does_more_is_left_alone(write: Write, uncork: Run, tmp_path: Path):
    path = write(script("seen.append(float(loss))"))
    found = diagnosed(uncork, path, tmp_path, "eager_step")  # it is slow all the same
    assert found.workload.is_eager_step
    assert found.workload.tf_function_refusal == "it changes 'seen' in each step"


ARRAYS = """
    def main():
        rows = tf.random.stateless_normal((640, 32), (1, 2)).numpy()
        for epoch in range(int(sys.argv[1])):
            for begin in range(0, 640, 64):
                loss = train_step(rows[begin : begin + 64])
            print(f"epoch {epoch + 1}: loss {float(loss):.5f}", flush=True)

    main()
    """


@pytest.mark.deep
@pytest.mark.slow
def test_a_loop_over_arrays_as_well(write: Write, uncork: Run, tmp_path: Path):
    head = script().partition("    def main():")[0]
    path = write(head + ARRAYS.partition("\n")[2])
    found = diagnosed(uncork, path, tmp_path, "eager_step")
    assert found.workload.is_eager_step
    assert found.workload.tf_function_refusal == ""
    assert found.workload.batch_size == 64
    tuned = uncork("run", "--plan", planned(tmp_path, found.workload), path, "3")
    assert tuned.returncode == 0, tuned.stderr
    assert "uncork:" not in tuned.stderr
    assert [losses(t) for t in tuned.stdout.splitlines()] == pytest.approx(
        [losses(p) for p in plain(path, 3)], rel=1e-3
    )


INLINE = """
    def main():
        rows = tf.random.stateless_normal((640, 32), (1, 2))
        data = tf.data.Dataset.from_tensor_slices(rows).shuffle(640, seed=1).batch(64)
        for epoch in range(int(sys.argv[1])):
            for x in {read}:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(model(x, training=True) ** 2)
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            print(f"epoch {{epoch + 1}}: loss {{float(loss):.5f}}", flush=True)
        model.save_weights("trained.weights.h5")

    main()
    """
READ = {"a dataset": "data", "arrays": "[rows[n : n + 64] for n in range(0, 640, 64)]"}


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_a_step_that_stands_in_the_loop(write: Write, uncork: Run, tmp_path: Path, read: str):
    text = script()
    path = write(text[: text.index("    def main()")] + INLINE.format(read=read))
    found = diagnosed(uncork, path, tmp_path, "eager_step")
    assert found.workload.tf_function_refusal == ""
    tape = 1 + next(n for n, t in enumerate(path.read_text().splitlines()) if "in range(int" in t)
    assert {f.at.rpartition(":")[2] for f in found.findings[:1]} <= {str(tape + 2)}  # its block
    tuned = uncork("run", "--plan", planned(tmp_path, found.workload), path, "3")
    assert tuned.returncode == 0, tuned.stderr
    assert [losses(t) for t in tuned.stdout.splitlines()] == pytest.approx(
        [losses(p) for p in plain(path, 3)], rel=1e-3
    )


@pytest.mark.deep
@pytest.mark.slow
def test_a_step_under_xla(write: Write, uncork: Run, tmp_path: Path):
    # Without the dropout, which draws otherwise under XLA.
    text = script().replace("keras.layers.Dropout(0.2), ", "")
    compiled = text.replace("    def train_step", "    @tf.function\n    def train_step")
    path = write(compiled)
    found = diagnosed(uncork, path, tmp_path).workload
    assert not found.is_eager_step
    assert not found.jit_compile
    assert found.step_code_digest
    under_xla = JitCompile(code_digest=found.step_code_digest)
    made = planned(tmp_path, found, under_xla)
    expected = pytest.approx([losses(p) for p in plain(path, 3)], rel=1e-3)
    tuned = uncork("run", "--plan", made, path, "3")
    assert tuned.returncode == 0, tuned.stderr
    assert [losses(t) for t in tuned.stdout.splitlines()] == expected


@pytest.mark.deep
@pytest.mark.slow
def test_other_steps_under_xla(write: Write, uncork: Run, tmp_path: Path):
    """The same step in a loop over arrays, and one that runs op by op, made a graph first."""
    text = script().replace("keras.layers.Dropout(0.2), ", "")
    compiled = text.replace("    def train_step", "    @tf.function\n    def train_step")
    path = write(compiled)
    found = diagnosed(uncork, path, tmp_path).workload
    under_xla = JitCompile(code_digest=found.step_code_digest)
    made = planned(tmp_path, found, under_xla)
    expected = pytest.approx([losses(p) for p in plain(path, 3)], rel=1e-3)
    head, _, _ = compiled.partition("    def main():")
    arrays = uncork("run", "--plan", made, write(head + ARRAYS.partition("\n")[2]), "3")
    assert arrays.returncode == 0, arrays.stderr
    both = planned(tmp_path, found, TfFunction(code_digest=""), under_xla)
    eager = uncork("run", "--plan", both, write(text, path.name), "3")
    assert eager.returncode == 0, eager.stderr
    assert [losses(t) for t in eager.stdout.splitlines()] == expected


TEXTS = """
    import sys
    import keras, tensorflow as tf
    keras.utils.set_random_seed(1)
    optimizer, weight = keras.optimizers.SGD(0.1), keras.Variable([1.0])
    optimizer.build([weight])

    @tf.function(jit_compile=True)
    def train_step(x, y):
        with tf.GradientTape() as tape:
            seen = tf.cast(x != {fill}, tf.float32)
            mean = tf.reduce_sum(seen * tf.cast(x, tf.float32), 1) / tf.reduce_sum(seen, 1)
            loss = tf.reduce_mean((weight * mean - y) ** 2)
        optimizer.apply(tape.gradient(loss, [weight]), [weight])
        return loss

    def main():
        rows = tf.ragged.constant([[1 + n % 5] * (3 + n % 7) for n in range(40)])
        data = tf.data.Dataset.from_tensor_slices((rows, tf.ones(40))).map(lambda x, y: (x, y))
        data = data.padded_batch(4, padding_values=({fill}, 0.0))
        for epoch in range(int(sys.argv[1])):
            for x, y in data:
                loss = train_step(x, y)
            print(f"epoch {{epoch + 1}}: loss {{float(loss):.5f}}", flush=True)

    main()
    """


@pytest.mark.deep
@pytest.mark.slow
def test_a_step_on_longer_arguments(write: Write, uncork: Run, tmp_path: Path):
    """What they are filled up with is right for the data that the plan was made for alone."""
    path = write(TEXTS.format(fill=0))
    found = diagnosed(uncork, path, tmp_path)
    assert found.varying_shapes is not None
    (axis,) = found.varying_shapes.axes
    assert (axis.tensor_index, axis.axis, axis.padding_value, found.workload.jit_compile) == (
        0,
        1,
        0.0,
        True,
    )
    longer = PadArguments(
        code_digest=found.workload.step_code_digest,
        call_signature=found.varying_shapes.call_signature,
        multiple=8,
        axes=(axis,),
    )
    made = planned(tmp_path, found.workload, longer)
    tuned = uncork("run", "--plan", made, path, "3")
    assert tuned.returncode == 0, tuned.stderr
    expected = pytest.approx([losses(p) for p in plain(path, 3)], rel=1e-3)
    assert [losses(t) for t in tuned.stdout.splitlines()] == expected
    other = write(TEXTS.format(fill=-1))
    as_it_was = uncork("run", "--allow-partial", "--plan", made, other, "3")
    assert as_it_was.stdout.splitlines() == plain(other, 3)
    assert "continues unmodified: the plan does not fit this loop" in as_it_was.stderr
    assert uncork("run", "--plan", made, other, "3").returncode != 0


LENGTHS = """
    import sys
    import keras, tensorflow as tf
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.Dense(8, activation="relu"),
                              keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)
    traced = []

    @tf.function
    def train_step(x):
        traced.append(x.shape)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    rows = tf.random.stateless_normal((64, 40, 4), (1, 2))
    data = tf.data.Dataset.range(16).map(lambda n: rows[:, : n + 8])
    for epoch in range(int(sys.argv[1])):
        for x in data:
            loss = train_step(x)
        print(f"epoch {epoch + 1}: loss {float(loss):.5f}", flush=True)
    print(f"traced {len(traced)}")
    """


@pytest.mark.deep
@pytest.mark.slow
def test_a_step_for_all_shapes(write: Write, uncork: Run, tmp_path: Path):
    path = write(LENGTHS)
    found = diagnosed(uncork, path, tmp_path).workload
    made = planned(tmp_path, found, ReduceRetracing(code_digest=found.step_code_digest))
    tuned = uncork("run", "--plan", made, path, "2")
    assert tuned.returncode == 0, tuned.stderr
    written = plain(path, 2)
    assert tuned.stdout.splitlines()[:-1] == written[:-1]
    assert losses(written[-1]) >= 16
    assert losses(tuned.stdout.splitlines()[-1]) <= 8


NUMBERS = (
    LENGTHS.replace("def train_step(x):", "def train_step(x, rate, axis=1):")
    .replace("loss = tf.reduce_mean(model", "loss = rate * tf.reduce_mean(model")
    .replace("tf.data.Dataset.range(16).map(lambda n: rows[:, : n + 8])", "[rows] * 16")
    .replace("for x in data:", "for number, x in enumerate(data):")
    .replace("train_step(x)", "train_step(x, 1 / (1 + 16 * epoch + number))")
)


@pytest.mark.deep
@pytest.mark.slow
def test_numbers_that_change_are_handed_over_as_tensors(write: Write, uncork: Run, tmp_path: Path):
    path = write(NUMBERS)
    found = diagnosed(uncork, path, tmp_path, "retracing")
    assert found.findings[0].cause == "retracing"
    assert found.workload.number_arguments == ("rate",)
    edit = TensorArguments(code_digest=found.workload.step_code_digest, argument_names=("rate",))
    made = planned(tmp_path, found.workload, edit)
    tuned = uncork("run", "--plan", made, path, "2")
    assert tuned.returncode == 0, tuned.stderr
    written = plain(path, 2)
    assert tuned.stdout.splitlines()[:-1] == written[:-1]
    assert losses(written[-1]) == 32
    assert losses(tuned.stdout.splitlines()[-1]) <= 8


@pytest.mark.deep
@pytest.mark.slow
def test_a_step_in_another_precision(write: Write, uncork: Run, tmp_path: Path):
    low = LENGTHS.replace("keras.utils.set_random_seed(1)", MIXED).replace("n + 8", "8")
    low = low.replace("model(x, training=True)", "tf.cast(model(x), tf.float32)")
    seen = "traced.append(model.layers[0].compute_dtype)\n        return loss"
    low = low.replace("traced.append(x.shape)", "pass").replace("return loss", seen)
    path = write(low.replace("len(traced)", SET))
    found = diagnosed(uncork, path, tmp_path).workload
    assert found.dtype_policies == ("mixed_bfloat16",)
    made = planned(
        tmp_path, found, DtypePolicy(policy="float32", code_digest=found.step_code_digest)
    )
    tuned = uncork("run", "--plan", made, path, "2")
    assert tuned.returncode == 0, tuned.stderr
    written = plain(path, 2)
    *expected, traced = written
    assert traced == "traced bfloat16"
    *found, traced = tuned.stdout.splitlines()
    assert traced == "traced bfloat16 float32", "the first call is as written"
    assert [losses(f) for f in found] == pytest.approx([losses(e) for e in expected], rel=0.1)


MIXED = 'keras.config.set_dtype_policy("mixed_bfloat16"); keras.utils.set_random_seed(1)'
SET = "' '.join(sorted(set(traced)))"


@pytest.mark.slow
def test_another_step_goes_on_without_xla(write: Write, uncork: Run, tmp_path: Path):
    text = script().replace("    def train_step", "    @tf.function\n    def train_step")
    path = write(text)
    made = planned(tmp_path, step_loop(), JitCompile(code_digest="of another one"))
    done = uncork("run", "--allow-partial", "--plan", made, path, "8")
    assert done.returncode == 0, done.stderr
    assert "continues unmodified: it does not call the function" in done.stderr
    strict = uncork("run", "--plan", made, path, "8")
    assert strict.returncode != 0
    assert "cannot run as planned" in strict.stderr


def step_loop():
    """A workload that is such a loop, not looked at."""
    return replace(WORKLOAD, index=0, kind="custom_loop", model=None)


def losses(line: str) -> float:
    return float(line.rpartition(" ")[2])


def chain():
    """The code of three functions, from the innermost outwards."""

    def tape():
        return sys._getframe()

    def step():
        return tape()

    def loop():
        for _ in range(1):
            frame = step()
        return frame

    frame = loop()
    codes = []
    while frame.f_code is not loop.__code__:
        codes.append(frame.f_code)
        frame = frame.f_back
    return (*codes, loop.__code__), loop.__code__


def test_the_step_is_what_the_loop_calls():
    codes, loop = chain()
    at = format_location(loop.co_filename, loop.co_firstlineno + 2)
    assert find_step_of_loop(codes, at).co_name == "step"
    assert find_step_of_loop(codes[2:], at) is None  # the tape stands in the loop itself
    assert find_step_of_loop((), at) is None
    assert find_step_of_loop(codes[:2], "elsewhere.py:3").co_name == "step"
