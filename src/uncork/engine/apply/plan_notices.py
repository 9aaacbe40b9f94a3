"""What a run under a plan tells its user: what does not fit, and how the training continues."""

from __future__ import annotations

import functools
import sys
from typing import NoReturn

from uncork.capture.base.listener import Guard
from uncork.core.base.errors import EditRefused, PlanRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import has_reimplemented_math
from uncork.engine.apply.machine_match import library_differences, machine_differences


class PlanNotices:
    """Ends the script where something does not fit, or writes so to stderr (``--allow-partial``).

    Once something has been trained under the plan, nothing ends for the sake of the rest: hours of
    work may be lost with it.

    Args:
        plan: In force, as far as it fits.
        strict: What does not fit is an error.
        guard: Runs what raises it, so that the script cannot catch it.

    Attributes:
        has_trained: Something was trained under the plan.
    """

    def __init__(self, plan: Plan, *, strict: bool, guard: Guard = lambda act: act()) -> None:
        self._plan = plan
        self._is_strict = strict
        self._guard = guard
        self.has_trained = False
        self._compared_machine = self._reported_change = False

    @property
    def strict(self) -> bool:
        """What does not fit is an error, as yet."""
        return self._is_strict and not self.has_trained

    def _end(self, received: str, expected: str, remedy: str) -> NoReturn:
        """End the script.

        Raises:
            PlanRefused: Always, or what the guard makes of it.
        """
        refusal = PlanRefused(received, expected, remedy)
        self._guard(functools.partial(_raise, refusal))
        raise refusal

    def compare_machine(self) -> None:
        """What was proved on another machine need not be the same here to the last bit.

        Written once; refused at every training, also where the script catches the first refusal.

        Raises:
            PlanRefused: Strict, and the plan replaces functions of another Keras.
        """
        libraries = library_differences(self._plan.machine)
        if self.strict and libraries and has_reimplemented_math(self._plan.step_edits):
            self._end(
                f"the plan replaces functions of Keras, and was proven with "
                f"{' and '.join(libraries)}",
                "the same TensorFlow and Keras",
                "run 'uncork tune' again to make a plan for these",
            )
        changed = () if self._compared_machine else machine_differences(self._plan.machine)
        self._compared_machine = True
        if changed:
            sys.stderr.write(
                f"uncork: the plan was proven on another machine ({'; '.join(changed)}): "
                "run 'uncork tune' to make a plan for this one\n"
            )

    def step_traced_again(self, at: str, what: str) -> None:
        """Told once: a loop may change it in every epoch."""
        if not self._reported_change:
            self._reported_change = True
            sys.stderr.write(
                f"uncork: the step of {at} is traced again, because '{what}' has changed: the "
                "proof is for the step before this change\n"
            )

    def step_continues(self, at: str, how: str, why: str, *, has_begun: bool = False) -> None:
        """The training goes on without what was planned for its step.

        Args:
            at: ``file.py:line`` of the training.
            how: It goes on.
            why: It cannot run as planned.
            has_begun: It has run as planned so far.

        Raises:
            PlanRefused: Strict, and it has not begun.
        """
        if self.strict and not has_begun:
            self._end(
                f"the step of {at} cannot run as planned: {why}",
                "the step that was tuned",
                "run 'uncork tune' again to make a plan for this one",
            )
        sys.stderr.write(f"uncork: the step of {at} continues {how}: {why}\n")

    def training_refused(
        self, refusal: EditRefused | PlanRefused, at: str, *, has_begun: bool = False
    ) -> None:
        """The training goes on without its plan.

        Args:
            refusal: Why.
            at: ``file.py:line`` of the training.
            has_begun: It has run as planned so far.

        Raises:
            PlanRefused: Strict, and it has not begun; or planned on another backend: it would not
                train as written, and before the first step nothing is lost.
        """
        if (self.strict and not has_begun) or self._plan.backend:
            self._end(refusal.received, refusal.expected, refusal.remedy)
        threads = self._plan.intra_op_threads
        still = f", except for {threads} thread(s) within a kernel" if threads else ""
        if self._plan.keeps_freed_memory:
            still += ", except that its process keeps freed memory"
        sys.stderr.write(f"uncork: {at} trains unmodified, without the plan{still}: {refusal}\n")

    def arrays_read_unmodified(self, at: str, refusal: EditRefused) -> None:
        """``fit`` reads its arrays in several threads, as written.

        Raises:
            PlanRefused: Strict.
        """
        if self.strict:
            self._end(refusal.received, refusal.expected, refusal.remedy)
        sys.stderr.write(f"uncork: {at} reads its arrays unmodified: {refusal}\n")

    def saves_synchronously(self, at: str) -> None:
        """No checkpoint of this call can be written beside the training.

        Raises:
            PlanRefused: Strict.
        """
        why = "no ModelCheckpoint of Keras writes .keras or .weights.h5"
        if self.strict:
            self._end(why, "the ModelCheckpoint that was tuned", "tune again")
        sys.stderr.write(f"uncork: {at} saves synchronously, as the original: {why}\n")


def _raise(error: PlanRefused) -> NoReturn:
    raise error


def other_data() -> PlanRefused:
    """The loop reads another pipeline than the one that was tuned."""
    return PlanRefused(
        "the plan does not fit this loop: its input pipeline has changed (structure or functions)",
        "the training that was tuned",
        "run 'uncork tune' again to make a plan for this one",
    )
