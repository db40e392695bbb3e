"""A process that answers one question and ends: ``python -m deploy.api.child``, the question as JSON on its standard input.

It runs the command itself, so an answer equals the output of the command line, by the same code. Its use of the machine is
limited before it reads the question. Its parent ends it at its deadline.
"""

from __future__ import annotations

import contextlib
import io
import sys

import msgspec
import sqlalchemy as sa

from deploy.cli.program.program import run_command
from deploy.cli.rendering import tables
from deploy.runtime import kept, ledgers
from deploy.runtime.confined import Limits, limit
from projections.engine.replay import live_checkpoint


class AskedCommand(msgspec.Struct):
    """A command line, the limits of its answer, and the width of the asker's terminal; 0 = none.

    ``kept``: the namespace that limits the answer; None = it may be about everything.
    """

    arguments: list[str]
    limits: Limits
    width: int = 0
    kept: kept.KeptScope | None = None


class ChildAnswer(msgspec.Struct):
    """The output of the command, its exit code, and the last event of its read of the ledger; None = it read none."""

    code: int
    sequence: int | None
    out: str
    notes: list[str]


def answer(asked: AskedCommand) -> ChildAnswer:
    """Run the command of this process's only question."""
    seen: list[int] = []

    def look(connection: sa.Connection) -> None:
        seen.append(live_checkpoint(connection).sequence)

    ledgers.looks.append(look)
    kept.caller = asked.kept
    tables.asker_width = asked.width or None
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run_command(asked.arguments)
    if asked.kept is not None:
        return ChildAnswer(code, None, out.getvalue(), errors.getvalue().splitlines())
    return ChildAnswer(
        code, min(seen, default=None), out.getvalue(), errors.getvalue().splitlines()
    )


def main() -> None:
    """Answer the question on standard input."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=AskedCommand)
    limit(asked.limits)
    sys.stdout.buffer.write(msgspec.json.encode(answer(asked)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
