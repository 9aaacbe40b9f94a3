"""The command line's grammar."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uncork.core.base.version import __version__
from uncork.core.edits.edit import GUARANTEES

_DAY_S = 86_400
_DESCRIPTION = """\
Find out why a TensorFlow/Keras training is slow, take the brakes off, and prove that the training
stays what it was. Works on the unmodified script.
"""
_EPILOG = """\
examples:
  uncork diagnose train.py --data photos       where does the time go?
  uncork tune train.py --data photos           what can be done about it? writes plan.json
  uncork run --plan plan.json train.py --data photos
  uncork diff plan.json                        the same in your source, as a patch

exit codes: 0 done, 1 the script failed, 2 wrong use, 3 nothing to measure, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """All verbs with their options.

    Example:
        >>> build_parser().parse_args(["run", "train.py", "--epochs", "3"]).args
        ['--epochs', '3']
    """
    top = argparse.ArgumentParser(
        prog="uncork",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"uncork {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    _diagnose(verbs.add_parser("diagnose", help="where does the time go, what is the ceiling"))
    _tune(verbs.add_parser("tune", help="walk the road, prove each step, write a plan"))
    _run(verbs.add_parser("run", help="train, with a plan in force"))
    _diff(verbs.add_parser("diff", help="the plan as a patch to your source, where it can be one"))
    _report(verbs.add_parser("report", help="draw a saved diagnosis or plan again"))
    return top


def _diagnose(verb: argparse.ArgumentParser) -> None:
    _training(verb)
    verb.add_argument("--list", action="store_true", help="list the script's training calls")
    verb.add_argument(
        "--report",
        type=Path,
        default=Path("uncork-report/diagnosis.html"),
        metavar="FILE",
        help="the HTML report, with its figures beside it as .json (default: %(default)s)",
    )
    verb.add_argument("--json", type=Path, metavar="FILE", help="write diagnosis.json here as well")
    verb.add_argument(
        "--budget",
        type=_seconds(2.0),
        default=20.0,
        metavar="SECONDS",
        help="time for the measuring; a shorter one is noisier (default: %(default)g)",
    )
    verb.add_argument(
        "--timeline",
        type=Path,
        metavar="DIR",
        help="keep a trace of some steps there, for TensorBoard; it holds names of yours",
    )
    _confidential(verb)
    _quiet(verb)
    _script(verb)


def _tune(verb: argparse.ArgumentParser) -> None:
    _training(verb)
    verb.add_argument(
        "--plan",
        type=Path,
        default=Path("plan.json"),
        metavar="FILE",
        help="where to write the plan (default: %(default)s)",
    )
    verb.add_argument(
        "--report", type=Path, metavar="FILE", help="the HTML report (default: beside the plan)"
    )
    allowed = verb.add_mutually_exclusive_group()
    allowed.add_argument(
        "--allow",
        choices=GUARANTEES[-1:],
        metavar="training",
        help="consent to steps that change the training itself, judged by samples laid aside",
    )
    allowed.add_argument(
        "--strict",
        choices=GUARANTEES[:-1],
        default="precision",
        metavar="GUARANTEE",
        help="accept nothing looser than this: exact, rounding, resampled or precision (default)",
    )
    verb.add_argument(
        "--budget",
        type=_seconds(20.0),
        default=270.0,
        metavar="SECONDS",
        help="time for the tuning (default: %(default)g); to confirm the result six processes are "
        "started, which may take longer than is left",
    )
    verb.add_argument(
        "--memory",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="share of the available memory that caches may take (default: %(default)g)",
    )
    verb.add_argument(
        "--disk-cache",
        default="",
        metavar="DIR",
        help="keep in files there what memory has no room for, while something runs",
    )
    _confidential(verb)
    _quiet(verb)
    _script(verb)


def _run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--plan", type=Path, metavar="FILE", help="a plan made by 'uncork tune'")
    verb.add_argument(
        "--strict", action="store_true", help="fail when the plan does not fit, train nothing"
    )
    _script(verb)


def _diff(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--check",
        action="store_true",
        help="run the script with the plan and with the patch, and compare what they train",
    )
    verb.add_argument(
        "--output", type=Path, metavar="FILE", help="write the patch there (default: print it)"
    )
    _quiet(verb)
    verb.add_argument(
        "file",
        action=_Command,
        nargs=argparse.PARSER,
        help="a plan made by 'uncork tune', and the script's arguments for --check; "
        "or a script that uses what Keras 3 no longer has",
    )


def _report(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("file", type=Path, help="a saved diagnosis.json or plan.json")
    verb.add_argument("--html", type=Path, metavar="FILE", help="also write the HTML report here")
    _confidential(verb)


def _training(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--training",
        type=int,
        metavar="N",
        help="which training call (default: the first that does real work; see diagnose --list)",
    )


def _confidential(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--confidential",
        action="store_true",
        help="leave paths, names and code of yours out of the report, to hand it on",
    )


def _quiet(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--quiet", action="store_true", help="no progress, only the result")


def _script(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "script",
        action=_Command,
        nargs=argparse.PARSER,
        help="your training script, unmodified, and its own arguments",
    )


class _Command(argparse.Action):
    """A file and all that follows it: ``--`` is the script's own from there on."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set what it is called, and ``args``."""
        del option_string
        words = values[1:] if values[0] == "--" else values
        if not words:
            parser.error(f"the following arguments are required: {self.dest}")
        setattr(namespace, self.dest, words[0])
        namespace.args = words[1:]


def _seconds(least: float) -> Callable[[str], float]:
    def seconds(text: str) -> float:
        value = float(text)
        if not least <= value <= _DAY_S:
            raise argparse.ArgumentTypeError(f"{text} s: give {least:g} to {_DAY_S} seconds")
        return value

    return seconds


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: give a share from 0 to 1")
    return value
