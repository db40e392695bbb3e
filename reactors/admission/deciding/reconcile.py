"""Reconciles charges with observed objects: charges unadmitted workloads, releases charges of deleted ones. Pure.

The rule of release: a charge falls only on evidence, and only when no request that raised it can
still be on its way into the cluster. Evidence is a delete, or the object observed with less, or its
absence from a complete list. A request is settled when the evidence is younger than it by the API
server's request deadline plus a margin. It is settled earlier when it was *observed* (the object with the requested
amounts) and no other request can have been on its way at the time. Time alone never releases
(docs/reliability.md: `ttl` and `get` over-admit). A watch may be late by that margin.

A controller may make objects by an old request before it notices a smaller one, or a deletion. Such objects may land without a
request. Their amounts are held until such a list (:class:`reactors.admission.coverage.chains.Awaited`).

A charge never falls below the live pods: the pods of a workload may be larger or more than its template now, and they
run on when it is deleted. Growth beyond the charge is charged unchecked, as it exists.

Level-triggered: :func:`settle` compares one object with its grants, for any history, so a
reconciler that was away for a day ends in the same state as one that ran.

Source: docs/architecture.md; docs/wrong-input.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    Basis,
    ChargeEvidence,
    QuotaDeclared,
    QuotaSpec,
    Release,
)
from projections import timelines
from projections.quota_trees import Grant, TreeNode, TreeOverlay, charged
from projections.quota_trees.keys import added, largest, most_of, summed
from projections.quota_trees.shape import LANDED_US
from reactors.admission.deciding.decide import Request, adopt, covers
from reactors.admission.deciding.mapping import SEEN


class LastSeen(msgspec.Struct, frozen=True):
    """A requesting object, as last observed.

    ``quota`` "" = it has none. ``is_gone``: its delete was observed, or a complete list without it; ``quota`` is then its
    last quota, "" if unknown.
    """

    uid: str
    kind: str
    namespace: str
    name: str
    quota: str
    demand: dict[str, int]
    types: dict[str, str]
    seen_us: int
    is_gone: bool = False
    #: resourceVersion of the observation; "" where it does not count.
    version: str = ""
    #: The newest complete list with this observation, or without a deleted object; 0 = none did.
    listed_us: int = 0
    #: It waits in a queue: it is about to be started, with any charge.
    is_held: bool = False
    #: The request of its children (:func:`projections.quota_trees.keys.counted`).
    live: Mapping[str, int] = {}
    #: Uid of its owner, "" if that was not observed; None = it is charged itself.
    holder: str | None = None
    #: Its charge was raised for a child that is not observed yet: until then nothing falls.
    is_raised: bool = False
    #: Pods that may still land below it because of an earlier request.
    awaited: Mapping[str, int] = {}

    @property
    def below(self) -> Mapping[str, int]:
        """The request of its children, with pods that may still land."""
        return added(self.live, self.awaited) if self.awaited else self.live


class Absent(msgspec.Struct, frozen=True):
    """A complete list, requested at ``listed_us``, without the object ``uid``. ``is_raised`` as in :class:`LastSeen`; ``live`` with
    pods that may still land.
    """

    uid: str
    listed_us: int
    live: Mapping[str, int] = {}
    is_raised: bool = False


def settle(
    draft: TreeOverlay,
    evidence: LastSeen | Absent,
    confirmed: Mapping[tuple[str, str], int],
    read: int = 0,
) -> list[AdmissionDecided | AdmissionReleased]:
    """The new entries of a tree's journal from one piece of evidence; empty if they agree.

    ``confirmed``: (quota, uid) to the number of the newest decision whose request was observed in the cluster.
    ``read``: the last event read for it.
    Facts have consecutive numbers from ``draft.number``; none is added to the draft.
    """
    if isinstance(evidence, Absent):
        late = evidence.listed_us - LANDED_US
        found = [g for g in _held(draft, evidence.uid) if g.asked_us <= late]
        return _facts(draft, None, _gone(found, evidence, "lapsed"), _recorded(evidence, read))
    held = _held(draft, evidence.uid)
    if evidence.is_gone:
        # A uid never comes back, so no raise of it can land any more. Objects below it still may.
        adopted = _adopted(draft, evidence, read)
        held = _after(held, adopted)
        plain = msgspec.structs.replace(evidence, version="", listed_us=0)
        if all(_left(g, evidence) == _left(g, plain) for g in held):
            # Nor is it recorded.
            evidence = plain
        return _facts(draft, adopted, _gone(held, evidence, "vanished"), _recorded(evidence, read))
    if evidence.holder is not None:
        # A review admitted its change to another owner, or to none. Until that lands, or cannot any more,
        # it is observed with this one.
        landed = [g for g in held if _is_later(g, evidence) or _is_listed(g, evidence)]
        releases = [Release(g.quota, g.uid, "covered") for g in landed]
        return _facts(draft, None, releases, _recorded(evidence, read))
    if evidence.is_held:
        return []
    is_leaving = any(grant.is_leaving for grant in held)
    adopted = _adopted(draft, evidence, read, is_leaving=is_leaving)
    releases = [
        release
        for grant in _after(held, adopted)
        if (release := _less(draft, grant, evidence, confirmed)) is not None
    ]
    proven = tuple(
        g.quota for g in held if g.number and confirmed.get((g.quota, g.uid), 0) >= g.number
    )
    return _facts(draft, adopted, releases, _recorded(evidence, read, proven))


def _adopted(
    draft: TreeOverlay, seen: LastSeen, read: int, *, is_leaving: bool = False
) -> AdmissionDecided | None:
    """The charge for an object, or for the live pods below it, never admitted with that much."""
    # A deleted or leaving object requests nothing itself; a fresh admission is charged by its own review.
    demand = {} if seen.is_gone or is_leaving else seen.demand
    live = {} if seen.is_raised else summed(seen.live, seen.types)
    if not seen.quota or not (demand or live):
        return None
    request = Request(
        seen.quota, seen.uid, seen.kind, seen.namespace, seen.name, demand, seen.types,
        operation="OBSERVE", live=live, basis=Basis(read, SEEN),
    )  # fmt: skip
    return adopt_seen(draft, request)


def adopt_seen(draft: TreeOverlay, request: Request) -> AdmissionDecided | None:
    """The charge for an observed object, or for the live pods below it; None if that much is charged."""
    return adopt(draft, request, "outgrown" if covers(draft, request) else "ungoverned")


def _after(held: list[Grant], adopted: AdmissionDecided | None) -> list[Grant]:
    """The grants of an object with the adopted amounts: one key of its charge may rise while another falls."""
    if adopted is None:
        return held
    return [
        msgspec.structs.replace(g, charge=adopted.charge) if g.quota == adopted.quota else g
        for g in held
    ]


def shows(grant: Grant, seen: LastSeen) -> bool:
    """Whether this observation proves that no request of the grant is on its way any more: the last one has landed, and was
    the only one, or a complete list shows the object after the API server's deadline for all of them.
    """
    is_listed = seen.listed_us >= grant.asked_us + LANDED_US
    return is_listed or (grant.is_alone and _is_as_asked(grant, seen))


def _is_as_asked(grant: Grant, seen: LastSeen) -> bool:
    """Whether the object was observed, after the grant's last request, with exactly this request."""
    asked = (grant.quota, grant.demand, grant.types)
    is_same = asked == (seen.quota, seen.demand, seen.types)
    return is_same and seen.seen_us >= grant.asked_us and _is_later(grant, seen)


