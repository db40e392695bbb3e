"""What the terms of pods mean, node after node and pod after pod in plain Python.

Written after kube-scheduler's plugins, not after the product.
"""

import math

from bus.events.constraints import Affinity, LabelSelector, PodAffinity, PodConstraints
from tests.reactors.scheduling.terms import HOST

DEFAULTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def terms_of(pod):
    return pod.constraints or PodConstraints()


def labels(node):
    return {**node.row.labels, **node.row.further_labels}


def requirement(one, texts):
    text, values = texts.get(one.key), one.values or ()
    if one.operator in ("Gt", "Lt"):
        try:
            found, bound = int(text), int(values[0])
        except (TypeError, ValueError):
            return False
        return found > bound if one.operator == "Gt" else found < bound
    return {
        "In": text in values,
        "NotIn": text not in values,
        "Exists": text is not None,
        "DoesNotExist": text is None,
    }[one.operator]


def node_term(term, node):
    parts = [requirement(one, labels(node)) for one in term.match_expressions or ()]
    parts += [requirement(one, {"metadata.name": node.name}) for one in term.match_fields or ()]
    return bool(parts) and all(parts)


def node_affinity(pod):
    affinity = terms_of(pod).affinity
    return affinity.node_affinity if affinity else None


def selected(pod, node):
    for key, text in terms_of(pod).node_selector.items():
        if labels(node).get(key) != text:
            return False
    affinity = node_affinity(pod)
    if affinity is None or affinity.required is None:
        return True
    return any(node_term(one, node) for one in affinity.required.node_selector_terms or ())


