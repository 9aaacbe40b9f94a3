"""End a script from inside its training call, whatever it catches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from uncork.core.base import exit_codes
from uncork.core.base.errors import UncorkError

T = TypeVar("T")

# A script may swallow a stop in a retry loop; after so many the process is ended from outside.
_SWALLOWED: Final = 3


class StopScript(BaseException):
    """Ends the script cleanly: its ``finally`` blocks and exit handlers run, nothing after does.

    No ``Exception``, so that neither the script's error handling nor Keras's takes it for a
    failure. Write results to disk before raising it: a script that keeps swallowing it is ended
    without further notice.
    """


class ScriptStopper:
    """Raises :class:`StopScript` repeatedly until the script ends.

    Attributes:
        cause: The error of Uncork's that led to the stop, None when the work was simply done.
    """

    def __init__(self) -> None:
        self.cause: UncorkError | None = None
        self._raised = 0
        self._last: StopScript | None = None

    @property
    def is_pending(self) -> bool:
        """A stop has been raised: what the script does from now on no longer counts."""
        return self._raised > 0

    def run_guarded(self, act: Callable[[], T]) -> T:
        """Run a listener's code at a training call of the script's.

        An error of Uncork's becomes a stop on the way: ``except Exception`` around a training call
        would otherwise hide it.
        """
        self.check()
        try:
            return act()
        except StopScript as stop:
            self._count(stop)
            raise
        except UncorkError as error:
            self.cause = self.cause or error
            raise self._counted() from error

    def check(self) -> None:
        """Raise the pending stop again, if there is one: the script swallowed it."""
        if not self._raised:
            return
        if self._raised >= _SWALLOWED:
            _leave(self.cause)
        raise self._counted()

    def _counted(self) -> StopScript:
        stop = StopScript()
        self._count(stop)
        return stop

    def _count(self, stop: StopScript) -> None:
        """Count a stop once, although it may pass several guards on its way out."""
        if stop is not self._last:
            self._last = stop
            self._raised += 1


def _leave(cause: UncorkError | None) -> None:
    """End the process of a script that continues after it was stopped."""
    reason = f"uncork: {cause}\n" if cause else ""
    sys.stdout.flush()
    sys.stderr.write(
        f"{reason}uncork: the script caught BaseException and continued {_SWALLOWED} times "
        "after Uncork had stopped it. Uncork now ends the process without its exit handlers.\n"
    )
    sys.stderr.flush()
    os._exit(cause.exit_code if cause else exit_codes.DONE)
