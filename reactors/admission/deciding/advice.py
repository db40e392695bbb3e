"""The least change with which a refused request would be admitted. Pure, and by the product's own decision.

Each advice is enough by itself: fewer replicas (the most that are admitted), or an amount returned by others, or a larger
limit of the quota. It never guesses: a number of replicas is read and decided again, a limit is declared again.

Source: docs/admission.md, Ask (``bursar quota check``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.events.admissions import AdmissionDecided, Deficit, QuotaDeclared
from bus.kube.kinds import Ask, Kind, asked
from bus.kube.kinds.runtime_use import NODES
from projections.quota_trees import TreeOverlay, charged
from reactors.admission.deciding.decide import Request, decide, over
from reactors.admission.deciding.declare import Proposal, declare

Json = Mapping[str, Any]


class Advice(msgspec.Struct, frozen=True):
    """Changes that would each be enough; all of them empty if only another quota helps."""

    #: The field with the number of pods, its value, and the most that would be admitted; None = not even one.
    path: str = ""
    replicas: int = 0
    fits: int | None = None
    #: By key, the amounts that others would have to return.
    free: dict[str, int] = {}
    #: By key, the limit that the quota would need; and whether its parent would admit it now.
    hard: dict[str, int] = {}
    has_room_above: bool = False
    #: By key of a spent budget, the least credit, in unit·seconds.
    credit: dict[str, int] = {}
    #: When all spent budgets begin anew (seconds UTC); 0 = one of them never does.
    resets_s: int = 0


def advise(
    draft: TreeOverlay,
    kind: Kind,
    object: Json,
    request: Request,
    decision: AdmissionDecided,
    now_us: int,
    asked: Callable[[Ask], Ask],
) -> Advice:
    """Advice for ``object``, refused for its ``request`` with ``decision``.

    ``asked`` returns a request with the devices that its claims may get.

    Empty for refusals without amounts: their own message names the way out.
    """
    node = draft.node(request.quota)
    if node is None or decision.reason not in ("over-quota", "budget-exhausted"):
        return Advice()
    wanted = charged(request.demand, request.types)
    grant = draft.grant(request.quota, request.uid)
    held = grant.charge if grant else {}
    rises = {key: n - held.get(key, 0) for key, n in wanted.items() if n > held.get(key, 0)}
    missing = over(draft, node, rises)
    hard = {deficit.key: deficit.used + deficit.asked for deficit in missing}

    def is_admitted(ask: Ask) -> bool:
        again = msgspec.structs.replace(request, demand=asked(ask).demand)
        return decide(draft, again, now_us).verdict == "admitted"

    path, replicas, fits = fewer(kind, object, is_admitted)
    spent = decision.deficits if decision.reason == "budget-exhausted" else ()
    ends = [draft.tree.meters.get((node.name, _account(one))) for one in spent]
    return Advice(
        path, replicas, fits,
        free={deficit.key: _excess(deficit) for deficit in missing},
        hard={} if node.is_elastic else hard,
        has_room_above=not node.is_elastic and _is_declared(draft, request.quota, hard, now_us),
        # Refused while spent >= limit: one unit more is the least.
        credit={_account(one): _excess(one) + 1 for one in spent},
        resets_s=max((m.resets_s for m in ends if m), default=0) if all(m and m.resets_s for m in ends) else 0,
    )  # fmt: skip


def advise_quota(proposal: Proposal, decision: QuotaDeclared) -> dict[str, int]:
    """The largest admissible limits, by key, of a proposed quota that exceeds its parent."""
    hard = proposal.spec.hard if proposal.spec is not None else {}
    return {
        deficit.key: hard[deficit.key] - _excess(deficit)
        for deficit in decision.deficits
        if hard.get(deficit.key, 0) >= _excess(deficit)
    }


def fewer(
    kind: Kind, object: Json, is_admitted: Callable[[Ask], bool]
) -> tuple[str, int, int | None]:
    """(field, its number, the largest smaller admitted number) of the pods in a scale, or of training nodes.

    ("", 0, None) for a kind without one such number, and if the number is the training
    runtime's. More pods never request less, so halving finds it.
    """
    path, ask = _counted(kind), asked(kind, object)
    replicas = ask.runtime.nodes if ask.runtime else ask.replicas
    if not path or not replicas:
        return "", 0, None

    def fits(count: int) -> bool:
        try:
            return is_admitted(asked(kind, resized(object, path, count)))
        except DemandError:
            # A gang larger than its workload could never start.
            return False

    low, high = 0, replicas
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return path, replicas, low or None


def resized(object: Json, path: str, count: int) -> dict[str, Any]:
    """The object with another number at ``path``."""
    step, _, rest = path.partition(".")
    return {**object, step: resized(object.get(step) or {}, rest, count) if rest else count}


def _counted(kind: Kind) -> str:
    """The field with the number of pods of a scale, or of the only set; "" if there is none."""
    if kind.scales:
        # Of several sets in a map, the one named by the scale.
        sets = [
            one
            for one in kind.sets
            if one.at in (kind.scales, kind.scales.rpartition(".")[0] + ".*")
        ]
        return f"{kind.scales}.{sets[0].replicas}" if sets else ""
    if kind.has_runtime:
        return NODES
    first = kind.sets[0]
    # Without the number in its spec, users cannot set it.
    is_single = len(kind.sets) == 1 and first.at and first.replicas and "*" not in first.at
    return f"{first.at}.{first.replicas}" if is_single else ""


def _is_declared(draft: TreeOverlay, quota: str, hard: Mapping[str, int], now_us: int) -> bool:
    """Whether the quota's parent has room for these limits now."""
    node = draft.node(quota)
    if node is None or not hard:
        return False
    spec = msgspec.structs.replace(node.spec, hard={**node.spec.hard, **hard})
    proposal = Proposal("UPDATE", quota, node.uid, node.parent, spec, old_parent=node.parent)
    return declare(draft, proposal, now_us).verdict == "admitted"


def _excess(deficit: Deficit) -> int:
    return deficit.used + deficit.asked - deficit.limit


def _account(deficit: Deficit) -> str:
    return deficit.key.removeprefix("cash/")
