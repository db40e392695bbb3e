"""RStudio Server: by the traffic of its sidecar alone, for it has no endpoint that tells activity.

Its own ``session-timeout-minutes`` suspends sessions, and terminals are no activity to it; so without a sidecar an RStudio
is unknown here, and GPU and CPU are all that speaks.

Source: docs/culling.md; Posit, RStudio Server administration guide, "Session timeout".
"""

from __future__ import annotations

from bus.notebooks.contract import Kind, Peer, Request
from bus.notebooks.traffic import reads


def asks(peer: Peer) -> tuple[Request, ...]:
    """Nothing of its own: the traffic is asked for wherever there is a sidecar."""
    return ()


kind = Kind("rstudio", asks, reads, images=("*rstudio*",))
