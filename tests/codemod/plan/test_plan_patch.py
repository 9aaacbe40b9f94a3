"""Each step of a plan, as it is written into a script, and where it is not."""

from __future__ import annotations

import sys
from typing import get_args

import pytest

from codemod.scripts import FIT, KEPT, LOOP, at, lines, of_fit, of_loop, patched, with_point
from uncork.codemod.plan.plan_patch import STAGE_WRITERS, WRITERS
from uncork.codemod.plan.reasons import REASONS
from uncork.codemod.plan.rewrite_calls import REWRITES
from uncork.core.base.errors import WrongUse
from uncork.core.base.record import replace
from uncork.core.edits.edit import (
    AsyncCheckpoint,
    IntraOpThreads,
    KeepFreedMemory,
    LoaderEdit,
    ProcessEdit,
    ValidationInput,
)
from uncork.core.edits.pipeline import (
    AutotuneOff,
    Cache,
    DiskCache,
    LessAhead,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    ShuffleFirst,
)
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    JitCompile,
    JitCompileOff,
    LayersInInput,
    ReduceRetracing,
    StepEdit,
    StepsPerExecution,
)

MAP = ParallelMap(stage=1, expected_digest="")
CACHE = Cache(stage=1, expected_digest="")
CHAINED = FIT.replace("    .shuffle(100)\n", "").replace(
    "    .map(load)", "    .shuffle(100)\n    .map(load)"
)

