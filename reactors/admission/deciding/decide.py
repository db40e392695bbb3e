"""The decision about a request: may this object hold its amounts? The one decision of the webhook; pure.

A request is "this object (uid) wants to hold N from now on", never a difference. Each rising key is
checked against the rest of the quota. All keys fit, or nothing is charged. A falling key
is admitted, and stays charged until the object is *observed* smaller: the review is no proof that
the change is stored. The reconciler returns it (:mod:`reactors.admission.deciding.reconcile`).

Source: docs/quotas.md; docs/wrong-input.md; docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from bus.clock import floor_seconds
from bus.events.admissions import AdmissionDecided, Basis, Child, Deficit, Left
from bus.kube.kinds import CLAIM_TEMPLATE, RUNTIME
from projections.quota_trees import TreeNode, TreeOverlay, charged
from projections.quota_trees.keys import MOST, largest, less
from projections.quota_trees.shape import ELASTIC

#: The reason to withdraw a charge whose requester never received the decision.
UNANSWERED = "unanswered"


class Request(msgspec.Struct, frozen=True):
    """The whole amounts requested by an object, by ``limits.<resource>`` and ``requests.<resource>``."""

    quota: str
    uid: str
    kind: str
    namespace: str
    name: str
    demand: dict[str, int]
    types: dict[str, str] = {}
    #: Uid of the review; "" without one.
    review: str = ""
    operation: str = "CREATE"
    #: resourceVersion of the changed object; "" for a create.
    version: str = ""
    #: It changes the request of one replica, or the place of its charge.
    reshapes: bool = False
    #: The first priority class in its pod templates.
    priority_class: str = ""
    #: Uid of a named controller that does not cover it.
    owner: str = ""
    #: The request of its children, by quota key, as the least charge.
    live: dict[str, int] = {}
    #: The child behind the request; None = the object itself.
    child: Child | None = None
    #: Containers that must state more than they do (:class:`bus.kube.kinds.Ask`); empty if not required.
    unstated: dict[str, tuple[str, ...]] = {}
    #: Those of them that stated more before this change.
    newly_unstated: dict[str, tuple[str, ...]] = {}
    #: Of a review: the source of its quota.
    basis: Basis | None = None


def decide_review(draft: TreeOverlay, request: Request, now_us: int) -> AdmissionDecided:
    """The answer to a review on top of ``draft``: everything for it is there, and in the request with its basis.

    Reasons beside those of :func:`decide`: ``orphaned``; ``queued``
    (a user who resumes a workload must not overtake the queue).
    """
    basis = request.basis or Basis()
    if basis.is_orphaned:
        return move(draft, request, request.owner)
    refusal = basis.refusal
    if basis.is_resumed:
        if covers(draft, request):
            # The queue starts it, as it waited.
            request = msgspec.structs.replace(request, unstated=request.newly_unstated)
        elif not refusal:
            node = draft.node(request.quota)
            refusal = "queued" if node is not None and node.spec.queue.hold else ""
    return decide(draft, request, now_us, refusal)


def decide(
    draft: TreeOverlay, request: Request, now_us: int, refusal: str = ""
) -> AdmissionDecided:
    """The answer to ``request`` on top of ``draft``; it is not added to the draft yet.

    ``refusal``: a reason found before the quota was checked.

    Reasons: ``fits``; ``fewer`` (nothing rises); ``raised`` (an owner's charge, for one more child); ``covered`` (it has room
    for that child already);
    ``over-quota`` and ``budget-exhausted`` with the
    refusing keys as deficits; ``quota-unknown``; ``quota-unready`` (declared, not observed in the
    cluster yet: ask again); ``quota-invalid`` (its object cannot be used); ``quota-not-yours``;
    ``must-specify`` (containers without a limit that the quota needs); ``parent-quota`` (an elastic parent holds no workloads).
    """
    if refusal:
        return _answer(draft, request, "refused", refusal)
    node = draft.node(request.quota)
    if node is None:
        return _answer(draft, request, "refused", "quota-unknown")
    if node.observed is None:
        return _answer(draft, request, "refused", "quota-unready")
    if why := barred(node, request.namespace):
        return _answer(draft, request, "refused", why)
    if absent := unspecified(draft, node, request):
        return _answer(draft, request, "refused", "must-specify", deficits=absent)
    wanted = charged(request.demand, request.types)
    # An owner's own size was decided at its write: now its charge, or its children's need, counts.
    wanted = dict(request.live if request.child is not None else largest(wanted, request.live))
    grant = draft.grant(request.quota, request.uid)
    held = grant.charge if grant else {}
    rises = less(wanted, held)
    charge = {**held, **{key: wanted[key] for key in rises}} if held else rises
    if request.child is not None and not rises:
        return _answer(draft, request, "admitted", "covered", charge)
    if not rises:
        return _answer(draft, request, "admitted", "fewer" if held else "fits", charge)
    if any(key.startswith(RUNTIME) for key in rises):
        return _answer(draft, request, "refused", "runtime-unseen")
    if is_unseen(node, rises):
        return _answer(draft, request, "refused", "claims-unseen")
    if _is_unmeasured(node, rises, wanted):
        return _answer(draft, request, "refused", "memory-unseen")
    deficits = _spent(draft, node, request, now_us)
    if deficits and node.spec.exhaustion != "Warn":
        return _answer(draft, request, "refused", "budget-exhausted", deficits=deficits)
    limits = _limits(draft, node, rises, request)
    missing = _over(draft, node, rises, limits, request.namespace)
    divided = {k: n for k, n in limits.items() if n is not None} if node.is_elastic else None
    if missing:
        return _answer(draft, request, "refused", "over-quota", None, missing, divided)
    # A budget past its warning admits, and the decision has the warning.
    reason = "raised" if request.child is not None else "fits"
    return _answer(draft, request, "admitted", reason, charge, deficits, divided)


def _limits(
    draft: TreeOverlay, node: TreeNode, rises: dict[str, int], request: Request
) -> Mapping[str, int | None]:
    """The quota's limits on the rising keys: the tree's, or those recorded with this decision."""
    recorded = request.basis.limits if request.basis is not None else None
    return {key: recorded.get(key) for key in rises} if recorded else draft.limits(node, rises)


def barred(node: TreeNode, namespace: str) -> str:
    """The reason why the quota takes no workload of ``namespace``, even with room; "" = it does."""
    if node.spec.problem:
        return "quota-invalid"
    named = node.spec.namespaces
    # Selectors were matched before, on the labels of the namespace (:mod:`reactors.admission.deciding.mapping`).
    if named and namespace not in named and not node.spec.selector:
        return "quota-not-yours"
    return "parent-quota" if node.kind == ELASTIC and node.spec.is_parent else ""


def unspecified(draft: TreeOverlay, node: TreeNode, request: Request) -> tuple[Deficit, ...]:
    """The keys of ``limits.<resource>`` that the quota limits and containers do not state, by name.

    If the quota charges requests instead, only containers without a request count, too.
    """
    found = {}
    limited = node.limited()
    part = "requests." if node.spec.charges_requests else "limits."
    for key, names in request.unstated.items():
        if not key.startswith(part):
            continue
        plain = f"limits.{key.removeprefix(part)}"
        typed = f"{plain}."
        # Its own effect is this key, or begins with it: most quotas limit neither.
        if plain not in limited and not any(one.startswith(typed) for one in limited):
            continue
        for touched in charged({plain: 1}, request.types):
            limit = node.limit(touched)
            if limit is not None and touched in limited:
                used = draft.used(node, touched)
                found[touched] = Deficit(touched, 0, min(used, MOST), limit, containers=names)
    return tuple(found[key] for key in sorted(found))


def is_unseen(node: TreeNode, rises: Collection[str]) -> bool:
    """Whether it names an unobserved template of claims, and the quota limits devices: their number is unknown."""
    return any(key.startswith(CLAIM_TEMPLATE) for key in rises) and limits_devices(node)


def _is_unmeasured(node: TreeNode, rises: Collection[str], wanted: Collection[str]) -> bool:
    """Whether it claims cards with unknown memory, because slices do not show it, and the quota limits that."""
    if not any(".dra/" in key for key in rises):
        return False
    is_limited = any(key.partition(".")[2].startswith("gpu-memory") for key in node.limited())
    has_cards = any("/gpu" in key and ".dra/" not in key for key in wanted)
    return is_limited and has_cards and not any(".gpu-memory" in key for key in wanted)


def limits_devices(node: TreeNode) -> bool:
    """Whether a quota limits devices, any extended resource included."""
    return any(
        "/" in key or key.partition(".")[2].startswith("gpu-memory") for key in node.limited()
    )


def covers(draft: TreeOverlay, request: Request) -> bool:
    """Whether its quota already holds its whole own request."""
    grant = draft.grant(request.quota, request.uid)
    wanted = charged(request.demand, request.types)
    return grant is not None and all(n <= grant.charge.get(key, 0) for key, n in wanted.items())


def adopt(draft: TreeOverlay, request: Request, reason: str) -> AdmissionDecided | None:
    """The charge for an existing object that was never admitted with that much, its children included; None if it was.

    It is charged unchecked, above the limit if need be: it exists. ``reason``: ``ungoverned``, ``outgrown`` if only its
    children are more, or ``moved`` for an object that was admitted elsewhere.
    """
    wanted = largest(charged(request.demand, request.types), request.live)
    grant = draft.grant(request.quota, request.uid)
    held = grant.charge if grant else {}
    is_covered = grant is not None and all(n <= held.get(key, 0) for key, n in wanted.items())
    if draft.node(request.quota) is None or is_covered:
        return None
    charge = {key: max(wanted.get(key, 0), held.get(key, 0)) for key in wanted.keys() | held.keys()}
    return _answer(draft, request, "adopted", reason, charge)


def move(draft: TreeOverlay, request: Request, owner: str) -> AdmissionDecided:
    """The charge of an object orphaned by its deleted ``owner``: taken from the owner's, in one entry.

    Nothing new runs, so nothing is checked: if the owner had a smaller charge, the rest is charged above the limit.
    """
    wanted = largest(charged(request.demand, request.types), request.live)
    grant, above = draft.grant(request.quota, request.uid), draft.grant(request.quota, owner)
    held = grant.charge if grant else {}
    charge = dict(largest(held, wanted))
    left = {
        key: rest
        for key, n in (above.charge if above else {}).items()
        if (rest := n - charge.get(key, 0) + held.get(key, 0)) > 0
    }
    decision = _answer(draft, request, "admitted", "orphaned", charge)
    return msgspec.structs.replace(decision, left=Left(owner, left))


def over(
    draft: TreeOverlay, node: TreeNode, rises: dict[str, int], namespace: str = ""
) -> tuple[Deficit, ...]:
    """The keys of ``node`` without enough left for ``rises``, by name."""
    return _over(draft, node, rises, draft.limits(node, rises), namespace)


def _over(
    draft: TreeOverlay,
    node: TreeNode,
    rises: dict[str, int],
    limits: Mapping[str, int | None],
    namespace: str,
) -> tuple[Deficit, ...]:
    found = []
    for key, limit in sorted(limits.items()):
        if limit is None:
            continue
        used = draft.used(node, key)
        if used + rises[key] > limit:
            own = draft.own(node, namespace, key) if namespace else 0
            # More than a journal holds is more than any limit.
            found.append(Deficit(key, rises[key], min(used, MOST), limit, min(own, MOST)))
    return tuple(found)


def _spent(
    draft: TreeOverlay, node: TreeNode, request: Request, now_us: int
) -> tuple[Deficit, ...]:
    """The used-up budgets: any rise is refused then, for every resource."""
    found = []
    for key in sorted(node.spec.cash):
        spent, cash = draft.spent(node, key, floor_seconds(now_us))
        if spent >= cash:
            found.append(Deficit(f"cash/{key}", 0, spent, cash))
    return tuple(found)


def _answer(
    draft: TreeOverlay,
    request: Request,
    verdict: str,
    reason: str,
    charge: dict[str, int] | None = None,
    deficits: tuple[Deficit, ...] = (),
    limits: dict[str, int] | None = None,
) -> AdmissionDecided:
    return AdmissionDecided(
        number=draft.number,
        quota=request.quota,
        uid=request.uid,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        verdict=verdict,
        reason=reason,
        demand=request.demand,
        types=request.types,
        charge=dict(sorted(charge.items())) if charge else {},
        deficits=deficits,
        based_on=draft.tree.sequence,
        request=request.review,
        operation=request.operation,
        resource_version=request.version,
        reshapes=request.reshapes,
        priority_class=request.priority_class if verdict == "refused" else "",
        owner=request.owner,
        child=request.child,
        basis=_recorded(request, reason, limits),
    )


def _recorded(request: Request, reason: str, limits: dict[str, int] | None) -> Basis | None:
    """The basis of the answer. Containers without limits are recorded only if they are the reason of the refusal."""
    basis = request.basis
    unstated = tuple(sorted(request.unstated)) if reason == "must-specify" else ()
    if basis is None or (basis.live, basis.unstated, basis.limits) == (
        request.live,
        unstated,
        limits,
    ):
        return basis
    return msgspec.structs.replace(
        basis, live=request.live, unstated=unstated, limits=limits or None
    )
