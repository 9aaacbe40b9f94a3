"""A map as two calls, with a cache between, before the shuffle."""

from __future__ import annotations

from typing import Any

import pytest

from codemod.scripts import FIT, lines, of_fit, patched, script, with_point
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.edit import ValidationInput
from uncork.core.edits.pipeline import AutotuneOff, Cache, Prefetch, SplitMap
from uncork.core.evidence.callbacks import Validation, ValidationFeed
from uncork.core.evidence.stage import MapPrefix

SPLIT = SplitMap(stage=2, expected_digest="")
CACHE = Cache(stage=2, expected_digest="")
RANDOM = FIT.replace(
    "    return tf.io.read_file(path)",
    "    image = tf.io.decode_png(tf.io.read_file(path))\n    return flip(image)",
).replace("    .map(load)\n    .shuffle(100)", "    .shuffle(100)\n    .map(load)")


def of(text: str, *edits: Any, above: tuple[str, ...] = ("shuffle",), **lines: Any) -> Plan:
    """A plan for a map behind a shuffle, cut behind the line that decodes."""
    made = of_fit(text, *edits)
    listed, loads, shuffles, batches = made.before.stages
    numbers = [n for n, line in enumerate(text.splitlines(), 1) if "decode_png" in line]
    last = numbers[0] if numbers else 1
    known = {"last_at": f"train.py:{last}", "rest_at": f"train.py:{last + 1}", **lines}
    prefix = MapPrefix(op_count=2, bytes_per_element=8, cpu_s_per_element=0.1, **known)
    stages = (
        listed,
        replace(shuffles, index=1),
        replace(loads, index=2, is_random=True, deterministic_prefix=prefix),
        batches,
    )
    made = replace(made, before=replace(made.before, stages=stages))
    return with_point(made, 2, above) if above else made


def test_a_cache_between_the_parts_stands_before_the_shuffle() -> None:
    patch = patched(RANDOM, of(RANDOM, (SPLIT, CACHE)))
    after = patch.after.decode()
    assert (patch.included, patch.omitted, patch.notes) == (("split_map",), (), ())
    assert (
        script(
            """
        def load_deterministic(path):
            image = tf.io.decode_png(tf.io.read_file(path))
            return image


        def load_random(image):
            return flip(image)


        data = (
            tf.data.Dataset.list_files("*.jpg")
            .map(load_deterministic, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            .cache()
            .shuffle(100)
            .map(load_random)
            .batch(32)  # fits the GPU
        )
        """
        )
        in after
    )
    compile(after, "train.py", "exec")


def test_a_chain_that_gets_too_long_has_a_line_for_each_call() -> None:
    chain = RANDOM[RANDOM.index("data = (") : RANDOM.index("\n\nmodel =")]
    links = "".join(line.strip() for line in chain.replace("  # fits the GPU", "").splitlines())
    text = RANDOM.replace(chain, links.replace("data = (", "data = ").removesuffix(")"))
    after = patched(text, of(text, (SPLIT, CACHE))).after.decode()
    assert (
        script(
            """
        data = (
            tf.data.Dataset.list_files("*.jpg")
            .map(load_deterministic, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            .cache()
            .shuffle(100)
            .map(load_random)
            .batch(32)
        )
        """
        )
        in after
    )


def test_without_a_cache_the_parts_follow_each_other() -> None:
    after = patched(RANDOM, of(RANDOM, SPLIT)).after.decode()
    assert ".shuffle(100)\n    .map(load_deterministic, num" in after
    assert "deterministic=True)\n    .map(load_random)\n    .batch" in after


def test_others_still_call_the_whole_function() -> None:
    text = RANDOM + "shown = tf.nest.map_structure(load, paths)\n"
    after = patched(text, of(text, (SPLIT, CACHE))).after.decode()
    assert "def load(path):\n    return load_random(load_deterministic(path))\n" in after


