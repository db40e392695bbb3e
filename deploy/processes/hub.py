"""``bursar hub`` and ``bursar clusters``: many clusters in one place."""

from __future__ import annotations

from typing import Any

import typer

from deploy.cli import times
from deploy.cli.notes.position import standing
from deploy.cli.options import CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering.answers import answer, count, field
from deploy.cli.rendering.output import say
from deploy.cli.rendering.words import duration, moment
from deploy.errors import SettingsError, StoppedError
from deploy.hints import hint
from deploy.processes.logs import log_as_set
from deploy.runtime.clusters import is_hub, links, places
from deploy.runtime.ledgers import clusters as of_ledger
from deploy.runtime.ledgers import reading

_FIELDS = ("cluster", "link", "quiet_s", "sequence", "lag", "observed", "parked", "trouble")
_COLUMNS = (
    field("CLUSTER"),
    field("LINK"),
    field("SILENT", "quiet_s", show=duration, drop=2),
    count("EVENT", "sequence", drop=4),
    count("WAITING", "lag", drop=3),
    field("OBSERVED", show=moment),
    count("PARKED", "parked", drop=1),
    field("TROUBLE"),
)


_OTHER = "its events are of cluster {}: give it its name there (cluster.name), or name it so here"


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "hub")(hub)
    command(app, "clusters", question=True, past=False, of_cluster=False)(clusters)


def hub(asked: CommandContext) -> None:
    """Write the ledgers of many clusters. It reads mirrors of their histories on a NATS of the hub, and changes no cluster.

    \b
    BURSAR_HUB__CLUSTERS='{"prod": "prod-domain"}' bursar hub --bus nats://nats:4222 --data /data/hub
    bursar report --by cluster,team --data /data/hub          all of them
    bursar why vision/train-7 --data /data/hub/clusters/prod  one of them
    """
    from deploy.processes.up import LineScreen
    from deploy.runtime.bootstrap import run
    from deploy.runtime.hub import follow_clusters

    settings = asked.settings
    log_as_set(settings)
    try:
        with LineScreen() as screen:
            run(follow_clusters(settings, screen))
    except StoppedError:
        say("stopped; the next start goes on from here")


def clusters(asked: CommandContext) -> None:
    """Clusters of a hub: the newest event and the link of each. Exit code 7 unless all links are up."""
    if not is_hub(asked.place):
        # Without any ledger, that is the error.
        with reading(asked.place):
            raise SettingsError(
                f"this ledger is not a hub's: give the hub's folder with --data, or ask `{hint('status')}`"
            )
    linked = links(asked.place)
    rows: list[dict[str, Any]] = []
    for place in places(asked.place):
        with reading(place) as connection:
            stands, names = standing(connection), of_ledger(connection)
        is_other = bool(names) and place.cluster not in names
        rows.append({
            "cluster": place.cluster, "sequence": stands.sequence, "observed": times.stamp(stands.observed_s),
            "parked": stands.parked, "trouble": _OTHER.format(", ".join(names)) if is_other else "",
        })  # fmt: skip
    known = {row["cluster"] for row in rows}
    nothing = {"sequence": 0, "observed": None, "parked": 0, "trouble": ""}
    rows += [{"cluster": name, **nothing} for name in linked if name not in known]
    for row in rows:
        link = linked.get(row["cluster"])
        quiet_s = None if link is None or link.quiet_seconds < 0 else int(link.quiet_seconds)
        row |= {
            "link": "unknown" if link is None else "up" if link.is_up else "down",
            "quiet_s": quiet_s, "lag": 0 if link is None else link.lag,
            "trouble": (link.trouble if link is not None else "") or row["trouble"],
        }  # fmt: skip
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS)
    if any(row["link"] != "up" or row["parked"] or row["trouble"] for row in rows):
        raise typer.Exit(Exit.UNHEALTHY)
