"""``bursar up``: everything in one process, with one quiet status line."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.text import Text

from bus.clock import SystemClock
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.consoles import console
from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.output import say
from deploy.errors import StoppedError
from deploy.processes.logs import log_as_set

if TYPE_CHECKING:
    from deploy.runtime.service import Progress

#: Without a terminal: how often a line says how things are, where they changed.
QUIET_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "up")(up)


def up(
    asked: CommandContext,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="End when everything published so far is in the ledger, and what an upgrade changed is filled.",
        ),
    ] = False,
    recording: Annotated[
        bool, typer.Option("--recording", help="Play the bundled recording, also beside a cluster.")
    ] = False,
) -> None:
    """Follow the cluster and write its ledger. Bus, sources and ledger are one process.

    The cluster is that of your kubeconfig, or of the pod of this process. Without a cluster it plays a recorded day of a small
    one. Ctrl-C or SIGTERM ends it; the next start continues from there.

    \b
    bursar up
    KUBECONFIG=~/.kube/prod bursar up --data /var/lib/bursar
    bursar up --ledger postgresql://bursar@db/bursar --bus nats://nats:4222
    """
    from deploy.api.serving import answering
    from deploy.runtime.bootstrap import run
    from deploy.runtime.service import serve

    settings = asked.settings
    log_as_set(settings)
    is_live = sys.stderr.isatty() and settings.log.format == "text"
    screen = LiveScreen() if is_live else LineScreen()
    try:
        with screen:
            run(serve(settings, screen, answering=answering, once=once, recording=recording))
    except StoppedError:
        # A signal is how this command is meant to end.
        say("stopped; the next start goes on from here")


class LineScreen:
    """Plain lines, for logs: each event once, and now and then how things are."""

    def __init__(self) -> None:
        self._shown_at = 0.0
        self._shown = ""
        self._settled = False

    def __enter__(self) -> LineScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self, text: str) -> None:
        """One line."""
        say(text)

    def show(self, progress: Progress) -> None:
        """A line at the first settled state, at each trouble, and in every minute with a change."""
        text = summary(progress)
        is_settled = progress.stage in ("following", "waiting")
        is_due = time.monotonic() - self._shown_at >= QUIET_SECONDS and text != self._shown
        if (
            progress.trouble != getattr(self, "_trouble", "")
            or is_due
            or is_settled > self._settled
        ):
            self._shown_at, self._shown, self._settled = time.monotonic(), text, is_settled
            self._trouble = progress.trouble
            say(text)


class LiveScreen:
    """One status line at the foot of a terminal, with past events above it."""

    def __init__(self) -> None:
        self._live = Live(console=console(stderr=True), auto_refresh=False, transient=True)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        """One line above."""
        self._live.console.print(Text(inert(text)))

    def show(self, progress: Progress) -> None:
        """The line at the foot."""
        style = "yellow" if progress.trouble else "green" if _is_well(progress) else "cyan"
        self._live.update(Text("● ", style=style) + Text(inert(summary(progress))), refresh=True)


def summary(progress: Progress) -> str:
    """How things are, in one line."""
    lag = max(progress.sequence - progress.projected, 0)
    parts = [progress.stage, f"event {progress.projected:,}"]
    parts.append("all booked" if lag == 0 else f"{lag:,} to book")
    if progress.filled is not None:
        parts.append(
            f"filling {', '.join(progress.filled.parts)}: {progress.filled.sequence:,} of {progress.filled.of:,}"
        )
    if progress.sources:
        heard = max(state.heard_us for state in progress.sources.values())
        refused = sum(state.refused for state in progress.sources.values())
        if heard:
            parts.append(f"heard {max(SystemClock().now_us() - heard, 0) // 1_000_000} s ago")
        if refused:
            parts.append(f"{refused:,} records refused")
    weak = sum(line.state != "OK" for line in progress.guard)
    if weak:
        parts.append(f"{weak} bus properties not proven (bursar status)")
    if progress.trouble:
        parts.append(progress.trouble)
    return " · ".join(parts)


def _is_well(progress: Progress) -> bool:
    is_settled = progress.stage in ("following", "waiting")
    return is_settled and progress.filled is None and progress.sequence == progress.projected


__all__ = ["LineScreen", "LiveScreen", "register", "summary", "up"]
