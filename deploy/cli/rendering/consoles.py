"""The console of progress bars and of the live line of ``bursar up``."""

from __future__ import annotations

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as at any other closed pipe."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """A console without colour where the output is no terminal or NO_COLOR is set, and wide where it is no terminal."""
    made = _Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        # A pipe has no width: a row must stay a line.
        made = _Console(stderr=stderr, highlight=False, width=400, no_color=True, color_system=None)
    return made
