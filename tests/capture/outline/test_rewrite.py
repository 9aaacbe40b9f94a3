"""Steps that stand in a loop: each script does the same, with them as functions and without."""

from __future__ import annotations

import ast
import contextlib
import io
import textwrap

import pytest

from uncork.capture.outline.rewrite import outline_inline_steps
from uncork.pycode.frames.stack import OUTLINED_STEP_PREFIX

# Stand-ins that compute with plain numbers, and tell in what order they were asked.
WORLD = """
    class GradientTape:
        def __enter__(self):
            print("tape")
            return self
        def __exit__(self, *error):
            print("end")
        def gradient(self, loss, weights):
            print("gradient", loss)
            return [loss / 2 for _ in weights]
    class tf:
        GradientTape = GradientTape
        @staticmethod
        def noise(size):
            print("noise", size)
            return size / 3
    class Model:
        weights = [1.0, 2.0]
        def __call__(self, x, training=False):
            return x * sum(self.weights)
    class Optimizer:
        def apply_gradients(self, pairs):
            for gradient, number in pairs:
                model.weights[number] -= 0.01 * gradient
            print("update", model.weights)
    class Metric:
        total = 0.0
        def update_state(self, value):
            self.total += value
    model, optimizer, metric = Model(), Optimizer(), Metric()
    data = [(float(n), float(n % 3)) for n in range(5)]
"""
MOVED = {
    "as the guide has it": """
        for epoch in range(2):
            for step, (x, y) in enumerate(data):
                with tf.GradientTape() as tape:
                    guess = model(x, training=True)
                    loss = (guess - y) ** 2
                gradients = tape.gradient(loss, model.weights)
                optimizer.apply_gradients(zip(gradients, range(2)))
                metric.update_state(loss)
                if step % 2 == 0:
                    print(epoch, step, loss)
            print("epoch", epoch, loss, metric.total)
        """,
    "in a function": """
        def train(model, epochs):
            history = []
            for epoch in range(epochs):
                for x, y in data:
                    with tf.GradientTape() as tape:
                        loss = (model(x) - y) ** 2
                    optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                    history.append(loss)
            return history
        print(train(model, 2))
        """,
    "in a method": """
        class Trainer:
            rate = 0.5
            def fit(self, model):
                for x, y in data:
                    with tf.GradientTape() as tape:
                        loss = self.rate * (model(x) - y) ** 2
                    optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                    print(loss)
        Trainer().fit(model)
        """,
    "in a function in a function": """
        def outer(scale):
            def inner(model):
                for x, y in data:
                    with tf.GradientTape() as tape:
                        loss = scale * (model(x) - y) ** 2
                    optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                return loss
            return inner
        print(outer(3.0)(model))
        """,
    "all of it in the tape's block": """
        losses = []
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2
                gradients = tape.gradient(loss, model.weights)
                optimizer.apply_gradients(zip(gradients, range(2)))
                losses.append(loss)
        print(losses)
        """,
    "two tapes, and what is drawn before": """
        import tensorflow as tf
        for x, y in data:
            noise = tf.noise(x)
            fake = model(noise)
            with tf.GradientTape() as tape:
                first = model(fake) + y
            optimizer.apply_gradients(zip(tape.gradient(first, model.weights), range(2)))
            with tf.GradientTape() as tape:
                second = model(noise) - y
            optimizer.apply_gradients(zip(tape.gradient(second, model.weights), range(2)))
            print(first, second)
        """,
    "the tape in a function, the update in the loop": """
        def gradients_of(x, y):
            with tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2
            return loss, tape.gradient(loss, model.weights)
        for x, y in data:
            loss, gradients = gradients_of(x, y)
            optimizer.apply_gradients(zip(gradients, range(2)))
            print(loss)
        """,
    "handed on from step to step": """
        total = 0.0
        previous = 1.0
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2 + 0.1 * previous
            optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            previous = loss
            total += loss
        print(total, previous)
        """,
    "in a while, under conditions, and twice with the same names": """
        number = 0
        while number < 4:
            x, y = data[number]
            if number != 2:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                gradients = [g for g in tape.gradient(loss, model.weights)]
                optimizer.apply_gradients(zip(gradients, range(2)))
                del tape
            number += 1
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (model(x) + y) ** 2
            optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
        print(loss)
        """,
    "an error in it": """
        try:
            for x, y in [*data, (None, 0.0)]:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
        except TypeError as error:
            print(error)
        """,
    "a tape around it all, which is another matter": """
        for epoch in range(2):
            with tf.GradientTape() as tape:
                probe = model(1.0)
            print(tape.gradient(probe, model.weights))
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            print(loss)
        """,
    "another manager beside the tape": """
        class Clock(GradientTape):
            def __exit__(self, *error):
                print("it took a while")
        as_default = Clock
        for x, y in data:
            with as_default(), tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                print("within")
        """,
    "a tape that is asked for more behind its block": """
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                more = loss * 2
            print(tape.gradient(more, [1]))
        """,
    "defaults of functions made later": """
        later = []
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (model(x) - y) ** 2
            optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            later.append(lambda loss=loss: loss)
        print([each() for each in later])
        """,
    "an error that ends it, and nothing of it is read then": """
        try:
            for x, y in [*data, (None, 1.0)]:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                print(loss)
        except TypeError:
            print("diverged")
        print(model.weights)
        """,
    "a table of its arguments": """
        class args: rate = 0.1
        print(sorted(vars(args))[:1])
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = args.rate * (model(x) - y) ** 2
            gradients = tape.gradient(loss, model.weights)
            optimizer.apply_gradients(zip((g * 2 for g in gradients), range(2)))
            del tape, gradients
            print(loss)
        """,
    "weights that are assigned": """
        class Weight:
            value = 1.0
            def assign_sub(self, by):
                self.value -= by
        weight = Weight()
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = (weight.value * x - y) ** 2
            for gradient in tape.gradient(loss, [weight]):
                weight.assign_sub(0.1 * gradient)
            print(weight.value)
        """,
}
STEP = """
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))"""
LEFT = {
    "no loop": f"""
            x, y = data[1]
            if True:{STEP}
            """,
    "a function of its own": f"""
            def step(x, y):{STEP}
            for x, y in data:
                step(x, y)
            """,
    "a way out of the loop": """
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                    if loss > 1e6:
                        break
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            """,
    "an error that is handled in the loop": f"""
            for x, y in data:
              try:{STEP}
              except ValueError:
                pass
            """,
    "a handler that reads what it had": f"""
            try:
              for x, y in data:{STEP}
            except TypeError:
              print(loss)
            """,
    "a function that reads its names": f"""
            def tell():
                print(loss)
            for x, y in data:{STEP}
                tell()
            """,
    "a function that changes its names": f"""
            def tell():
                global loss
                loss = 3.0
            for x, y in data:{STEP}
                tell()
            """,
    "who asks for all names": f"""
            for x, y in data:{STEP}
            print(sorted(locals())[:1])
            """,
    "a name that has no value at first": """
            for number, (x, y) in enumerate(data):
                if number == 3:
                    late = 1.0
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2 + (late if number > 3 else 0.0)
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            """,
    "a result that it may not have": """
            best = None
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                if loss < 10:
                    best = loss
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
            print(best)
            """,
    "a class of the scope's": f"""
            class Here:
              for x, y in data:{STEP}
            """,
    "a private attribute": """
            class Trainer:
                __rate = 0.5
                def fit(self):
                    for x, y in data:
                        with tf.GradientTape() as tape:
                            loss = self.__rate * (model(x) - y) ** 2
                        optimizer.apply_gradients(zip(tape.gradient(loss, [1]), range(1)))
            Trainer().fit()
            """,
    "a handler behind which it is read": f"""
            try:
              for x, y in [*data, (None, 0.0)]:{STEP}
            except TypeError:
              print("diverged")
            print(loss)
            """,
    "a manager that may end errors": f"""
            from contextlib import suppress
            loss = 0.0
            with suppress(TypeError):
              for x, y in [*data, (None, 0.0)]:{STEP}
            print(loss)
            """,
    "a function with a tape, and other work before the update": """
            def gradients_of(x, y):
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                return loss, tape.gradient(loss, model.weights)
            for x, y in data:
                loss, gradients = gradients_of(x, y)
                print(loss)
                optimizer.apply_gradients(zip(gradients, range(2)))
            """,
    "a function that trains, and a moving average": """
            def train(x, y):
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                update(tape.gradient(loss, model.weights))
            def update(gradients):
                optimizer.apply_gradients(zip(gradients, range(2)))
            class Average:
                def apply(self, weights): print(sum(weights))
            average = Average()
            for x, y in data:
                loss = train(x, y)
                average.apply(model.weights)
            """,
    "a function that keeps its names": """
            kept = []
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                    tell = lambda: loss
                optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), range(2)))
                kept.append(tell)
            print([each() for each in kept])
            """,
    "a sibling that changes its names": """
            def outer():
                n = 0
                def bump():
                    nonlocal n
                    n += 1
                def train():
                    for x, y in data:
                        with tf.GradientTape() as tape:
                            bump()
                            loss = n * (model(x) - y) ** 2
                        optimizer.apply_gradients(zip(tape.gradient(loss, [1]), range(1)))
                        print(loss)
                train()
            outer()
            """,
    "a decorated function": f"""
            def same(function): return function
            @same
            def train():
                for x, y in data:{STEP.replace(chr(10), chr(10) + "    ")}
            train()
            """,
    "no update": """
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = (model(x) - y) ** 2
                print(tape.gradient(loss, model.weights))
            """,
}


