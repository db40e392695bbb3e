"""Complete lists as facts: the objects at one moment, cut into self-contained parts.

Source: docs/architecture.md; docs/wrong-input.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bus.envelope import Event
from bus.events.vocabulary import Fact

#: Bytes of uids in one part; a message of the stream carries 64 KiB.
LARGEST_PART = 48 * 1024


def listed(
    fact: Callable[..., Fact],
    uids: Iterable[str],
    *,
    resource_version: str,
    time_us: int,
    cluster: str,
    source: str,
    name: str = "",
    per_part: int = 1000,
) -> list[Event]:
    """One complete list as events, each complete for its own range of uids. ``fact`` makes the body of one.

    The ranges follow each other without gap or overlap from the open start to the open end, also when the list is
    empty: then one part reports that nothing exists. ``time_us`` is the time of the list request. ``name``
    distinguishes lists of kinds with a shared fact.
    """
    parts = list(_parts(sorted(set(uids)), per_part))
    events = []
    for number, part in enumerate(parts, 1):
        following = parts[number] if number < len(parts) else None
        body = fact(
            resource_version=resource_version,
            first=part[0] if number > 1 else "",
            until=following[0] if following else "",
            uids=tuple(part),
            part=number,
            parts=len(parts),
        )
        events.append(
            body.event(
                cluster=cluster,
                key=f"{name and name + '-'}{resource_version}-{number}",
                id=f"{body.wire_type}/{name and name + '/'}{resource_version}/{time_us}/{number}",
                source=source,
                time_us=time_us,
            )
        )
    return events


def _parts(uids: list[str], per_part: int) -> Iterable[list[str]]:
    part: list[str] = []
    size = 0
    for uid in uids:
        # A uid of another script takes up to six bytes a character once it is escaped.
        size += 6 * len(uid) if not uid.isascii() else len(uid) + 3
        if part and (len(part) == per_part or size > LARGEST_PART):
            yield part
            part, size = [], len(uid) + 3
        part.append(uid)
    yield part
