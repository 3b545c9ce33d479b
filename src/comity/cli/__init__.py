"""The command line. Heavy imports happen inside the commands, so that help is instant."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer

from comity.cli.models import export, predict
from comity.cli.running import compare, pretrain, reproduce, resume, run, search
from comity.cli.showing import list_, report
from comity.errors import UserError
from comity.version import __version__

_USAGE_ERROR: Any = typer.BadParameter.__base__  # what a wrong option or argument raises

app = typer.Typer(
    name="comity",
    help="Federated learning among participants who want different things.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (run, search, compare, resume, report, predict, export, pretrain, reproduce):
    app.command()(_command)
app.command("list")(list_)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Entry point: a user's mistake is one line and exit code 2, Ctrl-C is 130."""
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error))
    except _USAGE_ERROR as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)  # newer typers return 130 after Ctrl-C


def _fail(message: str) -> NoReturn:
    print(f"comity: {message}", file=sys.stderr)
    sys.exit(2)