def ran(script: str, *, moved: bool) -> tuple[str, list[str]]:
    """What a script prints, and the functions that its steps became."""
    tree = ast.parse(textwrap.dedent(WORLD) + textwrap.dedent(script))
    tree.body = [s for s in tree.body if not isinstance(s, ast.Import)] if not moved else tree.body
    if moved:
        tree = outline_inline_steps(tree)
        tree.body = [s for s in tree.body if not isinstance(s, ast.Import)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "train.py", "exec"), {"__name__": "__main__"})
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    return said.getvalue(), [f.name for f in functions if f.name.startswith(OUTLINED_STEP_PREFIX)]


@pytest.mark.parametrize("script", MOVED.values(), ids=MOVED)
def test_a_step_does_the_same_as_a_function(script: str):
    before, none = ran(script, moved=False)
    after, functions = ran(script, moved=True)
    assert not none
    assert functions
    assert after == before
    assert "update" in before or "assigned" in before or "assign_sub" in script


@pytest.mark.parametrize("script", LEFT.values(), ids=LEFT)
def test_what_is_not_plain_is_left_where_it_is(script: str):
    tree = ast.parse(textwrap.dedent(WORLD) + textwrap.dedent(script))
    before = ast.unparse(tree)
    assert ast.unparse(outline_inline_steps(tree)) == before
    assert ran(script, moved=True) == ran(script, moved=False)