def _is_later(grant: Grant, seen: LastSeen) -> bool:
    """Whether the object was observed in a newer version than the one before the last request's change.

    An update is reviewed for one stored version and lands on that one, or is reviewed again. So an
    observation that was merely received late proves nothing.
    """
    if not grant.version or not seen.version:
        return True
    return timelines.precedes(grant.version, 0, seen.version, 0)


def _is_listed(grant: Grant, seen: LastSeen) -> bool:
    """Whether a complete list showed the object so when the last ask could no longer land."""
    return seen.listed_us >= grant.asked_us + LANDED_US


def _less(
    draft: TreeOverlay, grant: Grant, seen: LastSeen, confirmed: Mapping[tuple[str, str], int]
) -> Release | None:
    """The release of one grant after this observation of the object."""
    node = draft.node(grant.quota)
    if seen.is_raised:
        return None
    is_settled = (
        confirmed.get((grant.quota, grant.uid), 0) >= grant.number
        or _is_listed(grant, seen)
        or (seen.seen_us >= grant.asked_us + LANDED_US and _is_later(grant, seen))
        or (grant.is_same and _is_as_asked(grant, seen))
    )
    if node is None or not is_settled:
        return None
    if seen.quota != grant.quota:
        return Release(grant.quota, grant.uid, "moved" if seen.demand else "finished")
    wanted = largest(charged(seen.demand, seen.types), summed(seen.below, seen.types))
    charge = _fallen(grant, wanted)
    if charge == grant.charge:
        return None
    return Release(grant.quota, grant.uid, "shrunk" if charge else "finished", charge)


def _gone(held: list[Grant], gone: LastSeen | Absent, reason: str) -> list[Release]:
    """The releases of an absent object's grants: everything but the live pods below it, as they still end."""
    left = [(grant, _left(grant, gone)) for grant in held]
    return [Release(g.quota, g.uid, reason, n) for g, n in left if n != g.charge or not n]


def _left(grant: Grant, gone: LastSeen | Absent) -> dict[str, int]:
    """The rest of a grant of an absent object."""
    if gone.is_raised:
        return grant.charge
    if isinstance(gone, Absent) or not (gone.quota or gone.holder):
        below = gone.live if isinstance(gone, Absent) else gone.below
        return _fallen(grant, summed(below, grant.types))
    if not gone.holder and _may_be_of(grant, gone):
        return _fallen(grant, most_of(gone.below, grant.charge))
    if gone.holder or gone.quota != grant.quota:
        # The live pods below it are charged there.
        return {}
    return _fallen(grant, summed(gone.below, gone.types))


