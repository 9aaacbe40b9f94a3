"""What every optimization promises, whatever it does."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from optimizations.situations import SITUATIONS, ask
from uncork import optimizations
from uncork.core.base.machine import Machine
from uncork.core.base.record import from_json, to_json
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy, StageName
from uncork.core.edits.edit import GUARANTEES
from uncork.core.edits.pipeline import PipelineEdit
from uncork.core.edits.step import LargerBatch, MapOnDevice, StepEdit
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
)
from uncork.optimizations.order import OPTIMIZATIONS

PAGES = Path(__file__).parents[2] / "docs" / "optimizations"
MACHINES = {
    "one core": Machine(cpus=1.0, cpu_model="any", memory_bytes=1 << 30),
    "half a core": Machine(cpus=0.5, cpu_model="any", memory_bytes=1 << 30),
    "64 cores": Machine(cpus=64.0, cpu_model="any", memory_bytes=1 << 40, devices=("GPU:0 x",)),
}

# Proper names may begin a part of a sentence.
NAMES = ("TensorFlow", "Python", "Keras", "XLA", "JAX", "Uncork")

each = pytest.mark.parametrize("optimization", OPTIMIZATIONS, ids=lambda o: o.name)

# As a file would give them back.
SAVED = {name: from_json(to_json(given), WorkloadDiagnosis) for name, given in SITUATIONS.items()}


@contextmanager
def told(*where: str) -> Iterator[None]:
    """Says where something failed: ten thousand tests of their own would take longer to tell."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{', '.join(where)}: {error}") from error


@each
def test_its_name_is_its_file_its_test_and_its_page(optimization):
    module = type(optimization).__module__.removeprefix("uncork.optimizations.")
    assert module.split(".")[-1] == optimization.name
    folder = Path(__file__).parent.joinpath(*module.split(".")[:-1])
    assert (folder / f"test_{optimization.name}.py").exists()
    assert (PAGES / f"{optimization.name}.md").exists()


@each
def test_its_page_tells_the_guarantee_and_what_leaves_it_out(optimization):
    page = (PAGES / f"{optimization.name}.md").read_text()
    assert page.startswith(f"# {optimization.name}\n")
    assert f"`{optimization.guarantee}`" in page
    assert "## Skipped when" in page


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing.final leaves no mark before 3.11")
@each
def test_it_is_final(optimization):
    assert getattr(type(optimization), "__final__", False)
    assert type(optimization).__bases__ == (Optimization,)


@each
def test_it_promises_something_known(optimization):
    assert optimization.guarantee in GUARANTEES
    assert optimization.stage in StageName.__args__
    if optimization.fallback_guarantee is not None:
        ours, weaker = map(
            GUARANTEES.index, (optimization.guarantee, optimization.fallback_guarantee)
        )
        assert weaker > ours


@each
def test_its_module_argues_why_it_is_legal(optimization):
    text = inspect.getdoc(sys.modules[type(optimization).__module__])
    assert "Legal" in text
    assert optimization.__doc__
    assert optimization._propose.__doc__


def test_every_file_is_on_the_road_once():
    modules = [m for m in pkgutil.walk_packages(optimizations.__path__, "uncork.optimizations.")]
    modules = [m.name for m in modules if not m.ispkg and ".base." not in m.name]
    names = [name.rpartition(".")[2] for name in modules]
    assert sorted(o.name for o in OPTIMIZATIONS) == sorted(set(names) - {"order"})
    for name in modules:
        importlib.import_module(name)
    ours = {
        c for c in Optimization.__subclasses__() if c.__module__.startswith("uncork.optimizations.")
    }
    assert ours == {type(o) for o in OPTIMIZATIONS}


def test_stages_are_walked_from_left_to_right():
    order = [StageName.__args__.index(o.stage) for o in OPTIMIZATIONS]
    assert order == sorted(order)


def test_the_road_sees_neither_tensorflow_nor_numpy():
    code = (
        "import sys, uncork.optimizations.order; "
        "print({'tensorflow', 'keras', 'numpy'} & set(sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


@each
def test_it_answers_with_a_reason_or_with_edits(optimization):
    for name, given in SITUATIONS.items():
        with told(name):
            answer = ask(optimization, given)
            if isinstance(answer, Skipped):
                _reads_as_part_of_a_sentence(answer.reason)
            else:
                _is_worth_trying(answer)
                _is_about_one_thing(answer)
                assert answer.source_edit


@each
def test_it_is_pure(optimization):
    for name, given in SITUATIONS.items():
        with told(name):
            before = copy.deepcopy(given)
            first = ask(optimization, given)
            assert ask(optimization, given) == first
            assert ask(type(optimization)(), before) == first
            assert given == before
            assert vars(optimization) == {}


@each
def test_a_saved_diagnosis_gives_the_same_answer(optimization):
    for name, given in SITUATIONS.items():
        with told(name):
            assert ask(optimization, SAVED[name]) == ask(optimization, given)


@each
@pytest.mark.parametrize("machine", MACHINES)
def test_it_never_raises_whatever_the_machine(optimization, machine):
    for name, given in SITUATIONS.items():
        for policy in (Policy(memory_share=0.0), Policy(loosest_guarantee="exact", budget_s=0.0)):
            with told(name, str(policy)):
                answer = ask(optimization, given, MACHINES[machine], policy)
                assert isinstance(answer, Proposal | Skipped)


@each
def test_it_finds_something_to_do_somewhere_and_nothing_elsewhere(optimization):
    answers = [ask(optimization, diagnosis) for diagnosis in SITUATIONS.values()]
    skipped = [a for a in answers if isinstance(a, Skipped)]
    assert skipped
    if optimization.name != "prefetch":  # TensorFlow does it by itself nearly everywhere
        assert len(skipped) < len(answers)


@each
def test_what_is_done_already_is_left_alone(optimization):
    answer = ask(optimization, SITUATIONS["all done already"])
    if optimization.name == "jit_compile_off":  # whether it should have been done is asked as well
        assert isinstance(answer, Proposal)
    else:
        assert isinstance(answer, Skipped)


@each
def test_a_custom_loop_s_step_is_never_touched(optimization):
    answer = ask(optimization, SITUATIONS["custom loop"])
    if isinstance(answer, Proposal):
        assert not any(isinstance(edit, StepEdit) for edit in answer.edits)


def _reads_as_part_of_a_sentence(reason: str) -> None:
    """It follows "skipped, " and is followed by a full stop of the report's."""
    assert reason == reason.strip()
    assert 10 < len(reason) < 160
    assert not reason.endswith(".")
    assert "\n" not in reason
    assert not reason[0].isupper() or reason.startswith(NAMES)
    assert not any(word in reason for word in ("None", "nan", "inf ", "  ", "{", "}"))


def _is_worth_trying(answer: Proposal) -> None:
    if answer.predicted is not None:
        assert math.isfinite(answer.predicted)
        assert answer.predicted >= MIN_PREDICTED_SPEEDUP
    _reads_as_part_of_a_sentence(answer.rationale)


def _is_about_one_thing(answer: Proposal) -> None:
    assert answer.edits
    of_pipeline = [isinstance(edit, PipelineEdit) for edit in answer.edits]
    # These are of both: the pipeline gives another batch, which the step takes.
    of_both = any(isinstance(edit, LargerBatch | MapOnDevice) for edit in answer.edits)
    assert all(of_pipeline) or not any(of_pipeline) or of_both
    for edit in answer.edits:
        assert msgspec.json.decode(msgspec.json.encode(edit), type=type(edit)) == edit
