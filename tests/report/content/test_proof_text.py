"""What a plan is proved by: never more than was compared."""

from records import STEPS, plan
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.report.content.proof_text import proof_sentence, proof_text

KEPT = next(step for step in STEPS if step.outcome == "kept")


def proved(name, detail, passed=True):
    return replace(KEPT, name=name, proof=Proof(kind="exact", passed=passed, detail=detail))


def test_one_check_is_told_as_it_is():
    batches = proved("cache", "all 114 batches of 2 epochs are equal")
    assert proof_text(plan(steps=(batches,))) == "all 114 batches of 2 epochs are equal"
    assert proof_sentence(plan(steps=(batches,))).startswith("Guarantee: ")


def test_each_check_is_told_with_what_it_is_for():
    steps = (
        proved("cache", "114 batches are equal"),
        proved("prefetch", "114 batches are equal"),
        proved("jit_compile", "weights after 12 steps"),
        proved("flat_updates", "was not equal", passed=False),
    )
    assert proof_text(plan(steps=steps)) == (
        "cache, prefetch: 114 batches are equal; jit compile: weights after 12 steps"
    )


def test_of_many_checks_the_first_are_told():
    steps = tuple(proved(f"step_{n}", f"check {n}") for n in range(5))
    assert proof_text(plan(steps=steps)).endswith("step 1: check 1; and 3 more")
    assert proof_text(plan(steps=())) == ""
