"""Adoptions, releases and declarations after observations, decided again by the evidence recorded in each entry.

Source: docs/architecture.md; :mod:`reactors.admission.deciding.reconcile` has the rules.
"""

from __future__ import annotations

from bus.envelope import Event
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    Basis,
    ChargeEvidence,
    QuotaDeclared,
    TreeMetered,
)
from projections.cluster import POD
from projections.quota_trees import TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.admission.deciding.capacity import capacity, sized
from reactors.admission.deciding.decide import UNANSWERED, Request
from reactors.admission.deciding.reconcile import (
    SeenQuota,
    adopt_seen,
    declared,
    seen_again,
    settle,
)
from reactors.admission.deciding.withdrawing import taken_back
from reactors.admission.state.state import AdmissionState, spec_of

#: A number after those of all entries: a confirmed request is confirmed for all earlier ones.
_LATER = 2**63


def evidence_of(fact: Fact) -> Basis | ChargeEvidence | None:
    """The recorded basis of an entry that answers no review; None if it has none."""
    return fact.basis if isinstance(fact, AdmissionDecided) else fact.evidence


def made_again(draft: TreeOverlay, fact: Fact) -> Fact | None:
    """The result of the rules for the evidence in ``fact`` on top of ``draft``; None for none."""
    if isinstance(fact, AdmissionDecided):
        assert fact.basis is not None
        request = Request(
            fact.quota, fact.uid, fact.kind, fact.namespace, fact.name, fact.demand, fact.types,
            operation=fact.operation, live=fact.basis.live, basis=fact.basis,
        )  # fmt: skip
        return adopt_seen(draft, request)
    assert fact.evidence is not None
    if isinstance(fact, AdmissionReleased):
        return _released(draft, fact, fact.evidence)
    if isinstance(fact, QuotaDeclared):
        seen = SeenQuota(
            fact.quota, fact.uid, fact.kind, fact.parent, fact.spec, fact.evidence.seen_us
        )
        return declared(draft, seen, fact.evidence.read)
    return sized(draft, fact.total or {}, fact.evidence.read)


def _released(draft: TreeOverlay, fact: AdmissionReleased, evidence: ChargeEvidence) -> Fact | None:
    if not fact.releases:
        return None
    first = fact.releases[0]
    if first.reason == UNANSWERED:
        return taken_back(draft, first, evidence)
    confirmed = {(quota, first.uid): _LATER for quota in evidence.confirmed}
    facts = settle(draft, seen_again(evidence, first.uid), confirmed, evidence.read)
    return next((one for one in facts if isinstance(one, AdmissionReleased)), None)


def id_of(event: Event, fact: Fact) -> str:
    """The id of such an entry."""
    if isinstance(fact, AdmissionReleased):
        for release in fact.releases:
            if release.reason == UNANSWERED:
                return f"{event.cluster}/{UNANSWERED}/{release.request}/{fact.based_on}"
    return f"{event.cluster}/keeper/{event.key}/{fact.number}/{fact.based_on}"


def is_true(fact: Fact, view: AdmissionState) -> bool:
    """Whether ``view``, with as much of the history, shows the entry's recorded observation, as far as it still can."""
    if isinstance(fact, AdmissionDecided):
        # An object deleted without its children requests nothing itself, whatever it contains.
        return _shows(view, fact.uid, fact.kind, fact.quota, fact.demand or None)
    if isinstance(fact, TreeMetered):
        return fact.total == dict(sorted(capacity(view.state).items()))
    if isinstance(fact, QuotaDeclared):
        known = view.state.quotas.get(fact.uid)
        return known is None or fact.spec is None or spec_of(known.fact) == fact.spec
    evidence, uid = fact.evidence, fact.releases[0].uid
    if evidence is None or evidence.is_absent or fact.releases[0].reason == UNANSWERED:
        return True
    if evidence.is_gone:
        return uid not in view.state.workloads and uid not in view.state.pods
    if evidence.holder is not None:
        return True
    return _shows(view, uid, "", evidence.quota, evidence.demand)


def _shows(
    view: AdmissionState, uid: str, kind: str, quota: str, demand: dict[str, int] | None
) -> bool:
    """Whether an object is charged to ``quota`` and asks for ``demand``, None = for any; True where it is no known workload."""
    found = view.objects.get(uid)
    if found is None:
        return True
    where = view.counted(found.labels, found.namespace)
    # Limits of a pod are those of its request.
    is_same = POD in (kind, found.kind) or demand is None or found.ask.demand == demand
    return is_same and quota in ((where.quota, where.full_name) if where is not None else ("",))
