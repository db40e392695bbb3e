"""A caller limited to one namespace, while its question is answered: the answer depends on nothing outside of it.

The number of the newest event, parked events and similar names belong to the whole cluster, so they are left out.

Source: docs/operating.md, "Remote queries".
"""

from __future__ import annotations

import msgspec


class KeptScope(msgspec.Struct, frozen=True):
    """The cluster and the namespace to which a caller is limited."""

    cluster: str
    namespace: str


#: Of the only question of a process; None = the caller may ask about everything.
caller: KeptScope | None = None
