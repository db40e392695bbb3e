"""The journal of a quota tree: everything that may raise what is held in it, or lower what may be held.

One tree is one line of events under `bursar.<cluster>.admission.*.<tree>`, and each is appended
with the expected last sequence of that subject. So every decision stands on all that stand before
it, whichever process made it, and ``number`` counts them without a gap. Raw observations only
*lower* what is held, and only through an event of this journal; that is why a process which reads
late may refuse too much for a moment and never admits too much.

Source: docs/architecture.md (admission); docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events.quotas import Queue, Requirement
from bus.events.vocabulary import Fact

#: What the ledger's tables and views hold: 64 bits.
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

#: Decisions of one append. Each is some hundred bytes; a batch of the server's cap would make the first wait for the last.
MAX_BATCH = 200


class Deficit(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a key refuses: ``used`` + ``asked`` > ``limit``, all in the key's unit (cpu milli, others whole)."""

    key: str
    asked: int
    used: int
    limit: int
    #: Of ``used``, what the asker's own namespace holds; the rest belongs to others or to child quotas.
    own: int = 0
    #: Of ``must-specify``: the containers that state nothing of it, which is all that is wrong.
    containers: tuple[str, ...] = ()


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    """What hangs below an owner, for which the owner's charge is raised."""

    kind: str
    name: str
    uid: str
    #: resourceVersion that its change would change; "" for a create.
    version: str = ""
    #: Its own controller, and what it counts there; every webhook process counts it until it is seen.
    owner: str = ""
    counts: dict[str, Amount] = {}


class Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the quota holds from now on for an owner that is deleted without its children."""

    uid: str
    charge: dict[str, Amount] = {}


class Basis(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a review was decided on, beside the entry's own fields and the journal before it. It decides the same again.

    Bounded, and without anything of the object that is no amount. Of what is adopted: how far the history was read, and what
    its children ask for. Of what a queue released: ``mapped_only``, where that is set, and ``window``.
    """

    #: The last event of the history that was read when the quota was found.
    read: Amount = 0
    #: Which label names the quota: ``business`` or ``elastic`` of the object; ``seen``, one that it, or the owner that is
    #: charged, was last seen with; "" where the namespace does.
    label: str = "business"
    #: A quota that names no namespaces serves mapped ones only: the setting ``admission.require_namespaces``.
    mapped_only: bool = False
    #: Why it was refused before any quota was asked; "" = it was not.
    refusal: str = ""
    #: Of a scale: how many replicas it asks for.
    replicas: Amount | None = None
    #: What its children ask for, by quota key.
    live: dict[str, Amount] = {}
    #: Of ``must-specify``: the keys of which containers state nothing. The deficits name the containers.
    unstated: tuple[str, ...] = ()
    #: It was suspended, and its user starts it.
    is_resumed: bool = False
    #: The garbage collector takes it from its owner.
    is_orphaned: bool = False
    #: In an elastic quota: what it may use of each key that rises, of a capacity that is divided anew at each tick.
    limits: dict[str, int] | None = None
    #: Of a release: how many might be released and not started then; 0 in histories of a fixed window.
    window: Amount = 0


class AdmissionDecided(Fact, frozen=True, kw_only=True):
    """An object asks for ``demand`` as a whole, and this is the answer. Key: the tree.

    ``charge`` is what the quota holds for the object (uid) from now on, by quota key: never a
    difference, so the same ask twice charges once. ``verdict``: ``admitted``; ``refused`` (nothing
    changes); ``adopted``: it was there without having been asked for, and is charged unchecked.
    """

    wire_type: ClassVar[str] = "admission.decided"

    number: Amount
    quota: str
    uid: str
    kind: str
    namespace: str
    name: str
    verdict: str
    #: A stable token: ``fits``, ``fewer``, ``raised``, ``orphaned``, ``released``, ``over-quota``, ``budget-exhausted`` …
    reason: str
    demand: dict[str, int] = {}
    types: dict[str, str] = {}
    charge: dict[str, Amount] = {}
    deficits: tuple[Deficit, ...] = ()
    #: Uid of the one that was first in the queue when this one was released before it; "" where it passed nobody.
    passed: str = ""
    #: The last sequence of the journal that the decider knew; of a release: of the whole history.
    based_on: Amount = 0
    #: Uid of the review; "" where nobody asked.
    request: str = ""
    operation: str = ""
    #: resourceVersion of the stored object that the ask would change; "" for a create. It lands on that one or never.
    resource_version: str = ""
    #: It changes what one replica asks for, or where that is charged: what a scale asks for is known when it is seen.
    reshapes: bool = False
    #: Of what was refused: the priority class that its pods name. "" = none, and in histories that did not say it.
    priority_class: str = ""
    #: Uid of the controller that it named, although it is charged in its own right; "" for none.
    owner: str = ""
    #: Of an owner whose charge is raised: for which of its children; None = it asks for itself.
    child: Child | None = None
    #: Of an object whose owner goes without it: what of the owner's charge is left, the rest is the object's.
    left: Left | None = None
    #: None in histories that did not say it.
    basis: Basis | None = None


