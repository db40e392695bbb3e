"""Progress bars of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from deploy.cli.rendering.consoles import console

#: Called with (done, of).
Told = Callable[[int, int], None]


@contextmanager
def bar(text: str) -> Iterator[Told]:
    """A progress bar on stderr where that is a terminal; it is called with (done, of)."""
    out = console(stderr=True)
    made = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=out, transient=True, disable=not out.is_terminal,
    )  # fmt: skip
    with made:
        task = made.add_task(text, total=None)

        def told(done: int, of: int) -> None:
            made.update(task, completed=done, total=of)

        yield told
