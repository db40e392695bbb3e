"""The reviews of claims of devices, and of their templates.

What a claim may be given is charged to the quota of its namespace.

A claim that Kubernetes makes for a pod is that pod's, which was asked for it. A user's claim that says so of itself is refused:
Kubernetes would take it for the pod's own, whatever the pod's template says. A template never changes, but another one of its
name may be made: not while something names it that was charged with less.

Source: ``docs/admission.md`` ("Devices by claim").
"""

from __future__ import annotations

from bus.kube.kinds import CLAIM_TEMPLATE
from bus.sources.devices import is_generated, requests_of
from projections.cluster.devices import DeviceClaim
from projections.quota_trees.keys import Amounts, charged, less
from reactors.admission.children import Children
from reactors.admission.decide import Request, is_unseen
from reactors.admission.mapping import QuotaRef, types_of
from reactors.admission.messages import ALLOWED
from reactors.admission.owners import Controllers
from reactors.admission.reading import name_of
from reactors.admission.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

#: Group and resource.
CLAIMS = ("resource.k8s.io", "resourceclaims")
TEMPLATES = ("resource.k8s.io", "resourceclaimtemplates")
#: It makes the claims of extended resources.
SCHEDULER = "system:kube-scheduler"

_FORGED = (
    "a claim with a pod as its controller and an annotation resource.kubernetes.io/pod-claim-name, or "
    "extended-resource-claim, is made by Kubernetes alone: leave these out (claim-forged)"
)


def asked_of_claims(
    review: Review, view: AdmissionState, children: Children, journals: Journals
) -> Answer | tuple[QuotaRef, Request]:
    """The answer to a review of a claim or a template of claims, or what is asked of which quota.

    Raises DemandError for one that cannot be read.
    """
    if (review.group, review.resource) == TEMPLATES:
        return _answer_template(review, view, journals)
    return _asked_of_claim(review, view, children.controllers)


def _answer_template(review: Review, view: AdmissionState, journals: Journals) -> Answer:
    """Whether all that names a template may be given what it asks for. Raises DemandError for one that cannot be read."""
    item = review.object
    if review.operation != "CREATE" or item is None or review.subresource:
        return ALLOWED
    name, claiming = name_of(review, item.get("metadata") or {}), view.state.claiming
    requests = requests_of(item.get("spec") or {})
    for uid, demand in claiming.naming(review.namespace, name, requests):
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
            said = f"{found.kind} {found.name!r} names this template, and was not charged for as much: delete it first, "
            return Answer(False, "template-in-use", f"{said}or take another name (template-in-use)")
    return Answer(True, "fits")


def _charge(journals: Journals, uid: str, where: QuotaRef) -> Amounts:
    """What a quota holds for an object."""
    grants = journals.grants(uid)
    charges = (
        g.charge for node, g in grants if (node.kind, node.name) == (where.kind, where.quota)
    )
    return next(charges, {})


def _asked_of_claim(
    review: Review, view: AdmissionState, controllers: Controllers
) -> Answer | tuple[QuotaRef, Request]:
    """The answer, or what is asked of which quota. What a claim requests never changes, so only its creation is asked about.

    Raises DemandError for a claim that cannot be read.
    """
    item = review.object
    if review.operation != "CREATE" or item is None or review.subresource:
        return ALLOWED
    metadata = item.get("metadata") or {}
    where = view.place({}, review.namespace)
    is_made = is_generated(metadata)
    if is_made and (controllers.wrote(review) or review.user == SCHEDULER):
        return Answer(True, "covered")
    if where is None:
        return ALLOWED
    if is_made:
        return Answer(False, "claim-forged", _FORGED)
    demand = view.state.claiming.requested(requests_of(item))
    return where, Request(
        where.quota, str(metadata.get("uid", "")), DeviceClaim.kind, review.namespace,
        name_of(review, metadata), demand, {},
        review.uid, review.operation,
    )  # fmt: skip
