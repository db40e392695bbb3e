"""Reviews decided again: by the journal before each entry, and by the request and the reads recorded in its basis.

Two checks, as the answers come from two places of the history. Is the entry the result of the rules for its request, on top of
the journal? And was the quota the right one for the cluster's state of that moment? Pure.

Source: docs/architecture.md; docs/limits.md lists the recorded parts that are trusted.
"""

from __future__ import annotations

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, Basis, QuotaDeclared
from bus.kube import kinds
from projections.quota_trees import TreeOverlay
from projections.quota_trees.shape import BUSINESS, ELASTIC
from projections.quota_trees.tree import Fact
from reactors.admission.deciding.appending import UNKNOWN
from reactors.admission.deciding.decide import Request, decide_review
from reactors.admission.deciding.declare import Proposal, declare, declare_elastic
from reactors.admission.deciding.mapping import SEEN, QuotaRef, recorded_labels
from reactors.admission.reviewing.landing import UNSEEN
from reactors.admission.state.state import AdmissionState


def is_review(fact: Fact) -> bool:
    """Whether an entry answers a review."""
    if isinstance(fact, QuotaDeclared):
        return fact.stage == "asked"
    return isinstance(fact, AdmissionDecided) and bool(fact.request)


def has_basis(fact: Fact) -> bool:
    """Whether an entry records its basis; entries of older versions do not."""
    if isinstance(fact, AdmissionDecided):
        return fact.basis is not None
    return isinstance(fact, QuotaDeclared) and bool(fact.operation)


def decided_again(draft: TreeOverlay, fact: Fact, time_us: int) -> Fact:
    """The result of the rules for the request in ``fact`` on top of ``draft``."""
    if isinstance(fact, QuotaDeclared):
        # An admitted delete records the quota's limits until it is gone.
        spec = None if fact.operation == "DELETE" else fact.spec
        proposal = Proposal(
            fact.operation, fact.quota, fact.uid, fact.parent, spec, fact.request, fact.old_parent
        )
        answer = declare if fact.kind == BUSINESS else declare_elastic
        return answer(draft, proposal, time_us)
    assert isinstance(fact, AdmissionDecided) and fact.basis is not None
    return decide_review(draft, request_of(fact, fact.basis), time_us)


def request_of(fact: AdmissionDecided, basis: Basis) -> Request:
    """The request."""
    unstated = _unstated(fact, basis)
    return Request(
        fact.quota, fact.uid, fact.kind, fact.namespace, fact.name, fact.demand, fact.types, fact.request,
        fact.operation, fact.resource_version, fact.reshapes, fact.priority_class, fact.owner, basis.live,
        fact.child, unstated, unstated, basis,
    )  # fmt: skip


def _unstated(fact: AdmissionDecided, basis: Basis) -> dict[str, tuple[str, ...]]:
    """The limits not stated by containers; only a refusal records the containers."""
    found = {}
    for key in basis.unstated:
        plain = f"limits.{key.partition('.')[2]}"
        named = (d for d in fact.deficits if d.key == plain or d.key.startswith(f"{plain}."))
        found[key] = next((deficit.containers for deficit in named), ())
    return found


def id_of(event: Event, fact: Fact) -> str:
    """The id of such an entry."""
    request = getattr(fact, "request", "")
    return f"{event.cluster}/admission/{request}/{fact.number}"


def is_true(tree: str, fact: Fact, view: AdmissionState) -> bool:
    """Whether ``view``, with the same reads, finds the same quota and refusal for a request, and for a scale the same demand.

    ``tree``: the entry's tree.
    """
    if not isinstance(fact, AdmissionDecided) or fact.basis is None:
        # A quota's object says where it belongs.
        return True
    basis = fact.basis
    view.requires_namespaces = basis.mapped_only
    labels, namespace = recorded_labels(basis.label, fact.quota), fact.namespace
    if basis.label == SEEN:
        found = view.objects.get(fact.uid)
        if found is None:
            # An unobserved owner stays charged at its present place.
            return fact.child is not None
        labels, namespace = found.labels, found.namespace
        is_scale = basis.replicas is not None
        if is_scale and kinds.scaled(found.ask, basis.replicas or 0).demand != fact.demand:
            return False
    where = _where(view, labels, namespace, fact)
    if where is None or where.quota != fact.quota:
        return False
    is_there = tree == UNKNOWN or tree.startswith("elastic/") == (where.kind == ELASTIC)
    return is_there and basis.refusal in (where.refusal, UNSEEN)


def _where(
    view: AdmissionState, labels: dict[str, str], namespace: str, fact: AdmissionDecided
) -> QuotaRef | None:
    where = view.place(labels, namespace)
    # An owner with a raised charge: its present place, for any named quota.
    return (view.counted(labels, namespace) or where) if fact.child is not None else where
