"""Pages as ``uncork explain`` prints them."""

import io

from rich.console import Console

from uncork.report.terminal.pages import print_page


def test_a_pipe_gets_the_text_as_it_is(capsys):
    print_page("# title\n\ntext `code`\n")
    assert capsys.readouterr().out == "# title\n\ntext `code`\n"


def test_a_terminal_gets_no_markup():
    out = io.StringIO()
    print_page("# title\n\ntext `code`\n", Console(file=out, width=60, force_terminal=False))
    assert "#" not in out.getvalue()
    assert "code" in out.getvalue()
