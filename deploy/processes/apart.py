"""``bursar watch``, ``ledger`` and ``act``: the parts of ``bursar up``, each as a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.output import say
from deploy.errors import StoppedError
from deploy.processes.logs import log_as_set

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from deploy.runtime.service import Screen
    from deploy.settings.shape import Settings

    Work = Callable[[Settings, Screen], Coroutine[Any, Any, None]]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "watch")(watch)
    command(app, "ledger")(ledger)
    command(app, "act")(act)


def watch(asked: CommandContext) -> None:
    """Follow the cluster, and publish its events. One part of `bursar up`, in a process of its own.

    Any number of them may run; they lose and double nothing. The bus and the ledger are servers of your own, and `bursar
    ledger` writes the ledger.

    \b
    bursar watch --bus nats://nats:4222 --ledger postgresql://bursar@db/bursar
    """
    from deploy.runtime.apart import watch_cluster

    _run(asked, watch_cluster)


def ledger(asked: CommandContext) -> None:
    """Write the ledger from the bus. One part of `bursar up`, in a process of its own.

    It needs no cluster. One process writes; a second one waits in reserve, and continues when the first ends.

    \b
    bursar ledger --bus nats://nats:4222 --ledger postgresql://bursar@db/bursar
    """
    from deploy.runtime.apart import write_ledger

    _run(asked, write_ledger)


def act(asked: CommandContext) -> None:
    """Enforce quotas, decide and act. `bursar up` without following the cluster and writing the ledger.

    One process acts; a second one waits in reserve, and continues when the first ends. A process that lost its turn while it
    was paused or cut off ends without another write to the cluster.

    \b
    bursar act --bus nats://nats:4222 --ledger postgresql://bursar@db/bursar
    """
    from deploy.runtime import apart

    _run(asked, apart.act)


def _run(asked: CommandContext, work: Work) -> None:
    from deploy.processes.up import LineScreen
    from deploy.runtime.bootstrap import run

    settings = asked.settings
    log_as_set(settings)
    try:
        with LineScreen() as screen:
            run(work(settings, screen))
    except StoppedError:
        say("stopped; the next start goes on from here")
