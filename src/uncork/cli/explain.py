"""``uncork explain NAME``: the page of a cause or an optimization."""

from __future__ import annotations

import argparse

from uncork.core.base import exit_codes
from uncork.report.content.pages import page_names, read_page
from uncork.report.terminal.pages import print_page


def explain(options: argparse.Namespace) -> int:
    """Print one page, or all names where none is given."""
    if options.name is None:
        print("\n".join(page_names()))
    else:
        print_page(read_page(options.name))
    return exit_codes.DONE
