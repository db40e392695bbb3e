"""Progress bars of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich import progress as bars

from deploy.cli.rendering.consoles import console
from deploy.cli.rendering.output import say

#: At the first call for parts of the ledger.
FILLS = "an upgrade changed parts of the ledger: filling them from the archive"
#: Called with (done, of).
Progress = Callable[[int, int], None]


@contextmanager
def bar(text: str) -> Iterator[Progress]:
    """A progress bar on stderr if it is a terminal; it is called with (done, of)."""
    out = console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(),
    )  # fmt: skip
    made = bars.Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
    with made:
        task = made.add_task(text, total=None)

        def progress(done: int, of: int) -> None:
            made.update(task, completed=done, total=of)

        yield progress


@contextmanager
def fill_bar() -> Iterator[Progress]:
    """A line and a progress bar from its first call on, for parts of the ledger changed by an upgrade."""
    with ExitStack() as stack:
        made: list[Progress] = []

        def progress(done: int, of: int) -> None:
            if not made:
                say(FILLS)
                made.append(stack.enter_context(bar("filling")))
            made[0](done, of)

        yield progress
