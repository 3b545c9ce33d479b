"""The command line. Heavy imports happen inside the commands, so that help is instant."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any, NoReturn

import typer

from comity.cli import (
    charter,
    compare,
    deploy,
    describe,
    explore,
    links,
    models,
    pretrain,
    reproduce,
    run,
    search,
    show,
    tune,
)
from comity.cli.terminal import fault
from comity.errors import RefusedError, StoppedError, UserError
from comity.version import __version__

_USAGE_ERROR: Any = typer.BadParameter.__base__  # raised for a wrong option or argument

_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)
"""Errors of the system that are about a name which the user gave."""

_TORCHS_MEMORY = "can't allocate memory"
"""What torch's `RuntimeError` says where Python has a `MemoryError`."""

app = typer.Typer(
    name="comity",
    help="Federated learning among participants who want different things.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (
    run.run,
    search.search,
    compare.compare,
    tune.tune,
    run.resume,
    show.report,
    explore.explore,
    describe.describe,
    models.predict,
    models.export,
    models.cross,
    pretrain.pretrain,
    reproduce.reproduce,
    links.contacts,
    links.plan,
    deploy.rehearse,
    deploy.serve,
    deploy.join,
    deploy.check,
    deploy.keys,
    deploy.audit,
):
    app.command()(_command)
app.command("list")(show.list_)
app.add_typer(charter.app)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line.

    A mistake in the user's input is one line and exit code 2, a refusal by the other side of a
    federation is one line and exit code 3, work that the machine stopped is one line and exit code
    4, Ctrl-C is exit code 130.
    """
    try:
        code = app(prog_name="comity", standalone_mode=False)
    except UserError as error:
        _fail(str(error))
    except RefusedError as error:
        _fail(str(error), 3)
    except (StoppedError, OSError) as error:
        named = isinstance(error, OSError) and error.errno in _NAMES
        _fail(fault(error), 2 if named else 4)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _TORCHS_MEMORY not in str(error):
            raise
        _fail(f"stopped: there is not enough memory ({error})", 4)
    except _USAGE_ERROR as error:
        _fail(error.format_message().replace("Value error, ", ""))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)  # newer typers return 130 after Ctrl-C


def _fail(message: str, code: int = 2) -> NoReturn:
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)  # one line, no codes
    print(f"comity: {line}", file=sys.stderr)
    sys.exit(code)
