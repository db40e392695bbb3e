"""The journal of a quota tree: every event with an effect on its charges or limits.

One tree is one line of events under `bursar.<cluster>.admission.*.<tree>`, and each is appended with the expected
last sequence of that subject. So every decision depends on all before it, whichever process made it, and ``number``
counts them without a gap. Raw observations only *lower* charges, and only through an event of this journal: a late
reader may refuse too much for a moment and never admits too much.

Source: docs/architecture.md (admission); docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events.quotas import NamespaceRequirement, Queue
from bus.events.vocabulary import Fact

#: Largest amount in the ledger's tables and views: 64 bits.
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

#: Decisions of one append. Each is some hundred bytes; a batch of the server's cap would make the first wait for the last.
MAX_BATCH = 200


class Deficit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key that rejects a request, with its numbers in the key's unit (cpu milli, others whole).

    ``used`` + ``asked`` exceeds ``limit``. Spent budgets and missing container values have ``asked`` 0.
    """

    key: str
    asked: int
    used: int
    limit: int
    #: The part of ``used`` in the requester's own namespace; the rest belongs to others or to child quotas.
    own: int = 0
    #: Of ``must-specify``: the containers without a value for it, the only fault.
    containers: tuple[str, ...] = ()


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    """A child of an owner. The owner's charge is raised for it."""

    kind: str
    name: str
    uid: str
    #: resourceVersion before its change; "" for a create.
    version: str = ""
    #: Its own controller, and its count there; every webhook process counts it until it is observed.
    owner: str = ""
    counts: dict[str, Amount] = {}


class Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """The remaining charge of an owner deleted without its children."""

    uid: str
    charge: dict[str, Amount] = {}


