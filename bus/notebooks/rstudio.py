"""RStudio Server: only by the traffic of its sidecar, as it has no endpoint for activity.

Its own ``session-timeout-minutes`` suspends sessions, and terminals are no activity to it; so without a sidecar an
RStudio is unknown here, and only GPU and CPU give evidence.

Source: docs/culling.md; Posit, RStudio Server administration guide, "Session timeout".
"""

from __future__ import annotations

from bus.notebooks.contract import EvidenceKind, Peer, Request
from bus.notebooks.traffic import reads


def asks(peer: Peer) -> tuple[Request, ...]:
    """Nothing of its own: the traffic is asked for wherever there is a sidecar."""
    return ()


kind = EvidenceKind("rstudio", asks, reads, images=("*rstudio*",))
