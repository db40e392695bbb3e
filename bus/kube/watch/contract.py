"""What a source is, and what a loop may ask of a cluster. The adapter :mod:`bus.kube.client` keeps the
second; tests keep it with a cluster of their own.

Here too, in one place, is what an API server's refusal means: as an HTTP status and as an ERROR
event of a watch it is the same code.

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

    List again from the beginning: what happened in between cannot be watched any more.
    """


class NotInstalledError(PermanentError):
    """The API server does not know this kind.

    Look again after minutes: custom kinds may be installed at any time. Where the kind is no custom one, what answers
    is no API server of a cluster.
    """


class AnswerTooLargeError(ObservationError):
    """The answer is larger than a page may be.

    Ask for fewer objects at once.
    """


class Polling(msgspec.Struct, frozen=True):
    """How a kind is followed that cannot be watched: all of it is read so often."""

    seconds: float
    #: Of a uid and a moment: what a deletion of that object would have reported.
    gone: Callable[[str, int], bytes]


class Source(msgspec.Struct, frozen=True):
    """One kind of object that is listed and watched."""

    #: The plural, as permissions and status name it, e.g. ``pods``.
    name: str
    #: Where the API server serves all of them, e.g. ``/api/v1/pods``; with a query where only some are followed.
    path: str
    translate: Translate
    #: Every version is evidence and is published. Otherwise one that differs by its version only is left
    #: out.
    every_version: bool = False
    #: Makes the fact of a complete list, which is published too, so that what disappeared unseen is closed. None = they are not.
    list_fact: Callable[..., Fact] | None = None
    #: Also those that nobody asked for. They are the larger part of a quiet history.
    says_every_list: bool = False
    #: Its objects are bound to a node (``node`` of the body), once and for ever: one that moves is
    #: doubted.
    is_bound: bool = False
    #: The Kubernetes kind; "" for pods, whose lists name no kind.
    kind: str = ""
    #: A custom kind: where it is not installed, there is nothing to follow.
    is_optional: bool = False
    #: Followed only while the policy of a reactor reads it: there is much of it, and all that is published is kept.
    on_demand: bool = False
    #: None = it is watched.
    polling: Polling | None = None
    #: Of an object whose record was refused: the fact of its readable parts. None = it has none.
    translate_partly: Translate | None = None
    #: The uid of an object whose record was refused; "" where it cannot be read.
    uid_of: Callable[[bytes], str] = uid_of


class ReflectorSettings(msgspec.Struct, frozen=True):
    """How a reflector waits and how much it takes at once. Seconds, unless the name says
    otherwise.
    """

    #: Objects of one page of a list. 500 as kubectl and client-go have it: more holds etcd up.
    page_size: int = 500
    #: Events of one publish.
    window_events: int = 500
    #: Shortest time between two publishes: the first of many events is not late, the others share the
    #: next one.
    linger_seconds: float = 0.06
    #: Of what somebody waits for: publish again once as long has passed as the last publish took, if that is sooner. So a
    #: calm watch is heard at once, and a busy one shares its publishes.
    is_urgent: bool = False
    #: The API server sends a bookmark about every minute; longer silence means a dead connection.
    silence_seconds: float = 75.0
    #: Longest time between two lists. It bounds how long an unseen delete stays unknown.
    relist_seconds: float = 600.0
    #: Shortest time between two lists that are asked for out of turn: what a tenant can cause is
    #: bounded.
    apart_seconds: float = 10.0
    #: Shortest time between two words of a source that it is still being told. Just below a minute, as that is how often
    #: the API server sends bookmarks.
    heartbeat_seconds: float = 45.0
    #: First wait after a failure; it doubles up to ``longest_wait_seconds``.
    wait_seconds: float = 1.0
    longest_wait_seconds: float = 30.0
    #: How long a permission may be missing (a role is being replaced) before the loop ends.
    denied_seconds: float = 60.0
    #: An empty list after at least this many known objects is not accepted at once.
    emptied_from: int = 20


class ReflectorState(msgspec.Struct):
    """What ``bursar status`` shows of a reflector. Counters since its start."""

    version: str = ""
    #: When something was last heard of the API server, and when the last complete list was asked
    #: for.
    heard_us: int = 0
    listed_us: int = 0
    #: What is added to this machine's clock to have the API server's, microseconds.
    offset_us: int = 0
    #: Lists asked for, by reason.
    relists: Counter[str] = msgspec.field(default_factory=Counter)
    published: int = 0
    #: Records that could not be translated (0 is right), versions seen twice or without news,
    #: versions gone back.
    refused: int = 0
    skipped: int = 0
    stale: int = 0
    unknown: int = 0
    #: Objects first told of by a change or a delete: their beginning was not seen (A6, A8).
    late: int = 0
    #: Records that showed a bound object on another node; what a list confirms is published then (A22).
    moved: int = 0
    #: When the kind was last found not to be installed; it is not, while this is later than ``heard_us``.
    absent_us: int = 0
    #: Objects of the newest list whose records were refused: name to reason, the first hundred, and how many they are
    #: (0 is right). Claims of devices among them are charged by what can be read, others are in no row of the ledger.
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    unread_count: int = 0
    #: Why nothing is published, where a clock is wrong by years; "" where it is not.
    wrong_clock: str = ""
    #: What keeps the reflector from its work now; "" while it works.
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

        Ends when the server ends it; a line that was cut by the end is not given. The caller limits
        the silence.
        """
        ...


def refusal(
    code: int, *, verb: str, resource: str, delay_seconds: float = 1.0, resumed: bool = False
) -> BursarError:
    """What a status ``code`` of an API server means for ``verb`` on ``resource``.

    ``resumed``: the request carried a version or a continuation, which a 400 may be about.
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