def preferred_nodes(pod, nodes):
    affinity = node_affinity(pod)
    terms = (affinity.preferred or ()) if affinity else ()
    found = {
        node.name: sum(one.weight for one in terms if node_term(one.preference, node))
        for node in nodes
    }
    best = max(found.values(), default=0)
    return {name: score * 100 // best if best else score for name, score in found.items()}


def tolerated(pod, taint):
    if taint.key in DEFAULTS and taint.effect == "NoExecute":
        return True
    for one in terms_of(pod).tolerations:
        if one.effect not in ("", taint.effect) or one.key not in ("", taint.key):
            continue
        if one.operator == "Exists" or one.value == taint.value:
            return True
    return False


def untolerated(pod, node, *effects):
    return [one for one in node.row.taints if one.effect in effects and not tolerated(pod, one)]


def tainted_scores(pod, nodes):
    counts = {one.name: len(untolerated(pod, one, "PreferNoSchedule")) for one in nodes}
    most = max(counts.values(), default=0)
    return {name: 100 - (count * 100 // most if most else 0) for name, count in counts.items()}


def ports_clash(pod, node):
    for mine in terms_of(pod).host_ports:
        for other in node.pods:
            for theirs in terms_of(other).host_ports:
                addresses = {one.host_ip or "0.0.0.0" for one in (mine, theirs)}
                alike = (mine.protocol, mine.host_port) == (theirs.protocol, theirs.host_port)
                if alike and (len(addresses) == 1 or "0.0.0.0" in addresses):
                    return True
    return False


def selects(selector, texts):
    if selector is None:
        return False
    plain = all(texts.get(key) == text for key, text in (selector.match_labels or {}).items())
    return plain and all(requirement(one, texts) for one in selector.match_expressions or ())


def with_keys(selector, owner, equal, unequal=()):
    """Whether texts fit a selector with the label keys of its owner."""

    def fits(texts):
        if not selects(selector, texts):
            return False
        same = all(
            texts.get(key) == owner.labels[key] for key in equal or () if key in owner.labels
        )
        return same and all(
            texts.get(key) != owner.labels[key] for key in unequal or () if key in owner.labels
        )

    return fits


def reaches(term, owner, namespace, state):
    if not term.namespaces and term.namespace_selector is None:
        return owner.namespace == namespace
    if namespace in (term.namespaces or ()):
        return True
    known = state.namespaces.get(namespace)
    texts = {**(known.labels if known else {}), "kubernetes.io/metadata.name": namespace}
    return selects(term.namespace_selector, texts)


def means(term, owner, other, state):
    fits = with_keys(term.label_selector, owner, term.match_label_keys, term.mismatch_label_keys)
    return reaches(term, owner, other.namespace, state) and fits(other.labels)


def pods_part(pod, kind):
    affinity = terms_of(pod).affinity or Affinity()
    return getattr(affinity, kind) or PodAffinity()


def pairs(nodes):
    return [(pod, node) for node in nodes for pod in node.pods]


def affinity_reason(pod, node, nodes, state):
    near = pods_part(pod, "pod_affinity").required or ()
    held = [(o, n) for o, n in pairs(nodes) if all(means(t, pod, o, state) for t in near)]
    keys = {term.topology_key for term in near}
    counts = {(key, labels(n)[key]) for key in keys for _, n in held if key in labels(n)}
    if any(term.topology_key not in labels(node) for term in near):
        return "node(s) didn't match pod affinity rules"
    if not all((t.topology_key, labels(node)[t.topology_key]) in counts for t in near):
        if counts or not all(means(term, pod, pod, state) for term in near):
            return "node(s) didn't match pod affinity rules"
    far = pods_part(pod, "pod_anti_affinity").required or ()
    if any(_shares(t, n, node) and means(t, pod, o, state) for t in far for o, n in pairs(nodes)):
        return "node(s) didn't match pod anti-affinity rules"
    for other, at in pairs(nodes):
        for term in pods_part(other, "pod_anti_affinity").required or ():
            if _shares(term, at, node) and means(term, other, pod, state):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _shares(term, one, other):
    key = term.topology_key
    return key in labels(one) and labels(one)[key] == labels(other).get(key)


def affinity_scores(pod, nodes, state):
    """None where no term says anything."""
    sums = {}
    for other, at in pairs(nodes):
        found = []
        for sign, kind in ((1, "pod_affinity"), (-1, "pod_anti_affinity")):
            for mine in pods_part(pod, kind).preferred or ():
                if means(mine.pod_affinity_term, pod, other, state):
                    found.append((mine.pod_affinity_term, sign * mine.weight))
            for theirs in pods_part(other, kind).preferred or ():
                if means(theirs.pod_affinity_term, other, pod, state):
                    found.append((theirs.pod_affinity_term, sign * theirs.weight))
        for term in pods_part(other, "pod_affinity").required or ():
            if means(term, other, pod, state):
                found.append((term, 1))
        for term, weight in found:
            if term.topology_key in labels(at):
                pair = (term.topology_key, labels(at)[term.topology_key])
                sums[pair] = sums.get(pair, 0) + weight
    if not sums:
        return None
    raw = {node.name: sum(sums.get(pair, 0) for pair in labels(node).items()) for node in nodes}
    low, high = min(raw.values()), max(raw.values())
    return {
        name: int(100.0 * ((score - low) / float(high - low))) if high > low else 0
        for name, score in raw.items()
    }


def spreads(pod, action):
    found = terms_of(pod).topology_spread_constraints
    return [one for one in found if one.when_unsatisfiable == action]


def counted(pod, spread, node):
    if (spread.node_affinity_policy or "Honor") == "Honor" and not selected(pod, node):
        return False
    honors = spread.node_taints_policy == "Honor"
    return not (honors and untolerated(pod, node, "NoSchedule", "NoExecute"))


def matching(pod, spread, node):
    if spread.label_selector == LabelSelector() and not _keyed(pod, spread):
        return 0
    fits = with_keys(spread.label_selector, pod, spread.match_label_keys)
    return sum(
        other.namespace == pod.namespace and not other.is_terminating and fits(other.labels)
        for other in node.pods
    )


def _keyed(pod, spread):
    return any(key in pod.labels for key in spread.match_label_keys or ())


def domains(pod, spread, all_spreads, nodes):
    found = {}
    for node in nodes:
        texts = labels(node)
        if all(one.topology_key in texts for one in all_spreads) and counted(pod, spread, node):
            text = texts[spread.topology_key]
            found[text] = found.get(text, 0) + matching(pod, spread, node)
    return found


def spread_reason(pod, node, nodes):
    hard = spreads(pod, "DoNotSchedule")
    for one in hard:
        text = labels(node).get(one.topology_key)
        if text is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        found = domains(pod, one, hard, nodes)
        least = min(found.values(), default=2**31 - 1)
        if len(found) < (one.min_domains or 1):
            least = 0
        own = with_keys(one.label_selector, pod, one.match_label_keys)(pod.labels)
        if found.get(text, 0) + own - least > one.max_skew:
            return "node(s) didn't match pod topology spread constraints"
    return None


def spread_scores(pod, nodes):
    """Of all nodes, as if all fitted; None where there is nothing soft."""
    soft = spreads(pod, "ScheduleAnyway")
    if not soft:
        return None
    known = [n for n in nodes if all(one.topology_key in labels(n) for one in soft)]
    raw = {}
    for node in known:
        score = 0.0
        for one in soft:
            texts = {labels(n)[one.topology_key] for n in known}
            if one.topology_key == HOST:
                count, size = matching(pod, one, node), len(known)
            else:
                count = domains(pod, one, soft, nodes).get(labels(node)[one.topology_key], 0)
                size = len(texts)
            score += count * math.log(size + 2) + (one.max_skew - 1)
        raw[node.name] = math.floor(score + 0.5)
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    found = {n.name: 0 for n in nodes}
    for name, score in raw.items():
        found[name] = 100 * (high + low - score) // high if high else 100
    return found
