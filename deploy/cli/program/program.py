"""The program: its commands, and the end of every command.

An error is one line on stderr with the input's name; a traceback appears only with ``--debug``. Exit codes and their meanings
are in :mod:`deploy.cli.program.exits`.
"""

from __future__ import annotations

import os
import sys
from logging import ERROR
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.main import get_command

from bus.errors import BursarError, HistoryDivergedError
from deploy.cli.options import (
    Bus,
    Config,
    Data,
    Debug,
    Given,
    Ledger,
    Output,
    remember,
)
from deploy.cli.program.exits import MEANINGS, Exit, exit_of, is_of_database
from deploy.cli.program.lazy import Lazy
from deploy.cli.rendering.output import say
from deploy.errors import AbsentLedgerError, LedgerBusyError, OlderLedgerError, StoppedError
from deploy.hints import hint

if TYPE_CHECKING:
    from typer._click import Command

_EPILOG = "Exit codes: " + " · ".join(f"{int(code)} {words}" for code, words in MEANINGS.items())

app = typer.Typer(
    name="bursar",
    cls=Lazy,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    help="Exact usage, quotas and decisions of a Kubernetes AI cluster.",
)


def _version(is_asked: bool) -> None:
    if is_asked:
        from deploy.cli.program.version import description

        print(description())
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    data: Data = None,
    ledger: Ledger = None,
    bus: Bus = None,
    config: Config = None,
    output: Output = None,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Exact usage, quotas and decisions of a Kubernetes AI cluster.

    \b
    bursar up                         follow the cluster of your kubeconfig (or play a recorded day)
    bursar report --by team,day       usage of each team and day
    bursar acct --team vision         the rows behind it
    bursar get quotas                 used and left amounts of each quota
    bursar quota check job.yaml       would this be admitted?
    bursar why vision/train-7         decisions, with reasons and numbers
    bursar status                     is Bursar healthy?
    """
    context.obj = Given()
    remember(context, data=data, ledger=ledger, bus=bus, config=config, output=output, debug=debug)
    import logging

    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def program() -> Command:
    """The program as the command line calls it."""
    return get_command(app)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    # All files made from here on, by the database and the bus server too, are private to their owner.
    os.umask(0o077)
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line in this process and return its exit code. Errors are told on stderr."""
    is_debug = "--debug" in arguments
    try:
        code = int(program()(arguments, standalone_mode=False) or 0)
    except (typer.Exit, SystemExit) as error:
        code = int(getattr(error, "exit_code", getattr(error, "code", 0)) or 0)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if is_debug:
            raise
        code = _report(error)
    if code == Exit.PIPE:
        # No write is allowed any more, including Python's own when it closes the stream at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _report(error: Exception) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        # A group without a command: its help is the message, line by line.
        print(error, file=sys.stderr)
        return Exit.USAGE
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "bursar"
        _failed(f"{path}: {error.format_message()}  (see {path} --help)")
        return Exit.USAGE
    if isinstance(error, typer.Abort):
        return 130
    if isinstance(error, AbsentLedgerError):
        _failed(
            f"bursar: no ledger at {getattr(error, 'ledger', '')}: begin one with"
            f" `{hint('up')}` or `{hint('import')}`"
        )
    elif isinstance(error, OlderLedgerError):
        _failed(
            f"bursar: {error.ledger} was written by an older Bursar (its schema is {error.found}, this program needs"
            f" {error.wanted}): `{hint('up')}` brings it up to date"
        )
    elif isinstance(error, LedgerBusyError):
        _failed(f"bursar: this ledger is being written by {error.holder}")
    elif isinstance(error, StoppedError):
        _failed("bursar: stopped; what was committed is kept, the same command goes on from there")
    elif isinstance(error, HistoryDivergedError) and "recover" not in str(error):
        _failed(
            f"bursar: bus and ledger differ: {error}: end `bursar up`, then run `bursar recover`"
        )
    elif isinstance(error, BursarError):
        _failed(f"bursar: {error}")
    elif is_of_database(error):
        cause = getattr(error, "orig", None) or error
        _failed(f"bursar: the ledger: {str(cause).splitlines()[0]}")
    else:
        _failed(f"bursar: {type(error).__name__}: {error}  (--debug shows where)")
    return exit_of(error)


def _failed(text: str) -> None:
    say(text, ERROR)