def test_what_is_before_is_part_of_it_and_what_is_asked_for_later_comes_back():
    tree = outline_inline_steps(
        ast.parse(textwrap.dedent(MOVED["two tapes, and what is drawn before"]))
    )
    assert "first, second = _inline_step_1(x, y)" in ast.unparse(tree)


def test_lines_stay_what_they_are():
    script = textwrap.dedent(MOVED["in a function"])
    step = outline_inline_steps(ast.parse(script)).body[0]
    assert isinstance(step, ast.FunctionDef)
    lines = script.splitlines()
    assert lines[step.lineno - 1].strip().startswith("with tf.GradientTape")
    assert [lines[s.lineno - 1].strip()[:9] for s in step.body[1:]] == ["optimizer", "optimizer"]


def test_the_inner_step_is_the_one_that_is_moved():
    tree = outline_inline_steps(
        ast.parse(textwrap.dedent(MOVED["a tape around it all, which is another matter"]))
    )
    assert ast.unparse(tree.body[0]).startswith("def _inline_step_1(x, y)")


def test_a_line_above_changes_no_code():
    script = textwrap.dedent(MOVED["in a function"])
    trees = [outline_inline_steps(ast.parse(text)) for text in (script, f"import sys\n{script}")]
    codes = [compile(tree, "train.py", "exec").co_consts for tree in trees]
    first, second = (next(c for c in each if hasattr(c, "co_code")) for each in codes)
    assert (first.co_name, first.co_code) == (second.co_name, second.co_code)


def test_docstring_and_future_stay_first():
    script = '"""Train."""\nfrom __future__ import annotations\n' + textwrap.dedent(
        MOVED["as the guide has it"]
    )
    names = [type(s).__name__ for s in outline_inline_steps(ast.parse(script)).body]
    assert names == ["Expr", "ImportFrom", "FunctionDef", "For"]
