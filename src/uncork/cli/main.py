"""``uncork VERB``: parse, call the verb, print the result, choose the exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from uncork.cli.parser import build_parser
from uncork.core.base import exit_codes
from uncork.core.base.errors import ScriptFailed, UncorkError


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code.

    Example:
        >>> main(["report", "no-such-file.json"])
        2
    """
    options = build_parser().parse_args(argv)
    try:
        code = _call(options)
        if options.verb != "run":  # what a script has not written yet is its own affair
            sys.stdout.flush()
        return code
    except UncorkError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("uncork: interrupted before the first result\n")
        return exit_codes.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, `uncork report FILE | head`
        # What is still to be written is written nowhere, or Python would complain at its end.
        with suppress(OSError):  # a stream that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.DONE


def _call(options: argparse.Namespace) -> int:
    # Imported here: each verb pays for what it uses, and --help for nothing.
    if options.verb == "explain":
        from uncork.cli.explain import explain  # noqa: PLC0415

        return explain(options)
    from uncork.cli import diff as patching  # noqa: PLC0415
    from uncork.cli import verbs  # noqa: PLC0415

    if options.verb in ("diagnose", "tune", "diff"):
        _save_when_ended()
    if options.verb != "report":
        _clear_up()
    call = {
        "diagnose": verbs.diagnose,
        "tune": verbs.tune,
        "run": verbs.run,
        "diff": patching.diff,
        "report": verbs.report,
    }
    return call[options.verb](options)


def _clear_up() -> None:
    """After processes of Uncork that were killed, together with whoever guarded them."""
    from uncork.engine.process.abandoned import clear_abandoned_folders  # noqa: PLC0415
    from uncork.engine.process.guardian import tell_restored  # noqa: PLC0415

    tell_restored(clear_abandoned_folders())


def _save_when_ended() -> None:
    """Ended from outside, by a job's time limit or a terminal that is closed: as after Ctrl-C."""
    from uncork.capture.sandbox.restore import termination_signals  # noqa: PLC0415

    for number in set(termination_signals()) - {signal.SIGINT}:
        signal.signal(number, _interrupt_once)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """A terminal that is closed says so twice, and what was found is being saved by then."""
    signal.signal(number, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def _tell(error: UncorkError) -> None:
    from uncork.engine.process.worker_failure import WorkerFailed  # noqa: PLC0415

    # A child has told its own story, and the traceback of a script that raised stands already.
    if not isinstance(error, WorkerFailed | ScriptFailed):
        sys.stdout.flush()
        sys.stderr.write(f"uncork: {error}\n")


if __name__ == "__main__":
    sys.exit(main())