def _may_be_of(grant: Grant, gone: LastSeen) -> bool:
    """Whether an object that only a list ended may have got the grant's quota or models before that.

    The change was admitted, for no older version than the last observed one. The pods below are charged in both
    quotas, and as every charged model.
    """
    return bool(gone.listed_us and grant.number) and not _is_later(grant, gone)


def _fallen(grant: Grant, wanted: Mapping[str, int]) -> dict[str, int]:
    charge = {key: min(n, wanted.get(key, 0)) for key, n in grant.charge.items()}
    return {key: n for key, n in charge.items() if n}


def _held(draft: TreeOverlay, uid: str) -> list[Grant]:
    quotas = sorted(draft.tree.holders.get(uid, ()))
    return [grant for quota in quotas if (grant := draft.grant(quota, uid)) is not None]


def _facts(
    draft: TreeOverlay,
    adopted: AdmissionDecided | None,
    releases: list[Release],
    evidence: ChargeEvidence,
) -> list[AdmissionDecided | AdmissionReleased]:
    facts: list[AdmissionDecided | AdmissionReleased] = [adopted] if adopted is not None else []
    if releases:
        number = draft.number + len(facts)
        facts.append(
            AdmissionReleased(
                number=number,
                releases=tuple(releases),
                based_on=draft.tree.sequence,
                evidence=evidence,
            )
        )
    return facts


def _recorded(
    seen: LastSeen | Absent, read: int, confirmed: tuple[str, ...] = ()
) -> ChargeEvidence:
    """The recorded part of an observation: exactly the part behind its decision."""
    live = dict(seen.live)
    if isinstance(seen, Absent):
        return ChargeEvidence(
            read, listed_us=seen.listed_us, live=live, is_absent=True, is_raised=seen.is_raised
        )
    if seen.is_gone:
        return ChargeEvidence(
            read, seen.quota, types=seen.types, listed_us=seen.listed_us, version=seen.version, live=live,
            holder=seen.holder, is_gone=True, is_raised=seen.is_raised, awaited=dict(seen.awaited),
        )  # fmt: skip
    if seen.holder is not None:
        return ChargeEvidence(
            read, listed_us=seen.listed_us, version=seen.version, holder=seen.holder
        )
    return ChargeEvidence(
        read, seen.quota, seen.demand, seen.types, seen.seen_us, seen.listed_us, seen.version, live,
        confirmed=confirmed, awaited=dict(seen.awaited),
    )  # fmt: skip


def seen_again(evidence: ChargeEvidence, uid: str) -> LastSeen | Absent:
    """The observation of an object, from its record."""
    if evidence.is_absent:
        return Absent(uid, evidence.listed_us, evidence.live, evidence.is_raised)
    return LastSeen(
        uid, "", "", "", evidence.quota, evidence.demand, evidence.types, evidence.seen_us,
        evidence.is_gone, evidence.version, evidence.listed_us, live=evidence.live,
        holder=evidence.holder, is_raised=evidence.is_raised, awaited=evidence.awaited,
    )  # fmt: skip


class SeenQuota(msgspec.Struct, frozen=True):
    """A quota's object as it was last seen; ``spec`` None = it is gone."""

    name: str
    uid: str
    kind: str
    parent: str
    spec: QuotaSpec | None
    seen_us: int
    #: Koordinator's tree id, of an ElasticQuota.
    tree: str = ""
    #: Where an ElasticQuota lies, and its stamp of creation; "" = it has none.
    namespace: str = ""
    created: str = ""


def declared(draft: TreeOverlay, seen: SeenQuota, read: int = 0) -> QuotaDeclared | None:
    """The new entry of a tree's journal after an observation of a quota's object; None if they agree.

    An admitted change other than the observed one stays pending until it can no longer land. ``read``: the last event
    read for it.
    """
    node = draft.node(seen.name)
    if node is None:
        return _observed(draft, seen, read) if seen.spec else None
    if seen.spec is None:
        return _observed(draft, seen, read) if _is_gone(node, seen) else None
    shown = node.is_alone and node.asked[-1:] == (seen.spec,) and seen.seen_us >= node.asked_us
    is_late = seen.seen_us >= node.asked_us + LANDED_US
    settles = shown or is_late
    stands = (node.observed, node.uid, node.parent) == (seen.spec, seen.uid, seen.parent)
    if stands and not (node.asked and settles):
        return None
    return _observed(draft, seen, read, settles)


def _is_gone(node: TreeNode, seen: SeenQuota) -> bool:
    """Whether no admitted quota can exist here any more.

    The delete of an earlier object with this name is no evidence about the next one.
    """
    if node.observed is not None:
        return node.uid == seen.uid
    return seen.seen_us >= node.asked_us + LANDED_US


def _observed(
    draft: TreeOverlay, seen: SeenQuota, read: int, settles: bool = True
) -> QuotaDeclared:
    return QuotaDeclared(
        number=draft.number, quota=seen.name, uid=seen.uid, kind=seen.kind, parent=seen.parent,
        stage="observed", verdict="adopted", reason="seen" if seen.spec else "vanished",
        spec=seen.spec, settles=settles, based_on=draft.tree.sequence,
        evidence=ChargeEvidence(read, seen_us=seen.seen_us),
    )  # fmt: skip
