"""The message of a decision for people: the key, the deficit, the limit, and the holders. Pure.

A refusal shows the asker's own namespace and the sum of all others, without their names
(docs/reliability.md: answers contain no other tenant's names).

Source: docs/admission.md, Reasons.
"""

from __future__ import annotations

import msgspec

from bus.clock import format_stamp
from bus.events.admissions import AdmissionDecided, Deficit, QuotaDeclared
from bus.kube.crds.keys import key_text
from projections.quota_trees import Tree
from reactors.webhook.review import Answer

#: Answers without a check of a quota.
ALLOWED = Answer(True, "not-governed")
TOO_MANY = Answer(
    False,
    "too-many-requests",
    "you ask for too many workloads of one quota at once: try again in a moment (too-many-requests)",
    code=429,
)

_WHY = {
    "quota-unknown": "there is no quota {quota!r}: create it, or correct the label on this object or its namespace",
    "quota-unready": "quota {quota!r} was admitted and not seen in the cluster yet: try again in a moment",
    "quota-invalid": "quota {quota!r} cannot be used: {problem}",
    "quota-namesake": "another ElasticQuota is called {quota!r}, in another namespace: give the one of {namespace!r} another name",
    "quota-not-yours": "workloads of namespace {namespace!r} may not use quota {quota!r}: "
    "name one that serves the namespace (spec.namespaces or spec.namespaceSelector of the quota, or the label of "
    "the namespace)",
    "parent-quota": "quota {quota!r} holds quotas, not workloads: name one below it",
    "object-unseen": "this object has just been changed: try again in a moment",
    "claims-unseen": "it names a template of claims that does not exist, or was not seen yet: how many devices it asks of "
    "quota {quota!r} is unknown. Make the ResourceClaimTemplate first, and try again in a moment",
    "runtime-unseen": "the training runtime that it names does not exist, was not seen yet, or cannot be read: how much it asks of "
    "quota {quota!r} is unknown. Make the runtime first, and try again in a moment",
    "memory-unseen": "how much memory the cards of a claim have is unknown, and quota {quota!r} limits it: no ResourceSlice of a "
    "GPU driver was seen yet. Try again once the driver runs on a node",
    "queued": "quota {quota!r} has a queue: leave this suspended with the annotation bursar.io/queue, and it starts in its turn",
    "name-exists": "a quota of this name is there already",
    "parent-immutable": "a quota keeps its parent: delete it and create it anew below the other one",
    "parent-unknown": "its parent {parent!r} does not exist",
    "parent-unready": "its parent {parent!r} was not seen in the cluster yet: try again in a moment",
    "own-parent": "a quota cannot be its own parent",
    "too-deep": "quotas may stand in at most 16 levels",
    "too-many-children": "a quota may have at most 5,000 children",
    "too-many-changes": "too many changes of this quota are on their way: try again in a minute",
    "missing-keys": "every key of the parent must be limited in the child too; missing: {keys}",
    "has-children": "other quotas stand below it: delete them first",
    "in-use": "workloads still hold something of it",
}


def sentence(decision: AdmissionDecided | QuotaDeclared, tree: Tree) -> str:
    """One sentence for a refusal; the warnings of an admitted one are made by :func:`warning`."""
    if decision.deficits:
        lines = "; ".join(_deficit(deficit, decision, tree) for deficit in decision.deficits)
        return f"quota {_limiting(decision)!r}: {lines} ({decision.reason})"
    node = tree.nodes.get(decision.quota)
    namespace = decision.namespace if isinstance(decision, AdmissionDecided) else ""
    parent, keys = "", ""
    if isinstance(decision, QuotaDeclared):
        parent, keys = decision.parent, ", ".join(decision.keys)
    # The names of Koordinator's rules contain their content: min over max: cpu.
    rule = decision.reason.replace("-", " ") + (": {keys}" if keys else "")
    message = _WHY.get(decision.reason, rule).format(
        quota=decision.quota, namespace=namespace, parent=parent, keys=keys,
        problem=node.spec.problem if node else "",
    )  # fmt: skip
    return f"{message} ({decision.reason})"


def warning(decision: AdmissionDecided, tree: Tree) -> str:
    """The warning for an admitted request; "" for none."""
    if decision.verdict != "admitted" or not decision.deficits:
        return ""
    return "; ".join(_deficit(deficit, decision, tree) for deficit in decision.deficits)


def queued(decision: AdmissionDecided, tree: Tree, place: int) -> str:
    """The notice of a workload in a queue. ``decision``: the answer to it alone, without the queue."""
    if decision.verdict != "refused":
        waits = "it starts in its turn"
    elif decision.deficits:
        lines = "; ".join(_deficit(deficit, decision, tree) for deficit in decision.deficits)
        waits = f"it waits for room, as {lines}"
    else:
        return f"queued by quota {decision.quota!r}: {sentence(decision, tree)}"
    return f"queued by quota {decision.quota!r}, place {place}: {waits}. See: bursar queue show"


def managed_elsewhere(answer: Answer, manager: str) -> Answer:
    """The answer to an object that names another controller, with a warning about it."""
    warned = (
        f"managedBy is {manager!r}: this cluster makes no pods of it, and the quota charges nothing"
    )
    return msgspec.structs.replace(answer, warnings=(*answer.warnings, warned))


def _limiting(decision: AdmissionDecided | QuotaDeclared) -> str:
    return decision.parent if isinstance(decision, QuotaDeclared) else decision.quota


def _deficit(deficit: Deficit, decision: AdmissionDecided | QuotaDeclared, tree: Tree) -> str:
    key = deficit.key
    if deficit.containers:
        return f"must specify {key} for: {','.join(deficit.containers)}"

    def text(amount: int) -> str:
        return key_text(key, amount)

    if key.startswith("cash/"):
        meter = tree.meters.get((decision.quota, key.removeprefix("cash/")))
        resets = (
            f", the period ends {format_stamp(meter.resets_s * 1_000_000)}"
            if meter and meter.resets_s
            else ""
        )
        return f"{key}: {text(deficit.used)} of {text(deficit.limit)} hours are spent{resets}"
    missing = deficit.used + deficit.asked - deficit.limit
    holders = ""
    if isinstance(decision, AdmissionDecided):
        own, others = deficit.own, deficit.used - deficit.own
        holders = f"; this namespace holds {text(own)}, others {text(others)}"
    return (
        f"{key} asks for {text(deficit.asked)} more, {text(deficit.used)} of {text(deficit.limit)} are used, "
        f"{text(missing)} too much{holders}"
    )
