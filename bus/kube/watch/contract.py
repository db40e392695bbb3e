"""The contract of a source, and the requests of a loop to a cluster. The adapter :mod:`bus.kube.client` implements
the second; tests implement it with a cluster of their own.

API server refusals are defined here too: HTTP statuses and ERROR events of a watch share their codes.

Source: Kubernetes API concepts ("Efficient detection of changes", "Retrieving large results sets in
chunks").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import msgspec

from bus.errors import (
    BursarError,
    ClusterUnavailableError,
    ObservationError,
    PermanentError,
    PermissionDeniedError,
)
from bus.events.vocabulary import Fact
from bus.kube.watch.records import Translate, uid_of


class GoneError(PermanentError):
    """The version or the continuation is not known any more.

    List again from the beginning: the watch has lost the events since then.
    """


class NotInstalledError(PermanentError):
    """The API server does not know this kind.

    Look again after minutes: custom kinds may be installed at any time. For a built-in kind, the server is not an
    API server of a cluster.
    """


class AnswerTooLargeError(ObservationError):
    """The answer is larger than a page may be.

    Ask for fewer objects at once.
    """


class Polling(msgspec.Struct, frozen=True):
    """How a kind without watch is followed: a complete read at this interval."""

    seconds: float
    #: Given a uid and a time: the event of a deletion of that object.
    gone: Callable[[str, int], bytes]


class Source(msgspec.Struct, frozen=True):
    """One listed and watched kind of object."""

    #: The plural, as permissions and status name it, e.g. ``pods``.
    name: str
    #: Where the API server serves all of them, e.g. ``/api/v1/pods``; with a query where only some are followed.
    path: str
    translate: Translate
    #: Publish every version, as evidence. Otherwise a version without other differences is dropped.
    every_version: bool = False
    #: Makes the fact of a complete list, also published, so unobserved deletions are closed. None = not published.
    list_fact: Callable[..., Fact] | None = None
    #: Publish the periodic lists too. They are the larger part of a quiet history.
    says_every_list: bool = False
    #: Its objects are bound to one node (``node`` of the body) for ever: a move is doubted.
    is_bound: bool = False
    #: The Kubernetes kind; "" for pods, whose lists name no kind.
    kind: str = ""
    #: A custom kind: where it is not installed, there is nothing to follow.
    is_optional: bool = False
    #: Followed only while the policy of a reactor reads it: it is large, and everything published is stored.
    on_demand: bool = False
    #: None = it is watched.
    polling: Polling | None = None
    #: For an object with a refused record: the fact of its readable parts. None = unsupported.
    translate_partly: Translate | None = None
    #: The uid of an object with a refused record; "" where it is unreadable.
    uid_of: Callable[[bytes], str] = uid_of


class ReflectorSettings(msgspec.Struct, frozen=True):
    """The waits and limits of a reflector. Seconds, unless the name says otherwise."""

    #: Objects of one page of a list. 500 as kubectl and client-go have it: more holds etcd up.
    page_size: int = 500
    #: Events of one publish.
    window_events: int = 500
    #: Shortest time between two publishes: the first of many events is not late, the others share the
    #: next one.
    linger_seconds: float = 0.06
    #: For urgent sources: publish again once the duration of the last publish has passed, if sooner. A calm watch
    #: is published at once, a busy one in batches.
    is_urgent: bool = False
    #: The API server sends a bookmark about every minute; longer silence means a dead connection.
    silence_seconds: float = 75.0
    #: Longest time between two lists. It bounds how long an unseen delete stays unknown.
    relist_seconds: float = 600.0
    #: Shortest time between two lists out of turn: bounds the load a tenant can cause.
    apart_seconds: float = 10.0
    #: Shortest time between two heartbeats of a live source. Just below a minute, the bookmark interval of the API
    #: server.
    heartbeat_seconds: float = 45.0
    #: First wait after a failure; it doubles up to ``longest_wait_seconds``.
    wait_seconds: float = 1.0
    longest_wait_seconds: float = 30.0
    #: How long a permission may be missing (a role is being replaced) before the loop ends.
    denied_seconds: float = 60.0
    #: An empty list after at least this many known objects is not accepted at once.
    emptied_from: int = 20


class ReflectorState(msgspec.Struct):
    """The state of a reflector in ``bursar status``. Counters since its start."""

    version: str = ""
    #: When something was last heard of the API server, and when the last complete list was asked
    #: for.
    heard_us: int = 0
    listed_us: int = 0
    #: Offset from this machine's clock to the API server's, microseconds.
    offset_us: int = 0
    #: Lists asked for, by reason.
    relists: Counter[str] = msgspec.field(default_factory=Counter)
    published: int = 0
    #: Records without translation (0 is right), versions repeated or without news, versions gone back.
    refused: int = 0
    skipped: int = 0
    stale: int = 0
    unknown: int = 0
    #: Objects first told of by a change or a delete: their beginning was not seen (A6, A8).
    late: int = 0
    #: Records with a bound object on another node; a confirming list publishes them (A22).
    moved: int = 0
    #: When the kind was last found not to be installed; it is not, while this is later than ``heard_us``.
    absent_us: int = 0
    #: Refused objects of the newest list: name to reason, the first hundred, and their number (0 is right). Device
    #: claims among them are charged by their readable parts. Others are in no row of the ledger.
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    unread_count: int = 0
    #: Why nothing is published, where a clock is wrong by years; "" where it is not.
    wrong_clock: str = ""
    #: The current obstacle of the reflector; "" while it works.
    trouble: str = ""

    @property
    def is_absent(self) -> bool:
        """Whether there is nothing to follow, as the kind is not installed."""
        return self.absent_us > self.heard_us


class Page(msgspec.Struct, frozen=True):
    """One page of a list. ``items`` are raw JSON objects."""

    items: list[bytes]
    #: The list's resourceVersion, the same on all its pages.
    version: str
    #: Token of the next page; "" on the last one.
    following: str = ""
    #: How many items the server says are still to come.
    remaining: int = 0


class Cluster(Protocol):
    """An API server. Its errors: ClusterUnavailableError (try again), PermissionDeniedError,
    GoneError.
    """

    async def page(
        self, path: str, *, limit: int, following: str = "", metadata_only: bool = False
    ) -> Page:
        """The objects under ``path`` as of now, ``limit`` at a time (0 = all at once), consistently
        read. With ``metadata_only`` an item need not have more than its metadata.

        Raises GoneError when ``following`` has expired, MalformedJsonError when the answer is no
        list, AnswerTooLargeError when it is too much at once.
        """
        ...

    def watch(self, path: str, *, version: str) -> AsyncGenerator[list[bytes]]:
        """Changes after ``version``, as they arrive: lists of whole lines of JSON, with bookmarks
        among them.

        Ends with the server's stream, without a line cut by the end. The caller limits the silence.
        """
        ...


def refusal(
    code: int, *, verb: str, resource: str, delay_seconds: float = 1.0, resumed: bool = False
) -> BursarError:
    """The error for status ``code`` of an API server, for ``verb`` on ``resource``.

    ``resumed``: the request carried a version or a continuation. A 400 may be about it.
    """
    if code in (401, 403):
        return PermissionDeniedError(permission=f"{verb} {resource}", status=code)
    if code == 404:
        return NotInstalledError(resource=resource)
    if code == 410 or (code == 400 and resumed):
        return GoneError(status=code)
    return ClusterUnavailableError(
        status=code, request=f"{verb} {resource}", delay_seconds=min(max(delay_seconds, 0.0), 300.0)
    )


def resource_of(path: str) -> str:
    """The resource under an API path, as permissions name it: ``pods``, ``deployments.apps``."""
    parts = path.partition("?")[0].strip("/").split("/")
    return f"{parts[-1]}.{parts[1]}" if parts[0] == "apis" else parts[-1]
