"""A trial of objects: the webhook's decisions on them now, one after the other, without a record. Pure.

Each object counts for the later ones, as in ``kubectl apply``. The draft charges each admitted workload. An admitted quota is
known but not observed yet, so its workloads have to wait a moment.

Source: docs/admission.md, Ask (``bursar quota check``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.events.admissions import AdmissionDecided
from bus.kube import kinds
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.shape import BUSINESS
from reactors.admission.deciding.advice import Advice, advise, advise_quota
from reactors.admission.deciding.daemons import DAEMON_SET, matching
from reactors.admission.deciding.decide import Request, decide
from reactors.admission.deciding.declare import Proposal, declare, declare_elastic
from reactors.admission.deciding.mapping import tree_of, types_of
from reactors.admission.deciding.messages import sentence, warning
from reactors.admission.reviewing.questions import QUOTAS
from reactors.admission.reviewing.reading import observed
from reactors.admission.state.state import AdmissionState, spec_of

_QUOTA_KINDS = {(group, kind): kind for (group, _), kind in QUOTAS.items()}

Json = dict[str, Any]
#: Uid of an existing object, by kind, namespace and name; "" for none.
Find = Callable[[str, str, str], str]


class TrialAnswer(msgspec.Struct, frozen=True):
    """The answer to one object. ``quota`` "" = it has none."""

    kind: str
    namespace: str
    name: str
    quota: str
    is_admitted: bool
    reason: str
    message: str = ""
    decision: AdmissionDecided | None = None
    advice: Advice = Advice()
    #: Of a quota beyond its parent: the largest limits that would be admitted, by key.
    largest: dict[str, int] = {}


class AdmissionTrial:
    """A session of questions about one cluster. ``places`` and ``trees`` are those of its journals."""

    def __init__(
        self,
        trees: Mapping[str, Tree],
        places: Mapping[tuple[str, str], str],
        view: AdmissionState,
        find: Find,
        *,
        now_us: int,
        exempt: Collection[str] = (),
    ) -> None:
        self._trees = trees
        self._places = places
        self._view = view
        self._find = find
        self._now_us = now_us
        self._exempt = exempt
        self._drafts: dict[str, TreeOverlay] = {}
        self._asked = 0

    def evaluate(self, object: Json, namespace: str) -> TrialAnswer:
        """The answer to one object; ``namespace`` is where it goes if it names none itself."""
        metadata = object.get("metadata") or {}
        group = str(object["apiVersion"]).rpartition("/")[0]
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        evaluation = TrialAnswer(
            str(object["kind"]), str(metadata.get("namespace") or namespace), name, "", True,
            "not-governed",
        )  # fmt: skip
        try:
            if (kind_of_quota := _QUOTA_KINDS.get((group, evaluation.kind))) is not None:
                return self._quota(object, kind_of_quota, evaluation)
            kind = kinds.governed(group, evaluation.kind)
            return evaluation if kind is None else self._workload(object, kind, evaluation)
        except DemandError as error:
            return msgspec.structs.replace(
                evaluation, is_admitted=False, reason="demand-unreadable", message=str(error)
            )

    def _workload(self, object: Json, kind: kinds.Kind, evaluation: TrialAnswer) -> TrialAnswer:
        asked = partial(self._view.state.asked, namespace=evaluation.namespace)
        known = self._find(evaluation.kind, evaluation.namespace, evaluation.name)
        if not known:
            # The API server drops the status of a new object.
            object = {key: value for key, value in object.items() if key != "status"}
        ask = asked(kinds.asked(kind, object))
        if kind.kind == DAEMON_SET and not known:
            ask = kinds.scaled(ask, matching(object, self._view.state.current_nodes()))
        where = self._view.place(ask.labels, evaluation.namespace)
        if evaluation.namespace in self._exempt or where is None:
            return evaluation
        owner = kinds.governing_owner(object.get("metadata") or {})
        # A user's reference to one of Kubernetes' own controllers does not count: the object is charged in its own right.
        if owner is not None and kinds.is_open(owner.kind, evaluation.kind):
            return msgspec.structs.replace(
                evaluation, reason="covered", message="its owner is charged"
            )
        self._asked += 1
        request = Request(
            where.quota, known or f"new/{self._asked}", evaluation.kind, evaluation.namespace, evaluation.name,
            ask.demand, types_of(ask.labels), operation="UPDATE" if known else "CREATE",
            unstated=ask.unstated,
        )  # fmt: skip
        unknown = f"biz/{where.quota}" if where.kind == BUSINESS else "elastic/"
        draft = self._draft(self._places.get((where.kind, where.quota), unknown))
        decision = decide(draft, request, self._now_us, where.refusal)
        advice, message = Advice(), warning(decision, draft.tree)
        is_admitted, reason = decision.verdict != "refused", decision.reason
        if not is_admitted:
            advice = advise(draft, kind, object, request, decision, self._now_us, asked)
            message = sentence(decision, draft.tree)
            if kind.queues and not known and _is_held(draft, decision):
                is_admitted, reason = True, "held"
        draft.add(decision, self._now_us)
        return msgspec.structs.replace(
            evaluation, quota=where.quota, is_admitted=is_admitted, reason=reason, message=message,
            decision=decision, advice=advice,
        )  # fmt: skip

    def _quota(self, object: Json, kind: str, evaluation: TrialAnswer) -> TrialAnswer:
        known = self._view.quotas.get((kind, evaluation.name))
        is_there = known is not None and known.spec is not None
        uid = known.uid if known is not None and is_there else "new"
        new = observed({**object, "metadata": {**object["metadata"], "uid": uid}}, kind)
        assert new is not None
        evaluation = msgspec.structs.replace(evaluation, quota=new.name, namespace=new.namespace)
        if new.problem:
            return msgspec.structs.replace(
                evaluation, is_admitted=False, reason="quota-invalid", message=new.problem
            )
        proposal = Proposal(
            "UPDATE" if is_there else "CREATE", new.name, uid, new.parent, spec_of(new),
            old_parent=known.parent if known else "",
        )  # fmt: skip
        draft = self._draft(tree_of(self._places, new))
        answer = declare if kind == BUSINESS else declare_elastic
        decision = answer(draft, proposal, self._now_us)
        draft.add(decision, self._now_us)
        is_admitted = decision.verdict != "refused"
        return msgspec.structs.replace(
            evaluation, is_admitted=is_admitted, reason=decision.reason,
            message="" if is_admitted else sentence(decision, draft.tree),
            largest=advise_quota(proposal, decision),
        )  # fmt: skip

    def _draft(self, tree: str) -> TreeOverlay:
        found = self._drafts.get(tree)
        if found is None:
            found = self._drafts[tree] = TreeOverlay(self._trees.get(tree) or Tree(tree))
        return found


def _is_held(draft: TreeOverlay, decision: AdmissionDecided) -> bool:
    """Whether an object without room now is created suspended, and waits for its turn."""
    node = draft.node(decision.quota)
    is_short = decision.reason in ("over-quota", "budget-exhausted")
    return node is not None and is_short and node.spec.queue.hold