CALLED = {
    "no name": (RANDOM.replace("map(load)", "map(lambda x: load(x))"), {}, "a name"),
    "lines that nobody knows": (RANDOM, {"last_at": None}, "lines of the cut"),
    "two of that name": (RANDOM + "load = 1\n", {}, "exactly once"),
    "another reader": (RANDOM + "other = made(data)\n", {}, "not only the training reads 'data'"),
    "work of both parts": (RANDOM, {"rest_at": "train.py:1"}, "line 1 is not in load"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_what_the_source_does_not_say_uncork_does_when_the_script_runs(name: str) -> None:
    text, known, reason = CALLED[name]
    patch = patched(text, of(text, (SPLIT, CACHE), **known))
    assert patch.included == ("split_map",)
    assert "def load(path)" in patch.after.decode()
    assert "import tensorflow as tf\nimport uncork\n" in patch.after.decode()
    rewritten = 'uncork.rewrite("split_map", "cache"'
    assert any(rewritten in line for line in lines(patch))
    (note,) = patch.notes
    assert "needs Uncork to run" in note
    assert reason in note


def test_behind_the_map_itself_where_nobody_else_reads_it() -> None:
    text, known, _ = CALLED["lines that nobody knows"]
    assert lines(patched(text, of(text, (SPLIT, CACHE), **known))) == [
        "+import uncork",
        '+    .apply(uncork.rewrite("split_map", "cache"))',
    ]
    text, _, _ = CALLED["another reader"]
    assert lines(patched(text, of(text, (SPLIT, CACHE)))) == [
        "+import uncork",
        "-history = model.fit(data, epochs=10)",
        '+history = model.fit(data.apply(uncork.rewrite("split_map", "cache", stage=2)), '
        "epochs=10)",
    ]


def test_the_same_for_what_is_validated_on() -> None:
    text = RANDOM.replace("epochs=10", "validation_data=held_out.take(9), epochs=10")
    edit = ValidationInput(edits=(SPLIT, CACHE, Prefetch(expected_digest="")), expected_digest="")
    patch = patched(text, of(text, edit))
    (added,) = [line for line in lines(patch) if line.startswith("+history")]
    assert (
        'held_out.take(9).apply(uncork.rewrite("split_map", "cache", stage=2))'
        ".prefetch(tf.data.AUTOTUNE)"
    ) in added
    unclear = RANDOM.replace("epochs=10", "**arguments")
    assert "in another way" in patched(unclear, of(unclear, edit)).omitted[0].reason


HELD_OUT = "held_out = tf.data.Dataset.list_files('*.png').map(load).batch(9)"
BOTH = (
    RANDOM.replace("\n\nmodel =", f"\n{HELD_OUT}\n\nmodel =", 1)
    .replace("fit(data,", "fit(data, validation_data=held_out,")
    .replace("    return flip", "    image = image / 255.0\n    return flip")
)


def of_both(**validation_lines: Any) -> Plan:
    """A plan that cuts the function for the training, and for what it is validated on."""
    text = BOTH
    only_training = text.replace(HELD_OUT, "held_out = None")
    for_validation = ValidationInput(
        edits=(replace(SPLIT, stage=1), replace(CACHE, stage=1), AutotuneOff(expected_digest="")),
        expected_digest="",
    )
    made = of(only_training, (SPLIT, CACHE), for_validation)
    listed, loads = made.before.stages[0], made.before.stages[2]
    at = f"train.py:{1 + text[: text.index('held_out =')].count(chr(10))}"
    prefix = replace(loads.deterministic_prefix, **validation_lines)
    stages = (
        replace(listed, at=at),
        replace(loads, index=1, at=at, deterministic_prefix=prefix, cache_point=None),
    )
    feed = ValidationFeed(
        pipeline_digest="",
        batch_count=4,
        has_default_rewrites=True,
        measurement=made.before.measurement,
        resident_speedup=1.0,
        resident_step_cpu_s=0.1,
        stages=stages,
    )
    validation = Validation(validation_s=1.0, sample_count=36, at=at, feed=feed)
    return replace(made, before=replace(made.before, validation=validation))


def test_training_and_validation_share_the_parts_of_a_function() -> None:
    patch = patched(BOTH, of_both())
    assert patch.omitted == ()
    after = patch.after.decode()
    assert after.count("def load_deterministic(path)") == 1
    assert "def load(path)" not in after  # nothing calls it any more
    assert after.count(".map(load_random)") == 2
    assert after.count("options.autotune.enabled = False") == 1
    assert "validation_data=held_out.with_options(options)" in after
    compile(after, "train.py", "exec")


def test_a_function_is_not_cut_at_two_places() -> None:
    line = next(n for n, text in enumerate(BOTH.splitlines(), 1) if "return flip" in text)
    patch = patched(BOTH, of_both(last_at=f"train.py:{line - 1}", rest_at=f"train.py:{line}"))
    assert patch.included == ("split_map",)
    (omitted,) = patch.omitted
    assert omitted.reason == "load is cut at another place for another map"
    compile(patch.after, "train.py", "exec")
