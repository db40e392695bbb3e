"""Facts about observation itself: unusable records of a source.

No record of a source is dropped silently: an untranslatable record becomes such a fact, with the reason and a
digest, never with the content (it may hold secrets). A relist follows it, since it could have been a delete.

Source: docs/reliability.md.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact


class ObservationRefused(Fact, frozen=True, kw_only=True):
    """A watch or list record could not be translated. Key: the digest's first 32 characters."""

    wire_type: ClassVar[str] = "observation.refused"

    #: The watched resource, e.g. ``pods``.
    resource: str
    #: The error class and message, without content of the record.
    reason: str
    #: SHA-256 of the raw record, hex.
    digest: str
    #: Size of the raw record in bytes.
    size_bytes: int


class ObjectsListed(Fact, frozen=True, kw_only=True):
    """All objects of a kind with a uid in [``first``, ``until``) at one moment, like ``pods.listed`` for pods.

    Such a list is evidence for releasing charges of missing or smaller objects (docs/reliability.md). The event's ``time``
    is the moment of the list's request. Key: ``<kind>-<resource version>-<part>``.
    """

    wire_type: ClassVar[str] = "objects.listed"

    kind: str
    resource_version: str = ""
    first: str = ""
    until: str = ""
    uids: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1


class SourceHeard(Fact, frozen=True, kw_only=True):
    """Heartbeat of a source: its watch continues an accepted list and is alive at the event's ``time``.

    An observed object without a reported delete still exists at that time. Each source publishes heartbeats at a
    bounded rate. Key: the resource.
    """

    wire_type: ClassVar[str] = "source.heard"

    #: The watched resource, e.g. ``pods``.
    resource: str
    #: The last version of its reported changes.
    resource_version: str = ""
    #: Offset from the source's own clock to the API server's, microseconds; 0 up to two seconds.
    offset_us: int = 0