WRITTEN = {
    "steps_per_execution": (StepsPerExecution(steps=16), ["+    steps_per_execution=16,"]),
    "jit_compile": (JitCompile(), ["+    jit_compile=True,"]),
    "jit_compile_off": (JitCompileOff(), ["+    jit_compile=False,"]),
    "parallel_map": (
        MAP,
        [
            "-    .map(load)",
            "+    .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)",
        ],
    ),
    "cache": (CACHE, ["+    .cache()"]),
    "shuffle_first": (
        ShuffleFirst(stage=2, expected_digest=""),
        ["+    .shuffle(100)", "-    .shuffle(100)"],
    ),
    "prefetch": (
        Prefetch(expected_digest=""),
        [
            "-history = model.fit(data, epochs=10)",
            "+history = model.fit(data.prefetch(tf.data.AUTOTUNE), epochs=10)",
        ],
    ),
    "autotune_off": (
        AutotuneOff(expected_digest=""),
        [
            "-history = model.fit(data, epochs=10)",
            "+options = tf.data.Options()",
            "+options.autotune.enabled = False",
            "+history = model.fit(data.with_options(options), epochs=10)",
        ],
    ),
    "intra_op_threads": (
        IntraOpThreads(threads=1),
        ["+import os", "+", '+os.environ["TF_NUM_INTRAOP_THREADS"] = "1"', "+"],
    ),
    "keep_freed_memory": (
        KeepFreedMemory(),
        [
            "+import ctypes",
            "+",
            "+import platform",
            '+if platform.libc_ver()[0] == "glibc":',
            "+    libc = ctypes.CDLL(None)",
            "+    libc.mallopt(-8, 1)  # M_ARENA_MAX: one, which all threads share",
            "+    libc.mallopt(-4, 0)  # M_MMAP_MAX: large pieces come from it, too",
            "+    libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: what is freed is kept",
            "+",
        ],
    ),
    "dtype_policy": (
        DtypePolicy(policy="mixed_bfloat16"),
        ["+", '+keras.mixed_precision.set_global_policy("mixed_bfloat16")'],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_step_is_written_where_it_belongs_and_nothing_else_moves(name: str) -> None:
    edit, expected = WRITTEN[name]
    patch = patched(FIT, of_fit(FIT, edit))
    assert sorted(lines(patch)) == sorted(expected)
    assert patch.included == (name,)
    assert patch.omitted == ()
    compile(patch.after, "train.py", "exec")


def test_all_of_them_at_once() -> None:
    edits = [edit for edit, _ in WRITTEN.values() if not isinstance(edit, ShuffleFirst)]
    patch = patched(FIT, of_fit(FIT, *edits))
    assert patch.omitted == ()
    text = patch.after.decode()
    assert "deterministic=True)\n    .cache()\n    .shuffle(100)" in text
    assert "data.prefetch(tf.data.AUTOTUNE).with_options(options)" in text
    assert text.startswith("import os\n\nos.environ")
    compile(patch.after, "train.py", "exec")


def test_a_cache_stands_behind_what_is_written_into_the_same_call() -> None:
    """Whichever the plan has first; and what is read at the end stays at the end."""
    text = FIT.replace("    .batch(32)", "    .padded(32)")
    text = text.replace("model.fit(data,", "model.fit(data.batch(2).take(9),")
    made = of_fit(text, CACHE, MAP, Prefetch(expected_digest=""))
    after = patched(text, made).after.decode()
    assert "deterministic=True)\n    .cache()" in after
    assert "data.batch(2).take(9).prefetch(tf.data.AUTOTUNE)" in after


def test_steps_of_a_loop() -> None:
    edits = (
        Prefetch(expected_digest=""),
        JitCompile(code_digest="12"),
        ReduceRetracing(code_digest="12"),
    )
    patch = patched(LOOP, of_loop(LOOP, *edits))
    assert lines(patch) == [
        "-@tf.function",
        "+@tf.function(jit_compile=True, reduce_retracing=True)",
        "-    for step, x in enumerate(data):",
        "+    for step, x in enumerate(data.prefetch(tf.data.AUTOTUNE)):",
    ]
    assert patch.notes == ()


def test_who_goes_by_it_too_is_told() -> None:
    (note,) = patched(FIT, of_fit(FIT, JitCompile())).notes
    assert "evaluate and predict" in note


def test_a_compile_of_a_module_is_none_of_a_model() -> None:
    text = FIT.replace("model.compile(", "found = re.compile(").replace("import keras", "import re")
    patch = patched(text, of_fit(text, JitCompile(), step_setup_at=None))
    assert (patch.included, patch.after) == ((), patch.before)


def test_less_ahead_of_a_prefetch() -> None:
    text = FIT.replace("    .batch(32)  # fits the GPU", "    .prefetch(500)")
    made = of_fit(text, LessAhead(stage=3, expected_digest=""))
    last = replace(made.before.stages[0], index=3, kind="prefetch", at=at(text, ".prefetch("))
    stages = (*made.before.stages, last)
    made = replace(made, before=replace(made.before, stages=stages))
    assert lines(patched(text, made)) == ["-    .prefetch(500)", "+    .prefetch(tf.data.AUTOTUNE)"]


REFUSED = {
    "another value": (
        FIT.replace('"mse",', '"mse", steps_per_execution=4,'),
        StepsPerExecution(steps=16),
        "passes steps_per_execution=4 itself",
    ),
    "keywords from elsewhere": (
        FIT.replace('loss="mse",', "**settings,"),
        JitCompile(),
        "jit_compile may be one of them",
    ),
    "compiled several times": (
        FIT.replace("model.compile(\n", "for _ in range(2): model.compile(\n"),
        JitCompile(),
        "may set up other models",
    ),
    "settings by position": (
        FIT.replace('loss="mse",', "").replace('optimizer="adam"', '"adam", 0, 0, 0, 0, 0, 1'),
        StepsPerExecution(steps=16),
        "settings by position",
    ),
    "a compile of its own": (
        FIT.replace("data = (", "class Own(keras.Model):\n    def compile(self): pass\n\ndata = ("),
        JitCompile(),
        "its own compile on line",
    ),
    "fitted several times": (
        FIT + "model.evaluate(data)\nother.fit (data)\n",
        JitCompile(),
        "calls fit on lines",
    ),
    "a map of several datasets": (
        FIT.replace("data = (", "def made(): return (") + "made(), made()\n",
        MAP,
        "may belong to other datasets",
    ),
    "parallel already": (
        FIT.replace(".map(load)", ".map(load, num_parallel_calls=2)"),
        MAP,
        "num_parallel_calls=2 itself",
    ),
    "parallel by its place": (FIT.replace(".map(load)", ".map(load, 2)"), MAP, "by position"),
    "no name for TensorFlow": (
        FIT.replace("import tensorflow as tf", "from tensorflow import data as tfd"),
        MAP,
        "not import tensorflow",
    ),
    "data of a function": (
        FIT.replace("fit(data,", "fit(made(),"),
        Prefetch(expected_digest=""),
        "trains on 'made()'",
    ),
    "fit as a condition": (
        FIT.replace("history = model.fit(data, epochs=10)", "if model.fit(data): pass"),
        AutotuneOff(expected_digest=""),
        "not a statement of its own",
    ),
    "threads of the script's": (
        FIT + "tf.config.threading.set_intra_op_parallelism_threads(2)\n",
        IntraOpThreads(threads=1),
        "sets its threads itself",
    ),
    "an allocator of the script's": (
        FIT + "libc.mallopt(-1, -1)\n",
        KeepFreedMemory(),
        "sets its allocator itself",
    ),
    "another way to have a dtype": (
        FIT.replace("Dense(1)", "Dense(1, dtype='float32')"),
        DtypePolicy(policy="mixed_bfloat16"),
        "sets dtypes itself",
    ),
    "what comes after the training": (
        FIT + "model.predict(data)\n",
        DtypePolicy(policy="mixed_bfloat16"),
        "line 24 uses the model in another way",
    ),
    "another layer": (
        FIT.replace("data = (", "scale = keras.layers.Rescaling(2)\ndata = ("),
        DtypePolicy(policy="mixed_bfloat16"),
        "may not belong to the model",
    ),
    "another layer, called by its bare name": (
        "from keras.layers import Rescaling\n"
        + FIT.replace("data = (", "scale = Rescaling(2)\ndata = ("),
        DtypePolicy(policy="mixed_bfloat16"),
        "may not belong to the model",
    ),
    "layers left in float32": (
        FIT,
        DtypePolicy(policy="mixed_float16", float32_layers=("dropout",)),
        "stay in float32 (dropout)",
    ),
    "another model": (
        FIT.replace("model.compile(", "encoder = keras.Model(a, b)\nmodel.compile("),
        DtypePolicy(policy="mixed_bfloat16"),
        "creates models on lines",
    ),
    "a model for the pictures": (
        FIT.replace("data = (", "turned = keras.Sequential([keras.layers.RandomFlip()])\ndata = ("),
        DtypePolicy(policy="mixed_bfloat16"),
        "creates models on lines",
    ),
    "a layer of the pipeline": (
        FIT.replace(".map(load)", ".map(lambda x: keras.layers.Rescaling(2)(load(x)))"),
        DtypePolicy(policy="mixed_bfloat16"),
        "may not belong to the model",
    ),
    "a model that outlives its training": (
        FIT.replace("model = ", "def train():\n  model = ")
        .replace("model.compile(", "  model.compile(")
        .replace("history = model.fit(data, epochs=10)", "  model.fit(data)\n  return model")
        .replace("# ten", "  # ten")
        + "train().save('m.keras')\n",
        DtypePolicy(policy="mixed_bfloat16"),
        "uses the model in another way",
    ),
    "a callback that saves the model": (
        FIT.replace("epochs=10", "callbacks=[keras.callbacks.ModelCheckpoint('best.keras')]"),
        DtypePolicy(policy="mixed_bfloat16"),
        "during training",
    ),
    "callbacks from elsewhere": (
        FIT.replace("epochs=10", "callbacks=mine"),
        DtypePolicy(policy="mixed_bfloat16"),
        "'mine' does with the model",
    ),
    "a loss that is not to be scaled": (
        FIT.replace('loss="mse",', 'loss="mse", auto_scale_loss=False,'),
        DtypePolicy(policy="mixed_float16"),
        "auto_scale_loss",
    ),
    "data of a helper for several": (
        FIT.replace("history = model.fit(data, epochs=10)", "def learn(x): model.fit(x)")
        + "learn(data)\nlearn([1, 2])\n",
        Prefetch(expected_digest=""),
        "may be other data, too",
    ),
    "data that is taken apart": (
        FIT.replace("fit(data,", "fit(data.as_numpy_iterator(),"),
        Prefetch(expected_digest=""),
        "neither a name nor a chain of calls",
    ),
    "what shows progress": (
        FIT.replace("history = ", "bar = tqdm(data)\nhistory = ").replace("fit(data,", "fit(bar,"),
        Prefetch(expected_digest=""),
        "wraps a dataset",
    ),
    "an evaluation of some steps": (
        FIT + "model.evaluate(data, steps=10)\n",
        StepsPerExecution(steps=16),
        "evaluate on line 24 may limit the number of steps",
    ),
    "a prediction of one step, by its place": (
        FIT + "model.predict(data, None, 0, 1)\n",
        StepsPerExecution(steps=16),
        "predict on line 24",
    ),
    "an evaluation that is told elsewhere": (
        FIT + "model.evaluate(data, **how)\n",
        StepsPerExecution(steps=16),
        "evaluate on line 24",
    ),
    "arguments of fit from elsewhere": (
        FIT.replace("epochs=10", "**options"),
        DtypePolicy(policy="mixed_bfloat16"),
        "the callbacks of the fit on line 23 are unclear",
    ),
    "callbacks by their place": (
        FIT.replace("epochs=10", "None, 32, 10, 0, [saver]"),
        DtypePolicy(policy="mixed_bfloat16"),
        "the callbacks of the fit",
    ),
    "what no setting does": (FIT, FlatUpdates(), "no setting for it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_it_is_not_plain_nothing_is_written(name: str) -> None:
    text, edit, reason = REFUSED[name]
    patch = patched(text, of_fit(text, edit, at=_fit(text)))
    assert patch.included == ()
    assert patch.after == patch.before
    assert patch.diff("train.py") == b""
    assert reason in patch.omitted[0].reason


def test_a_stage_that_a_library_made_on_that_line_is_known_by_its_number() -> None:
    """The cache belongs below the map of the script's, which stands on the same line."""
    made = of_fit(FIT, CACHE)
    decode = replace(made.before.stages[1], name="decode")
    stages = (made.before.stages[0], decode, *made.before.stages[1:])
    patch = patched(FIT, replace(made, before=replace(made.before, stages=stages)))
    assert '+history = model.fit(data.apply(uncork.rewrite("cache", stage=1)), epochs=10)' in lines(
        patch
    )
    assert "2 stages of kind map come from line" in patch.notes[0]


def test_callbacks_that_ask_the_model_nothing_are_no_reason() -> None:
    both = "keras.callbacks.EarlyStopping(), ModelCheckpoint('w', save_weights_only=True)"
    text = FIT.replace("epochs=10", f"callbacks=[{both}]")
    assert patched(text, of_fit(text, DtypePolicy(policy="mixed_bfloat16"))).omitted == ()


def test_a_policy_stands_behind_the_import_that_it_needs() -> None:
    """Wherever else its name is spoken of."""
    text = "import os  # before tf and keras\n\nos.environ['A'] = '1'\n" + FIT
    patch = patched(text, of_fit(text, DtypePolicy(policy="mixed_bfloat16")))
    after = patch.after.decode()
    assert after.index("import tensorflow") < after.index("set_global_policy")


def test_lines_of_comments_in_a_call_stay() -> None:
    text = FIT.replace("  # for now\n", "\n    # metrics=['mae'],\n")
    after = patched(text, of_fit(text, JitCompile())).after.decode()
    assert "    loss=\"mse\",\n    # metrics=['mae'],\n    jit_compile=True,\n)" in after


def test_what_must_be_first_stays_first() -> None:
    text = '"Trains a model " "on pictures."\nfrom __future__ import annotations\n' + FIT
    after = patched(text, of_fit(text, IntraOpThreads(threads=1))).after.decode()
    compile(after, "train.py", "exec")
    assert after.startswith('"Trains a model "')


@pytest.mark.parametrize(
    "loop",
    ["with tqdm(data) as bar:\n    for x in bar:", "for x in tqdm.tqdm(data):"],
)
def test_what_is_around_a_dataset_has_no_methods_of_one(loop: str) -> None:
    text = LOOP.partition("for epoch")[0] + loop + "\n        train_step(x)\n"
    made = of_loop(LOOP, Prefetch(expected_digest=""), at=at(text, "for x in"))
    assert patched(text, made).included == ()


def _fit(text: str) -> str:
    """The place of the first call of ``fit``."""
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "model.fit(" in each)
    return f"train.py:{line}"


def test_another_file_is_not_patched() -> None:
    patch = patched(FIT, of_fit(FIT, JitCompile(), step_setup_at="models.py:3"))
    assert "is in models.py" in patch.omitted[0].reason


def test_without_a_line_the_only_compile_is_meant() -> None:
    assert patched(FIT, of_fit(FIT, JitCompile(), step_setup_at=None)).included == ("jit_compile",)
    twice = FIT + "other.compile('sgd')\n"
    made = replace(of_fit(FIT, JitCompile(), step_setup_at=None))
    assert "does not contain the line" in patched(twice, made).omitted[0].reason


def test_half_of_a_step_is_not_written_and_what_builds_on_it_neither() -> None:
    """A cache in files, then threads for a map; the end is where it was."""
    steps = (
        (CACHE, DiskCache(stage=1, expected_digest="")),
        ParallelMap(stage=2, expected_digest=""),
    )
    patch = patched(FIT, of_fit(FIT, *steps, Prefetch(expected_digest="")))
    assert patch.included == ("prefetch",)
    assert [each.name for each in patch.omitted] == ["cache", "parallel_map"]
    assert "Uncork deletes its files" in patch.omitted[0].reason
    assert "cache creates" in patch.omitted[1].reason


def test_a_cache_that_belongs_before_a_shuffle_takes_its_map_along() -> None:
    text = FIT.replace("    .map(load)\n    .shuffle(100)", "    .shuffle(100)\n    .map(load)")
    made = of_fit(text, CACHE, at=at(text, ".fit("))
    listed, loads, shuffles, batches = made.before.stages
    stages = (listed, replace(shuffles, index=1), replace(loads, index=2), batches)
    made = replace(made, before=replace(made.before, stages=stages))
    cached = replace(made.steps[0], edits=(Cache(stage=2, expected_digest=""),))
    patch = patched(text, with_point(replace(made, steps=(cached,)), 2, ("shuffle",)))
    assert lines(patch) == ["+    .map(load)", "+    .cache()", "-    .map(load)"]
    assert patch.notes == ()


def test_a_shuffle_behind_something_else_stays() -> None:
    edit = ShuffleFirst(stage=2, expected_digest="")
    made = of_fit(FIT, CACHE, edit)
    assert patched(FIT, replace(made, steps=made.steps[1:])).included == ("shuffle_first",)
    both = patched(FIT, made)
    assert "    .map(load)\n    .cache()\n    .shuffle(100)" in both.after.decode(), (
        "the order would freeze under the cache"
    )
    assert 'data.apply(uncork.rewrite("shuffle_first", stage=2))' in both.after.decode()
    commented = FIT.replace(".map(load)", ".map(load)  # slow")
    (note,) = patched(commented, of_fit(commented, edit)).notes
    assert "needs Uncork to run (the shuffle on line 12 has a comment above it)" in note


def test_by_hand_is_told_where_the_plan_knows_how() -> None:
    step = replace(KEPT, edits=(FlatUpdates(),), source_edit="an\n  optimizer")
    made = replace(of_fit(FIT), steps=(step,))
    reason = patched(FIT, made).omitted[0].reason
    assert "no setting for it; by hand, for example:\n    an\n      optimizer" in reason


def test_no_edit_is_without_a_form_or_a_reason() -> None:
    """Whatever a plan holds, diff says something of it."""
    forms = {*WRITERS, *STAGE_WRITERS, *REWRITES, ValidationInput}
    assert {*get_args(PipelineEdit), *get_args(StepEdit)} | {
        *get_args(LoaderEdit), ValidationInput, AsyncCheckpoint, *get_args(ProcessEdit),
    } == forms | REASONS.keys()  # fmt: skip
    assert not forms & REASONS.keys()


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(WrongUse, match="as Python:"):
        patched("model.fit(", replace(of_fit(FIT)))


@pytest.mark.parametrize("call", ["evaluate(data, steps=32)", "evaluate(data)", "predict(data)"])
def test_whole_executions_are_no_reason(call: str) -> None:
    text = f"{FIT}model.{call}\n"
    assert patched(text, of_fit(text, StepsPerExecution(steps=16))).included == (
        "steps_per_execution",
    )


def test_under_xla_the_end_of_data_of_unknown_length_is_left_to_the_plan() -> None:
    patch = patched(FIT, of_fit(FIT, JitCompile(), steps_per_epoch=None))
    assert "the length of the data is unknown" in patch.omitted[0].reason


def test_what_xla_compiles_without_its_first_layers_is_left_to_the_plan() -> None:
    patch = patched(FIT, of_fit(FIT, LayersInInput(layer_names=("turn",)), JitCompile()))
    assert patch.included == ()
    assert "without the layers" in patch.omitted[1].reason


@pytest.mark.parametrize("fit", ["StandardScaler().fit(x)", "scaler.fit(x)", "pre.PCA(2).fit(x)"])
def test_what_trains_no_network_is_no_other_training(fit: str) -> None:
    imports = "from sklearn.preprocessing import StandardScaler\nfrom sklearn import pre\n"
    text = f"{imports}scaler = StandardScaler()\n{fit}\n{FIT}"
    made = of_fit(text, StepsPerExecution(steps=16), at=_fit(text))
    assert patched(text, made).included == ("steps_per_execution",)


def test_a_name_that_may_be_something_else_counts_as_a_training() -> None:
    text = f"from sklearn.svm import SVC\ndef run(it=SVC()): it.fit(x)\n{FIT}"
    made = of_fit(text, StepsPerExecution(steps=16), at=_fit(text))
    assert "calls fit on lines" in patched(text, made).omitted[0].reason


def test_lines_as_python_3_10_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with keywords, in a chain over several lines, has the line on which that begins."""
    text = FIT.replace(".map(load)", ".map(load, deterministic=True)")
    monkeypatch.setattr(sys, "version_info", (3, 10))
    made = of_fit(text, CACHE)
    first = at(text, "tf.data.Dataset")
    stages = tuple(replace(s, at=first) if s.kind == "map" else s for s in made.before.stages)
    made = replace(made, before=replace(made.before, stages=stages))
    assert patched(text, made).included == ("cache",)


def test_what_others_draw_from_too_is_not_drawn_otherwise() -> None:
    text = FIT.replace("model = ", "rest = data.take(9)\nmodel = ")
    made = of_fit(text, MAP)
    assert patched(text, made).included == ("parallel_map",)
    text = FIT + "print(history.history, history.epoch)\n"
    stages = tuple(replace(s, is_random=s.kind == "map") for s in of_fit(text, MAP).before.stages)
    of_one = of_fit(text, MAP)
    of_one = replace(of_one, before=replace(of_one.before, stages=stages))
    assert patched(text, of_one).included == ("parallel_map",)
    text = FIT.replace("model = ", "rest = data.take(9)\nmodel = ")
    stages = tuple(replace(s, is_random=s.kind == "map") for s in made.before.stages)
    drawing = replace(made, before=replace(made.before, stages=stages))
    assert "not only the training reads 'data'" in patched(text, drawing).omitted[0].reason
