"""The command line's grammar."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uncork.core.base.version import __version__
from uncork.core.edits.edit import GUARANTEES

_DAY_S = 86_400
_MODULE = "-m"
_DESCRIPTION = """\
Find out why a TensorFlow/Keras training is slow, remove its bottlenecks, and prove that the
training stays the same. Your script stays unmodified.
"""
_EPILOG = """\
examples:
  uncork diagnose train.py --data photos       show where the time goes
  uncork tune train.py --data photos           try optimizations; write plan.json
  uncork run --plan plan.json train.py --data photos
  uncork tune -m package.train --data photos   the same of a module, as python -m runs it
  uncork diff plan.json                        print the plan as a patch to your source
  uncork explain cache_missing                 print what a cause means and what to do

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
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    _diagnose(
        verbs.add_parser(
            "diagnose", help=("show where the time goes and how fast this machine could train")
        )
    )
    _tune(verbs.add_parser("tune", help="try optimizations, prove each one, write a plan"))
    _run(verbs.add_parser("run", help="train with a plan"))
    _diff(
        verbs.add_parser(
            "diff", help=("print the plan as a patch to your source, as far as possible")
        )
    )
    _report(verbs.add_parser("report", help="show a saved diagnosis or plan again"))
    _explain(verbs.add_parser("explain", help="print the page of a cause or an optimization"))
    return top


def _diagnose(verb: argparse.ArgumentParser) -> None:
    _training(verb)
    verb.add_argument("--list", action="store_true", help="list the script's training calls")
    verb.add_argument(
        "--report",
        type=Path,
        default=Path("uncork-report/diagnosis.html"),
        metavar="FILE",
        help=(
            "the HTML report; its figures go to a .json file in the same folder (default: "
            "%(default)s)"
        ),
    )
    verb.add_argument(
        "--budget",
        type=_seconds(2.0),
        default=10.0,
        metavar="SECONDS",
        help="time for measuring; less time means more noise (default: %(default)g)",
    )
    verb.add_argument(
        "--timeline",
        type=Path,
        metavar="DIR",
        help="save a trace of some steps there, for TensorBoard; it contains names from your code",
    )
    _confidential(verb)
    _output(verb)
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
        "--report",
        type=Path,
        metavar="FILE",
        help=("the HTML report (default: in the folder of the plan)"),
    )
    allowed = verb.add_mutually_exclusive_group()
    allowed.add_argument(
        "--allow",
        choices=GUARANTEES[-1:],
        metavar="training",
        help=(
            "also try optimizations that change the training itself; Uncork judges them on "
            "held-out samples"
        ),
    )
    allowed.add_argument(
        "--strict",
        choices=GUARANTEES[:-1],
        default="precision",
        metavar="GUARANTEE",
        help="the loosest guarantee to accept: exact, rounding, resampled or precision (default)",
    )
    verb.add_argument(
        "--budget",
        type=_seconds(20.0),
        metavar="SECONDS",
        help="time for tuning, with the fresh processes that confirm the result (default: it "
        "follows the training, and the trials take a tenth of the time that they are expected to "
        "save, from 60 to 600 seconds)",
    )
    verb.add_argument(
        "--again",
        action="store_true",
        help="tune from the beginning, also where the plan of an earlier tuning still holds",
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
        help=(
            "a folder for caches that do not fit into memory; Uncork deletes their files at the end"
        ),
    )
    _confidential(verb)
    _output(verb)
    _quiet(verb)
    _script(verb)


def _run(verb: argparse.ArgumentParser) -> None:
    which = verb.add_mutually_exclusive_group()
    which.add_argument("--plan", type=Path, metavar="FILE", help="a plan written by 'uncork tune'")
    which.add_argument(
        "--no-plan",
        action="store_true",
        help="train unmodified, although there is a plan for the script",
    )
    verb.add_argument(
        "--allow-partial",
        action="store_true",
        help=(
            "apply what still fits of a plan for another script, other arguments, another "
            "machine or another version, and report what does not fit (default: exit with code 2 "
            "before the training)"
        ),
    )
    verb.add_argument("--strict", action=_Gone, nargs=0, help=argparse.SUPPRESS)
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
        help="a plan written by 'uncork tune', and other arguments of the script than it was tuned "
        "with, for --check; or a script that uses what Keras 3 removed",
    )


def _report(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("file", type=Path, help="a saved diagnosis.json or plan.json", metavar="FILE")
    verb.add_argument(
        "other", type=Path, nargs="?", metavar="PLAN", help="another plan.json, to compare it with"
    )
    verb.add_argument("--html", type=Path, metavar="FILE", help="also write the HTML report here")
    _confidential(verb)
    _output(verb)


def _explain(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a cause of a diagnosis or an optimization of a plan (default: list all names)",
    )


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
        help="remove your paths, names and code from the report, so that you can share it",
    )


def _output(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the result here, as JSON; '-' prints it in place of the text",
    )
    verb.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show every step, and all tables of the result; keep TensorFlow's log",
    )


def _quiet(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--quiet", action="store_true", help="print only the result, no progress")


def _script(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "script",
        action=_Command,
        nargs=argparse.PARSER,
        help="your training script, unmodified, and its own arguments; '-m MODULE' and its "
        "arguments for a module, as 'python -m' runs it",
    )


class _VerbParser(argparse.ArgumentParser):
    """Takes ``-m`` for the beginning of the script's own command line, not for an option."""

    def _parse_optional(self, arg_string: str) -> Any:
        return None if arg_string == _MODULE else super()._parse_optional(arg_string)


class _Gone(argparse.Action):
    """An option of earlier versions."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Say what has taken its place."""
        parser.error(
            "'uncork run' has no --strict: a plan that does not fit ends the run by default. Leave "
            "the option out, or apply what still fits: --allow-partial"
        )


class _Command(argparse.Action):
    """A file, or ``-m`` and a module, and all that follows: it is the script's own."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set what it is called, or ``module``; and ``args``."""
        del option_string
        is_module = values[0] == _MODULE
        words = values[1:] if is_module or values[0] == "--" else values
        if not words:
            missing = f"the name of a module after {_MODULE}" if is_module else self.dest
            parser.error(f"the following arguments are required: {missing}")
        namespace.module = words[0] if is_module else ""
        setattr(namespace, self.dest, "" if is_module else words[0])
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
