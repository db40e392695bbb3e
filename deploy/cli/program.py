"""The program: its commands, and how every command ends.

An error is one line on stderr that names the input; a traceback appears only with ``--debug``. Which exit code means what
is in :mod:`deploy.cli.exits`.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import metadata
from typing import NoReturn

import sqlalchemy as sa
import typer

from bus.errors import BursarError
from deploy.cli import (
    asking,
    budgets,
    culling,
    evictions,
    history,
    imports,
    keeping,
    queue,
    quotas,
    reactors,
    status,
    up,
    webhook,
    why,
)
from deploy.cli.exits import MEANINGS, Exit, exit_of
from deploy.cli.options import (
    Asked,
    Bus,
    Config,
    Data,
    Debug,
    Given,
    Ledger,
    Output,
    command,
    remember,
)
from deploy.cli.output import say
from deploy.errors import AbsentLedgerError, LedgerBusyError, StoppedError

_EPILOG = "Exit codes: " + " · ".join(f"{int(code)} {words}" for code, words in MEANINGS.items())

app = typer.Typer(
    name="bursar",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    help="The books of a Kubernetes AI cluster: who held what, from when to when, exact and replayable.",
)
up.register(app)
webhook.register(app)
app.add_typer(imports.app, name="import")
asking.register(app)
quotas.register(app)
budgets.register(app)
queue.register(app)
evictions.register(app)
why.register(app)
culling.register(app)
reactors.register(app)
status.register(app)
history.register(app)
keeping.register(app)


@command(app, "version")
def version(asked: Asked) -> None:
    """The version of this program."""
    print(f"bursar {metadata.version('bursar')}")


@app.callback()
def root(
    context: typer.Context,
    data: Data = None,
    ledger: Ledger = None,
    bus: Bus = None,
    config: Config = None,
    output: Output = None,
    debug: Debug = False,
) -> None:
    """The books of a Kubernetes AI cluster: who held what, from when to when, exact and replayable.

    \b
    bursar up                         follow the cluster of your kubeconfig (or play a recorded day)
    bursar report --by team,day       who used how much
    bursar acct --team vision         the rows behind it
    bursar get quotas                 what is used and left of each quota
    bursar quota check job.yaml       would this be admitted, and if not what would
    bursar why vision/train-7         what was decided, and on which numbers
    bursar status                     is everything in the books?
    """
    context.obj = Given()
    remember(context, data=data, ledger=ledger, bus=bus, config=config, output=output, debug=debug)
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line in this process and return its exit code. Errors are told on stderr."""
    is_debug = "--debug" in arguments
    try:
        code = int(app(arguments, standalone_mode=False) or 0)
    except (typer.Exit, SystemExit) as error:
        code = int(getattr(error, "exit_code", getattr(error, "code", 0)) or 0)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if is_debug:
            raise
        code = _told(error)
    if code == Exit.PIPE:
        # Nothing may be written any more, also not when Python closes the stream at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _told(error: Exception) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        # A command that was only named: its help is the message, line by line.
        print(error, file=sys.stderr)
        return Exit.USAGE
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "bursar"
        say(f"{path}: {error.format_message()}  (see {path} --help)")
        return Exit.USAGE
    if isinstance(error, typer.Abort):
        return 130
    if isinstance(error, AbsentLedgerError):
        say(
            f"bursar: no ledger at {getattr(error, 'ledger', '')}: begin one with `bursar up` or `bursar import`"
        )
    elif isinstance(error, LedgerBusyError):
        say(f"bursar: this ledger is being written by {error.holder}")
    elif isinstance(error, StoppedError):
        say("bursar: stopped; what was committed is kept, the same command goes on from there")
    elif isinstance(error, BursarError):
        say(f"bursar: {error}")
    elif isinstance(error, sa.exc.SQLAlchemyError):
        cause = getattr(error, "orig", None) or error
        say(f"bursar: the ledger: {str(cause).splitlines()[0]}")
    else:
        say(f"bursar: {type(error).__name__}: {error}  (--debug shows where)")
    return exit_of(error)
