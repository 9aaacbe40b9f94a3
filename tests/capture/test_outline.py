"""Steps that stand in a loop: each script does the same, with them as functions and without."""

from __future__ import annotations

import ast
import contextlib
import io
import textwrap

import pytest

from uncork.capture.outline import outlined
from uncork.core.stack import OUTLINED

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
        tree = outlined(tree)
        tree.body = [s for s in tree.body if not isinstance(s, ast.Import)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "train.py", "exec"), {"__name__": "__main__"})
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    return said.getvalue(), [f.name for f in functions if f.name.startswith(OUTLINED)]


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
    assert ast.unparse(outlined(tree)) == before
    assert ran(script, moved=True) == ran(script, moved=False)


def test_what_is_before_is_part_of_it_and_what_is_asked_for_later_comes_back():
    tree = outlined(ast.parse(textwrap.dedent(MOVED["two tapes, and what is drawn before"])))
    # From the noise on, which is on the fourth line.
    assert "first, second = _step_at_4(x, y)" in ast.unparse(tree)


def test_lines_stay_what_they_are():
    script = textwrap.dedent(MOVED["in a function"])
    step = outlined(ast.parse(script)).body[0]
    assert isinstance(step, ast.FunctionDef)
    lines = script.splitlines()
    assert lines[step.lineno - 1].strip().startswith("with tf.GradientTape")
    assert [lines[s.lineno - 1].strip()[:9] for s in step.body[1:]] == ["optimizer", "optimizer"]


def test_docstring_and_future_stay_first():
    script = '"""Train."""\nfrom __future__ import annotations\n' + textwrap.dedent(
        MOVED["as the guide has it"]
    )
    names = [type(s).__name__ for s in outlined(ast.parse(script)).body]
    assert names == ["Expr", "ImportFrom", "FunctionDef", "For"]
