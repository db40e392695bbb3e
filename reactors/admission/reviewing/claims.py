"""The reviews of claims of devices, and of their templates.

The devices that a claim may get are charged to the quota named in it, else to the quota of its namespace.

A claim made by Kubernetes for a pod is part of that pod's review. A user may write a claim with the same mark. It is refused
if a quota may govern it or the pod: Kubernetes would use it as the pod's own, for any template in the pod.

A template never changes, but may be replaced by another of its name. The new one is rejected if an object naming it is charged
with less than its request.

Source: ``docs/admission.md`` ("Devices by claim").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.events.admissions import Basis
from bus.events.pods import Owner
from bus.kube.kinds import CLAIM_TEMPLATE, Ask
from bus.kube.watch.labels import quota_labels
from bus.sources.devices import is_generated, requests_of
from projections.cluster.devices import DeviceClaim
from projections.quota_trees.keys import Amounts, charged, less
from reactors.admission.coverage.owners import controller_of
from reactors.admission.deciding.decide import Request, is_unseen, limits_devices
from reactors.admission.deciding.mapping import LABEL, QuotaRef, label_of, types_of
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.reviewing.charges import Charge
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.reading import Stored, name_of, version_of
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

#: It makes the claims of extended resources.
SCHEDULER = "system:kube-scheduler"

_FORGED = (
    "a claim with a pod as its controller and an annotation resource.kubernetes.io/pod-claim-name, or "
    "extended-resource-claim, is made and changed in these by Kubernetes alone: leave them as they are (claim-forged)"
)


def answer_template(review: Review, context: Context) -> Answer:
    """Whether all objects that name a template may get its request. Raises DemandError for an unreadable one."""
    item, view, journals = review.object or {}, context.view, context.journals
    name = name_of(review, item.get("metadata") or {})
    requests = requests_of(item.get("spec") or {})
    for uid, demand in view.state.claiming.naming(review.namespace, name, requests):
        found = view.objects.get(uid)
        if found is None or view.coverage.covered(found):
            continue
        where = view.counted(found.labels, found.namespace)
        tree = journals.places.get((where.kind, where.quota)) if where else None
        if tree is None or where is None:
            continue
        wanted, held = charged(demand, types_of(found.labels)), _charge(journals, uid, where)
        node = journals.tree(tree).nodes.get(where.quota)
        if node is not None and less(wanted, held) and is_unseen(node, (CLAIM_TEMPLATE,)):
            message = f"{found.kind} {found.name!r} names this template, and was not charged for as much: delete it first, "
            return Answer(
                False, "template-in-use", f"{message}or take another name (template-in-use)"
            )
    return Answer(True, "fits")


def _charge(journals: Journals, uid: str, where: QuotaRef) -> Amounts:
    """The charge of a quota for an object."""
    grants = journals.grants(uid)
    charges = (
        g.charge for node, g in grants if (node.kind, node.name) == (where.kind, where.quota)
    )
    return next(charges, {})


def resolve_claim(review: Review, context: Context) -> Answer | Charge:
    """The charge of a claim, or its answer. The request of a claim never changes. So an update is checked for two fields
    only: the claim's owner and its quota.

    Raises DemandError for an unreadable claim.
    """
    item, view = review.object or {}, context.view
    metadata = item.get("metadata") or {}
    before = (review.old_object or {}).get("metadata") or {}
    if is_generated(metadata) or is_generated(before):
        if review.operation == "UPDATE" and _maker(metadata) == _maker(before):
            return ALLOWED
        if context.children.controllers.wrote(review) or review.user == SCHEDULER:
            return Answer(True, "covered")
        return Answer(False, "claim-forged", _FORGED) if is_governed(view, review) else ALLOWED
    labels, former = (quota_labels(one.get("labels") or {}) for one in (metadata, before))
    if review.operation == "UPDATE" and labels == former:
        return ALLOWED
    where = view.place(labels, review.namespace)
    if where is None:
        if review.operation == "UPDATE" and view.place(former, review.namespace) is not None:
            return _uncharged(name_of(review, metadata))
        return ALLOWED
    demand = view.state.claiming.requested(requests_of(item))
    request = Request(
        where.quota, str(metadata.get("uid", "")), DeviceClaim.kind, review.namespace,
        name_of(review, metadata), demand, types_of(labels),
        review.uid, review.operation, version_of(review),
    )  # fmt: skip
    return Charge(where, request, Basis(label=label_of(labels)))


def _maker(metadata: Mapping[str, Any]) -> tuple[bool, tuple[str, str]]:
    """Whether Kubernetes made a claim for a pod, and the kind and uid of its controller."""
    return is_generated(metadata), controller_of(metadata)


def answer_named(
    ask: Ask, before: Stored, owner: Owner | None, review: Review, context: Context
) -> Answer | None:
    """The refusal of an object with an uncharged claim, in a quota that limits devices; None if it may pass.

    The quota is that of its labels, and that of its ``owner``. Claims named there ``before`` stay allowed.
    """
    view, names = context.view, set(ask.claims)
    if isinstance(before, Ask) and before.labels == ask.labels:
        names.difference_update(before.claims)
    if not names:
        return None
    holder = context.children.holder(owner.uid) if owner is not None else None
    places = [
        view.place(ask.labels, review.namespace),
        holder.where if holder is not None else None,
    ]
    if not any(_limits_devices(where, context.journals) for where in places):
        return None
    for name in sorted(names):
        found = view.named(DeviceClaim.kind, review.namespace, name)
        if view.counted(found.labels if found is not None else {}, review.namespace) is None:
            return _uncharged(name)
    return None


def _limits_devices(where: QuotaRef | None, journals: Journals) -> bool:
    tree = journals.places.get((where.kind, where.quota)) if where is not None else None
    if where is None or tree is None:
        return False
    node = journals.tree(tree).nodes.get(where.quota)
    return node is not None and limits_devices(node)


def _uncharged(name: str) -> Answer:
    message = (
        f"no quota is charged for ResourceClaim {name!r}, or it was not seen yet: give the claim, or its namespace, the label "
        f"{LABEL} before a workload names it, or have the workload name a template of claims (claim-uncharged)"
    )
    return Answer(False, "claim-uncharged", message)
