"""The ledgers of a hub: their list, one common read of all, and the state of each cluster's link.

A hub's data folder has a folder for each cluster, with a normal ledger in it. Sums over clusters are read from each
and added: a pod, a node and a namespace belong to one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US, SystemClock
from deploy.runtime.ledgers import reading
from deploy.settings.place import LedgerPlace

if TYPE_CHECKING:
    from projections import reports

#: Below a hub's data folder: a folder for each cluster, and the hub's own state file.
FOLDER = "clusters"
STATE = "hub.json"
#: A hub writes its state every two seconds.
STALE_SECONDS = 60.0
#: A link silent for longer is down: a cluster sends a tick at least every ten seconds.
QUIET_SECONDS = 60


class ClusterLink(msgspec.Struct):
    """The state of a hub's link to a cluster. ``domain``: of its JetStream.
    ``quiet_seconds``: since its server last answered; -1 = never.

    ``lag``: events on the cluster's server and not here, as last
    reported. ``trouble``: the error that stopped its ledger, or a notice of a silent hub.
    """

    domain: str
    projected: int = 0
    quiet_seconds: float = -1.0
    lag: int = 0
    trouble: str = ""

    @property
    def is_up(self) -> bool:
        """Whether the cluster was heard a short time ago, and its ledger is written."""
        return not self.trouble and 0 <= self.quiet_seconds < QUIET_SECONDS + 1


def is_hub(place: LedgerPlace) -> bool:
    """Whether a place is a hub's folder, as it is now."""
    return place.past is None and (place.data / STATE).exists()


def places(place: LedgerPlace) -> list[LedgerPlace]:
    """The ledgers at a place: those of its clusters if it is a hub's, else its own one."""
    folder = place.data / FOLDER
    if not is_hub(place):
        return [place]
    found = sorted(one for one in folder.iterdir() if (one / "ledger.db").is_file())
    return [
        replace(place, data=one, cluster=one.name, ledger_url=f"sqlite:///{one / 'ledger.db'}")
        for one in found
    ] or [place]


def links(place: LedgerPlace) -> dict[str, ClusterLink]:
    """The hub's report of its clusters, with the silence since then added. Empty if this is no hub's folder."""
    path = place.data / STATE
    try:
        content, written_s = path.read_bytes(), path.stat().st_mtime
    except FileNotFoundError:
        return {}
    found = msgspec.json.decode(content, type=dict[str, ClusterLink])
    age_s = max(SystemClock().now_us() / SECOND_US - written_s, 0.0)
    for link in found.values():
        if link.quiet_seconds >= 0:
            link.quiet_seconds += age_s
        if age_s > STALE_SECONDS and not link.trouble:
            link.trouble = (
                "`bursar hub` says nothing any more: is it running, and has its disk room?"
            )
    return found


@contextmanager
def reading_all(place: LedgerPlace) -> Iterator[dict[str, sa.Connection]]:
    """One consistent read of each ledger of a place, by cluster. A ledger outside a hub has the settings' cluster name."""
    with ExitStack() as stack:
        yield {one.cluster: stack.enter_context(reading(one)) for one in places(place)}


def added(parts: Iterable[list[reports.ReportRow]]) -> list[reports.ReportRow]:
    """The rows of several clusters as one answer: groups of one name are one group."""
    from projections import reports

    found: dict[tuple[Any, ...], reports.ReportRow] = {}
    for rows in parts:
        for row in rows:
            sums = found.setdefault(row.key, reports.ReportRow(row.key, reports.Sums())).sums
            for name in reports.Sums.__struct_fields__:
                setattr(sums, name, getattr(sums, name) + getattr(row.sums, name))
    return list(found.values())
