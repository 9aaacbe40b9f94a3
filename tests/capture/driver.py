"""Runs a script under a listener, with exit codes as the command line makes them.

Usage: python driver.py LISTENER SCRIPT [ARGS]
"""

from __future__ import annotations

import sys
from pathlib import Path

from uncork.capture.base.listener import FitCall, LoopCall, PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.sandbox.redirected_saves import RedirectedSaves, redirect_saves
from uncork.capture.script import run_script
from uncork.core.base import exit_codes
from uncork.core.base.errors import PlanRefused, ScriptFailed, UncorkError
from uncork.core.base.owned_folder import owned_folder


class Telling(PassThroughListener):
    """Names each training call on stdout."""

    def fit(self, call: FitCall):
        print(f"<fit {call.index} {call.at}>", flush=True)
        return super().fit(call)

    def loop(self, call: LoopCall, first):
        print(f"<loop {call.index} {call.at}>", flush=True)
        return super().loop(call, first)


class Stopping(PassThroughListener):
    """Ends the script at its first training call."""

    def fit(self, call: FitCall):
        print("<stop>", flush=True)
        raise StopScript

    def loop(self, call: LoopCall, first):
        print("<stop>", flush=True)
        raise StopScript


class Refusing(PassThroughListener):
    def fit(self, call: FitCall):
        raise PlanRefused("the plan does not fit")


LISTENERS = {"pass": PassThroughListener, "tell": Telling, "stop": Stopping, "refuse": Refusing}


def main() -> int:
    kind, script, *args = sys.argv[1:]
    try:
        if kind == "hold":
            with owned_folder() as own, redirect_saves(Path(own, "saves")) as saves:
                run_script(Path(script), args, PassThroughListener())
            tell(saves)
        else:
            run_script(Path(script), args, LISTENERS[kind]())
    except ScriptFailed as error:
        return error.exit_code
    except UncorkError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    return exit_codes.DONE


def tell(saves: RedirectedSaves) -> None:
    for name, count in sorted({**saves.counts, **saves.suppressed}.items()):
        print(f"<held {name} x{count}>")


if __name__ == "__main__":
    sys.exit(main())
