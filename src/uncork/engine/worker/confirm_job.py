"""What a version trains, seen by running it for a moment: for a script with a patch."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from uncork.core.job import Result
from uncork.core.machine import Machine
from uncork.core.record import replace
from uncork.engine.subject import Subject
from uncork.engine.trials import Confirming

# Seconds of training, compilation aside: it is to be seen at work, not to be timed.
_MOMENT_S: Final = 1.0


class Checking(Confirming):
    """Let one version train a little, and hand back what it trained."""

    def work(self, subject: Subject, machine: Machine) -> Result:
        """A moment of its first epoch, from cold."""
        version = self._version(subject)
        subject.runner(version).first_epoch(_MOMENT_S)
        with suppress(Exception):  # of a loop's own step something is known once it was looked for
            subject.untraced_s(_MOMENT_S / 10)
        digest = version.pipeline.digest if version.pipeline else ""
        return Result(machine=machine, trained=replace(subject.seen(), pipeline=digest))
