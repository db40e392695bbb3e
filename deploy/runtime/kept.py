"""A caller that is kept to one namespace, while its question is answered: its answer depends on nothing outside of it.

The number of the newest event, parked events and names that are near belong to the whole cluster, so they are left out.

Source: docs/operating.md, "Questions from elsewhere".
"""

from __future__ import annotations

import msgspec


class Kept(msgspec.Struct, frozen=True):
    """The cluster and the namespace that a caller is kept to."""

    cluster: str
    namespace: str


#: Of the only question of a process; None = the caller may ask about everything.
caller: Kept | None = None
