"""Versions published by a reflector. A list after a watch, or a restart, does not repeat them.

It is bounded by the objects that exist: a vanished object is forgotten, and each complete list
forgets the rest. Saying something twice is harmless (an event's id is its object and version);
saying it for nothing is only waste.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Mapping

import msgspec

from bus.envelope import Event
from bus.events.observations import ObservationRefused
from bus.kube.watch.records import identity

#: Remembered refused records: a record repeated by the watch is published once.
MOST_REFUSALS = 1024


def newer(version: str, than: str) -> bool:
    """Whether one resourceVersion is newer than another, by the order rule of docs/accounting.md.

    Where either is not a plain decimal there is no order: then any other version counts as newer.
    "" is older than all.
    """
    if _plain(version) and _plain(than):
        return (len(version), version) > (len(than), than)
    return bool(version) and version != than


class _Bound(msgspec.Struct):
    node: str | None = None


_bound_decoder = msgspec.json.Decoder(_Bound)


class SeenVersions:
    """Uid to the newest published resourceVersion, and for kinds with a frequent status, the published fact."""

    def __init__(
        self, published: Mapping[str, str], *, every_version: bool, is_bound: bool = False
    ) -> None:
        self._versions = dict(published)
        self._contents: dict[str, bytes] = {}
        self._refusals: dict[str, None] = {}
        #: Versions from a list without objects, still to come from the watch.
        self._awaited: dict[str, str] = {}
        self._every_version = every_version
        #: Uid to node of bound pods; the first list after a start fills it.
        self._nodes: dict[str, str] = {}
        self._is_bound = is_bound

    def __len__(self) -> int:
        return len(self._versions)

    def holds(self, event: Event) -> bool:
        """Whether any version of the object of ``event`` was published."""
        return identity(event)[0] in self._versions

    def moves(self, event: Event) -> bool:
        """Whether ``event`` shows a bound object on another node than before (A22). If not, where it
        is counts as known from now on.

        A delete is an end, not a move, whatever node it names.
        """
        if not self._is_bound or not event.type.endswith(".observed"):
            return False
        node = _bound_decoder.decode(event.body).node
        if node is None:
            return False
        return self._nodes.setdefault(identity(event)[0], sys.intern(node)) != node

    def believe(self, event: Event) -> None:
        """Take the node of ``event`` for the object's own from now on."""
        self._nodes[identity(event)[0]] = sys.intern(_bound_decoder.decode(event.body).node or "")

    def has(self, uid: str, version: str) -> bool:
        """Whether this version of this object was published."""
        return self._versions.get(uid) == version

    def admit(self, event: Event) -> bool:
        """Whether ``event`` says anything new; if so it counts as published from now on."""
        if event.type == ObservationRefused.wire_type:
            return self._admit_refusal(event.id)
        uid, version = identity(event)
        if self._awaited and not newer(self._awaited.get(uid, ""), version):
            self._awaited.pop(uid, None)
        if event.type.endswith(".vanished"):
            self._versions.pop(uid, None)
            self._contents.pop(uid, None)
            self._nodes.pop(uid, None)
            return True
        known = self._versions.get(uid)
        if known == version:
            return False
        # A watch resumed before a list reports events in between: older, and yet news.
        if known is None or newer(version, known):
            self._versions[uid] = version
        return self._every_version or self._changed(event, uid, version)

    def compare(self, versions: Mapping[str, str]) -> bool:
        """Whether a list of uids and versions has no version older than the published ones.

        Newer versions in it are still to come from the watch.
        """
        known = self._versions
        self._awaited = {
            uid: version for uid, version in versions.items() if newer(version, known.get(uid, ""))
        }
        return not any(newer(known.get(uid, ""), version) for uid, version in versions.items())

    @property
    def awaits(self) -> bool:
        """Whether versions of a list are still to come from the watch."""
        return bool(self._awaited)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget every object that is not among ``uids``."""
        for uid in self._versions.keys() - uids:
            del self._versions[uid]
            self._contents.pop(uid, None)
        for uid in self._nodes.keys() - uids:
            del self._nodes[uid]
        for uid in self._awaited.keys() - uids:
            del self._awaited[uid]

    def _changed(self, event: Event, uid: str, version: str) -> bool:
        """Whether the body says anything but another version than the last one of this object
        did.
        """
        body = event.body.replace(b'"resource_version":"%s"' % version.encode(), b"", 1)
        content = hashlib.blake2b(body, digest_size=16).digest()
        if self._contents.get(uid) == content:
            return False
        self._contents[uid] = content
        return True

    def _admit_refusal(self, id: str) -> bool:
        if id in self._refusals:
            return False
        if len(self._refusals) >= MOST_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[id] = None
        return True


def _plain(version: str) -> bool:
    return version.isascii() and version.isdigit() and (version[0] != "0" or version == "0")
