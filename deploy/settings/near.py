"""The error for an unknown name, with similar existing names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from deploy.errors import AbsentObjectError

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Most names in a message.
SHOWN = 5
#: From here on two names are near each other.
NEAR = 0.6


def absent(kind: str, name: str, known: Iterable[str]) -> AbsentObjectError:
    """The error for a name outside ``known``."""
    there = sorted(set(known))
    near = [
        one
        for one in difflib.get_close_matches(name, there, SHOWN, NEAR)
        # An equal namespace alone makes no name similar.
        if difflib.SequenceMatcher(None, name.split("/")[-1], one.split("/")[-1]).ratio() >= NEAR
    ]
    near += [one for one in there if name and name in one and one not in near][: SHOWN - len(near)]
    if near:
        rest = f"; is it {' or '.join(near)}?"
    elif there:
        # A list of uids does not help after a typing error.
        there = [one for one in there if not _UID.fullmatch(one)] or there
        more = f" and {len(there) - SHOWN:,} more" if len(there) > SHOWN else ""
        rest = f"; there are {', '.join(there[:SHOWN])}{more}"
    else:
        rest = f"; there is no {kind} at all"
    return AbsentObjectError(f"there is no {kind} {name[:80]!r}{rest}")
