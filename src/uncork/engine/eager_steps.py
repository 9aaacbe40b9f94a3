"""The eager step of a loop: which function of the user's it is, and how it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from types import CodeType, FrameType
from typing import Final

from uncork.core.edit import Guarantee, is_graph
from uncork.core.plan import Proof
from uncork.core.record import replace
from uncork.core.stack import code_place, outwards, owner
from uncork.core.workload import Workload
from uncork.engine.eager_step_proofs import prove_eager_step
from uncork.engine.repetition import loops_around
from uncork.engine.subject import Version
from uncork.step import EagerStep, Mode, function_of

NO_FUNCTION: Final = "it stands in the loop itself, not in a function of its own"
_NOT_SEEN: Final = "it was not called by the loop that was watched"


@dataclass(frozen=True)
class StepSwitch:
    """The step of a loop, where it can be switched between op by op and a graph.

    Attributes:
        step: None where it is compiled already, or cannot be taken over.
    """

    step: EagerStep | None

    def __post_init__(self) -> None:
        """What proofs compare is recorded from the beginning: real batches come first."""
        if self.step is not None:
            self.step.recording = True

    def to(self, mode: Mode) -> Callable[[], None]:
        """Something that sets the mode."""

        def switch() -> None:
            if self.step is not None:
                self.step.mode = mode

        return switch

    def of(self, version: Version) -> Callable[[], None]:
        """Something that sets the mode of a version."""
        return self.to(Mode.GRAPH if is_graph(version.step) else Mode.EAGER)

    def may_be_graph(self, version: Version) -> bool:
        """It runs op by op in this version, was watched, and need not."""
        return self.step is not None and self.step.refusal == "" and not is_graph(version.step)

    def described(self, work: Workload) -> Workload:
        """The workload, with what is known of its step by now."""
        if not work.eager_step:
            return work
        if self.step is None:
            return replace(work, not_traceable=NO_FUNCTION)
        refusal = _NOT_SEEN if self.step.refusal is None else self.step.refusal
        return replace(work, step_code=self.step.code, not_traceable=refusal)

    def prove(self, kind: Guarantee, run_a_step: Callable[[], object]) -> Proof:
        """Compare recorded calls op by op and as a graph, on the loop's own thread.

        Args:
            kind: What to prove.
            run_a_step: Lets the loop call its step.
        """
        step, answers = self.step, list[Proof | Exception]()
        assert step is not None

        def prove() -> None:
            try:
                answers.append(prove_eager_step(step, kind))
            except Exception as error:
                answers.append(error)

        step.at_next_call(prove)
        run_a_step()
        (answer,) = answers
        if isinstance(answer, Exception):
            raise answer
        return answer


def eager_step(
    code: CodeType | None, on_refusal: Callable[[str], None] = lambda _: None
) -> EagerStep | None:
    """Take over the one function that has this code; None where there is none."""
    function = None if code is None else function_of(code)
    return None if function is None else EagerStep(function, on_refusal)


def step_of_loop(codes: tuple[CodeType, ...], at: str) -> CodeType | None:
    """Of all code on the way from the tape to a loop over a dataset, what the loop calls.

    Args:
        codes: From the function that holds the tape outwards.
        at: ``file.py:line`` of the loop.
    """
    *_, found = (None, *takewhile(lambda code: not _holds(code, at), codes))
    return found


def step_around(frame: FrameType | None) -> CodeType | None:
    """Of all functions of the user's that run now, the outermost one inside the innermost loop.

    Args:
        frame: In the step, or in what it calls.
    """
    found = None
    for each in outwards(frame):
        if owner(each) == "user":
            if loops_around(each.f_code.co_filename, each.f_lineno):
                return found
            found = each.f_code
    return None


def _holds(code: CodeType, at: str) -> bool:
    """Whether a statement is this code's own, as far as lines tell."""
    file, _, line = at.rpartition(":")
    lines = list(_lines(code))
    same = code_place(code).rpartition(":")[0] == file
    return same and bool(lines) and min(lines) <= int(line) <= max(lines)


def _lines(code: CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line:
            yield line