class Release(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a quota holds for an object from now on; nothing where ``charge`` is empty."""

    quota: str
    uid: str
    reason: str
    charge: dict[str, Amount] = {}
    #: Of ``unanswered``: the uid of the review whose asker was refused before this was decided.
    request: str = ""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was observed when an entry was made of it: of an object whose charge fell, as far as it decided how much."""

    #: The last event of the history that was read.
    read: Amount = 0
    #: Where it belongs and what it asks for; nothing where it is gone, or its owner is charged.
    quota: str = ""
    demand: dict[str, int] = {}
    types: dict[str, str] = {}
    #: When it was seen so, and in a complete list; its resourceVersion then. 0 and "" where that does not count.
    seen_us: int = 0
    listed_us: int = 0
    version: str = ""
    #: What its children ask for.
    live: dict[str, int] = {}
    #: Uid of the object that answers for it, "" where that was not seen; None = it answers for itself.
    holder: str | None = None
    #: A delete was seen, or a list without it; or only a list without it that was asked for at ``listed_us``.
    is_gone: bool = False
    is_absent: bool = False
    #: Its charge was raised for a child that was not seen yet.
    is_raised: bool = False
    #: Quotas of which the last ask was seen to have landed before.
    confirmed: tuple[str, ...] = ()
    #: Of ``unanswered``: the number of the decision that is taken back, and what was charged before it.
    number: Amount = 0
    before: dict[str, Amount] = {}
    #: What may still land below it because it asked for it before.
    awaited: dict[str, int] = {}


class AdmissionReleased(Fact, frozen=True, kw_only=True):
    """Charges were given back, each because of what was observed. Key: the tree.

    Reasons: ``vanished`` (a delete was seen), ``lapsed`` (absent from a complete list that began
    after the API server's deadline), ``shrunk`` (seen with less), ``moved`` (seen in another quota),
    ``finished`` (seen ended: it will never hold anything again), ``covered`` (its owner is charged for it),
    ``unanswered`` (its decision was stored after the asker had been refused). A charge that is left with
    ``vanished`` or ``lapsed`` is for pods that still end. Of a queue: ``returning`` (it passed the head and is
    to wait again; it holds what it held until it is seen to have stopped) and ``returned`` (seen so).
    """

    wire_type: ClassVar[str] = "admission.released"

    number: Amount
    releases: tuple[Release, ...]
    based_on: Amount = 0
    #: None of a queue's, and in histories that did not say it.
    evidence: Evidence | None = None


class QuotaSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a quota limits. Amounts: cpu in milli, others whole; ``cash`` in unit·seconds of the ledger."""

    hard: dict[str, Amount] = {}
    cash: dict[str, int] = {}
    min: dict[str, int] = {}
    max: dict[str, Amount] = {}
    weight: dict[str, int] = {}
    lends: bool = True
    is_parent: bool = False
    #: ``Warn``, ``DenyNew`` or ``GraceThenEvict``.
    exhaustion: str = "DenyNew"
    #: Namespaces that it serves, beside those that ``selector`` selects; none of both = those of the quota above, else any
    #: that is mapped to no other quota.
    namespaces: tuple[str, ...] = ()
    selector: tuple[Requirement, ...] = ()
    #: Why the object cannot be used; nothing is admitted under it then. "" = it can.
    problem: str = ""
    #: How what can be suspended waits for it.
    queue: Queue = Queue()
    #: A container without a limit is charged by its request instead of being refused.
    charges_requests: bool = False


class QuotaDeclared(Fact, frozen=True, kw_only=True):
    """A quota stands in the tree with these limits, or has left it (``spec`` None). Key: the tree.

    ``stage`` ``asked``: a review was answered, the object may or may not be stored. Then the
    stricter of both limits counts for what is below and the larger for the parent, until
    ``observed`` settles it. A refused ask changes nothing.
    """

    wire_type: ClassVar[str] = "admission.declared"

    number: Amount
    quota: str
    uid: str
    #: ``BizGroupResourceQuota`` or ``ElasticQuota``.
    kind: str
    parent: str
    stage: str
    verdict: str
    reason: str
    spec: QuotaSpec | None = None
    #: Of ``observed``: what was asked for before is decided by it. False while that may still land.
    settles: bool = True
    deficits: tuple[Deficit, ...] = ()
    #: Keys that a refusal is about and that have no numbers.
    keys: tuple[str, ...] = ()
    based_on: Amount = 0
    request: str = ""
    #: Of ``asked``; "" in histories that did not say it.
    operation: str = ""
    #: Of an update: the parent that the stored object names.
    old_parent: str = ""
    #: Of ``observed``: how far the history was read, and when the object was seen so.
    evidence: Evidence | None = None


class Meter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a budget has spent: ``spent`` + ``rate`` × (t - ``at_s``) at second t, until it is metered again.

    From ``resets_s`` on, if that is set, a new period counts: what is held goes on spending, from nothing.
    """

    quota: str
    key: str
    spent: int
    rate: int
    at_s: int
    #: What entries add to the quota's cash in this period.
    credits: int = 0
    #: When the period ends; 0 = never.
    resets_s: int = 0
    #: Between explicit windows there is no budget at all.
    is_granted: bool = True


class TreeMetered(Fact, frozen=True, kw_only=True):
    """What stands against a tree from outside: budgets as they burn, and for elastic trees the capacity.

    Only meters that changed stand in it; ``total`` None means unchanged. Key: the tree.
    """

    wire_type: ClassVar[str] = "admission.metered"

    number: Amount
    meters: tuple[Meter, ...] = ()
    total: dict[str, int] | None = None
    based_on: Amount = 0
    #: Of the capacity: how far the history was read.
    evidence: Evidence | None = None


class AdmissionsGrouped(Fact, frozen=True, kw_only=True):
    """Decisions of one tree that were made one after the other and stored together, in their order. Key: the tree.

    One message is one flush to disk however many wait for it; an atomic batch of messages is staged
    in the server first, which costs tens of flushes. Readers take it apart by :func:`entries`.
    """

    wire_type: ClassVar[str] = "admission.grouped"

    ids: tuple[str, ...]
    decisions: tuple[AdmissionDecided, ...]


def grouped(decisions: Sequence[Event]) -> Event:
    """Decisions of one tree and moment as one event; a single one stays as it is."""
    first = decisions[0]
    if len(decisions) == 1:
        return first
    # As they are: each is encoded once.
    bodies = tuple(msgspec.Raw(one.body) for one in decisions)
    body = msgspec.json.encode({"ids": [one.id for one in decisions], "decisions": bodies})
    return Event(
        first.cluster, AdmissionsGrouped.wire_type, first.key, f"{first.id}+{len(decisions) - 1}",
        first.source, first.time_us, body, AdmissionsGrouped.version,
    )  # fmt: skip


def entries(event: Event) -> tuple[Event, ...]:
    """The entries of a journal that ``event`` carries: each decision of a group as an event of its own, else itself.

    All of a group have its sequence and time. Raises EnvelopeError, UnsupportedVersionError.
    """
    if event.type != AdmissionsGrouped.wire_type or event.defect:
        return (event,)
    group = AdmissionsGrouped.read(event)
    if len(group.ids) != len(group.decisions):
        raise EnvelopeError("a group of decisions without an id for each", id=event.id)
    return tuple(
        Event(
            event.cluster, decision.wire_type, event.key, id, event.source, event.time_us,
            msgspec.json.encode(decision), decision.version, event.sequence,
        )
        for id, decision in zip(group.ids, group.decisions, strict=True)
    )  # fmt: skip


#: What the journal of a tree is made of, taken apart.
JOURNAL = (AdmissionDecided, AdmissionReleased, QuotaDeclared, TreeMetered)