class Basis(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further inputs of a decision, for deriving it again. The other inputs are the entry and the earlier journal.

    It is bounded and contains no text of the object. An adopted object has ``read`` and ``live``. A queue's release has
    ``mapped_only`` and ``window``.
    """

    #: The last event read when the quota was found.
    read: Amount = 0
    #: The label of the quota: ``business`` or ``elastic`` of the object; ``seen``, its own last observed one, or
    #: that of the charged owner; "" for the namespace's.
    label: str = "business"
    #: A quota without namespaces serves mapped ones only: the setting ``admission.require_namespaces``.
    mapped_only: bool = False
    #: Why it was refused before any quota was asked; "" = it was not.
    refusal: str = ""
    #: Of a scale: how many replicas it asks for.
    replicas: Amount | None = None
    #: The demand of its children, by quota key.
    live: dict[str, Amount] = {}
    #: Of ``must-specify``: the keys without a value in containers. The deficits name the containers.
    unstated: tuple[str, ...] = ()
    #: It was suspended, and its user starts it.
    is_resumed: bool = False
    #: The garbage collector takes it from its owner.
    is_orphaned: bool = False
    #: In an elastic quota: its limit for each rising key, from a capacity divided anew at each tick.
    limits: dict[str, int] | None = None
    #: Of a release: how many might be released and not started then; 0 in histories of a fixed window.
    window: Amount = 0


class AdmissionDecided(Fact, frozen=True, kw_only=True):
    """The answer to an object's request for ``demand`` as a whole. Key: the tree.

    ``charge`` is the quota's charge for the object (uid) from now on, by quota key. It is never a difference, so a
    repeated request charges once. ``verdict``: ``admitted``; ``refused`` (nothing changes); ``adopted``: an existing
    object, not admitted with this amount, is charged without a check.
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
    #: Uid of the first one in the queue when this one was released before it; "" if it passed none.
    passed: str = ""
    #: The last sequence of the journal known at the decision; of a release: of the whole history.
    based_on: Amount = 0
    #: Uid of the review; "" where nobody asked.
    request: str = ""
    operation: str = ""
    #: resourceVersion of the stored object before the change; "" for a create. It lands on that one or never.
    resource_version: str = ""
    #: It changes one replica's demand, or its charged quota: a scale's demand is known once it is observed.
    reshapes: bool = False
    #: Of a refused object: the priority class of its pods. "" = none, and in older histories.
    priority_class: str = ""
    #: Uid of its named controller, although it is charged in its own right; "" for none.
    owner: str = ""
    #: Of an owner with a raised charge: the child behind it; None = its own request.
    child: Child | None = None
    #: Of an object released by its owner: the rest of the owner's charge, the other part is the object's.
    left: Left | None = None
    #: None in older histories.
    basis: Basis | None = None


class Release(msgspec.Struct, frozen=True, omit_defaults=True):
    """The charge of a quota for an object from now on; an empty ``charge`` ends it."""

    quota: str
    uid: str
    reason: str
    charge: dict[str, Amount] = {}
    #: Of ``unanswered``: the uid of the review refused before this decision.
    request: str = ""


class ChargeEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The observations behind an entry. For a fallen charge: those behind its amount."""

    #: The last event read.
    read: Amount = 0
    #: Its quota and its demand; nothing for a gone object, or one with a charged owner.
    quota: str = ""
    demand: dict[str, int] = {}
    types: dict[str, str] = {}
    #: The time of that observation, and of a complete list with it; its resourceVersion then. 0 and "" if it does
    #: not count.
    seen_us: int = 0
    listed_us: int = 0
    version: str = ""
    #: The demand of its children.
    live: dict[str, int] = {}
    #: Uid of the responsible owner, "" for an unobserved one; None = without an owner.
    holder: str | None = None
    #: A delete was observed, or a list without it; or only a list without it, requested at ``listed_us``.
    is_gone: bool = False
    is_absent: bool = False
    #: Its charge was raised for an unobserved child.
    is_raised: bool = False
    #: Quotas with a last request observed as landed before.
    confirmed: tuple[str, ...] = ()
    #: Of ``unanswered``: the number of the withdrawn decision, and the charge before it.
    number: Amount = 0
    before: dict[str, Amount] = {}
    #: Requests from before, still able to land below it.
    awaited: dict[str, int] = {}


class AdmissionReleased(Fact, frozen=True, kw_only=True):
    """Charges were released, each with the observation as its reason. Key: the tree.

    Reasons: ``vanished`` (a delete was observed), ``lapsed`` (absent from a complete list requested after the API
    server's deadline), ``shrunk`` (observed with less), ``moved`` (observed in another quota), ``finished``
    (observed as ended: it never holds anything again), ``covered`` (its owner is charged for it),
    ``unanswered`` (its decision was stored after the asker had been refused). A charge that is left with
    ``vanished`` or ``lapsed`` is for pods that still end. Of a queue: ``returning`` (the workload passed the
    head and has to wait again; its charge stays until it was observed stopped) and ``returned`` (observed stopped).
    """

    wire_type: ClassVar[str] = "admission.released"

    number: Amount
    releases: tuple[Release, ...]
    based_on: Amount = 0
    #: None for a queue's, and in older histories.
    evidence: ChargeEvidence | None = None


class QuotaSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a quota. Amounts: cpu in milli, others whole; ``cash`` in unit·seconds of the ledger."""

    hard: dict[str, Amount] = {}
    cash: dict[str, int] = {}
    min: dict[str, int] = {}
    max: dict[str, Amount] = {}
    weight: dict[str, int] = {}
    lends: bool = True
    is_parent: bool = False
    #: ``Warn``, ``DenyNew`` or ``GraceThenEvict``.
    exhaustion: str = "DenyNew"
    #: Its own namespaces, besides those of ``selector``; without both = those of the parent quota, else any without
    #: a mapping to another quota.
    namespaces: tuple[str, ...] = ()
    selector: tuple[NamespaceRequirement, ...] = ()
    #: Why the object cannot be used; nothing is admitted under it then. "" = it can.
    problem: str = ""
    #: The waiting rule of suspendable workloads.
    queue: Queue = Queue()
    #: A container without a limit is charged by its request instead of being refused.
    charges_requests: bool = False


class QuotaDeclared(Fact, frozen=True, kw_only=True):
    """A quota stands in the tree with these limits, or has left it (``spec`` None). Key: the tree.

    ``stage`` ``asked``: a review was answered, the object may or may not be stored. Until ``observed``, the stricter
    limit applies to children and workloads, the larger to the parent. Rejected requests change nothing.
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
    #: Of ``observed``: the earlier requests are settled by it. False while one may still land.
    settles: bool = True
    deficits: tuple[Deficit, ...] = ()
    #: Keys of a refusal without numbers.
    keys: tuple[str, ...] = ()
    based_on: Amount = 0
    request: str = ""
    #: Of ``asked``; "" in older histories.
    operation: str = ""
    #: Of an update: the parent in the stored object.
    old_parent: str = ""
    #: Of ``observed``: how far the history was read, and when the object was seen so.
    evidence: ChargeEvidence | None = None


class Meter(msgspec.Struct, frozen=True, omit_defaults=True):
    """The spending of a budget: ``spent`` + ``rate`` × (t - ``at_s``) at second t, until it is metered again.

    At ``resets_s``, if set, a new period begins: spending restarts from 0 at the same rate.
    """

    quota: str
    key: str
    spent: int
    rate: int
    at_s: int
    #: The entries' addition to the quota's cash in this period.
    credits: int = 0
    #: When the period ends; 0 = never.
    resets_s: int = 0
    #: Between explicit windows there is no budget at all.
    is_granted: bool = True


class TreeMetered(Fact, frozen=True, kw_only=True):
    """External inputs of a tree: the spending of budgets and, for elastic trees, the cluster's capacity.

    Only changed meters are in it; ``total`` None means unchanged. Key: the tree.
    """

    wire_type: ClassVar[str] = "admission.metered"

    number: Amount
    meters: tuple[Meter, ...] = ()
    total: dict[str, int] | None = None
    based_on: Amount = 0
    #: Of the capacity: how far the history was read.
    evidence: ChargeEvidence | None = None


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
    """The journal entries in ``event``: each decision of a group as an event of its own, else itself.

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


#: The parts of a tree's journal, taken apart.
JOURNAL = (AdmissionDecided, AdmissionReleased, QuotaDeclared, TreeMetered)
