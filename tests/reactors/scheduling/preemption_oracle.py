"""Who would have to go for a pod, by trying it on copies of the cluster, one node after the other in plain Python.

Written against kube-scheduler's own text, not against the product: slow, and easy to read.
"""

from types import SimpleNamespace

from tests.reactors.scheduling import oracle
from tests.reactors.scheduling import term_oracle as plainly

HOPELESS = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)


def refusal(pod, name, state):
    """(reasons of the first filter that refuses the node, whether evictions cannot help); None where it fits."""
    nodes = oracle.nodes(state)
    node = next(one for one in nodes if one.name == name)
    if node.row.unschedulable:
        return {"node(s) were unschedulable"}, True
    taints = plainly.untolerated(pod, node, "NoSchedule", "NoExecute")
    if taints:
        return {"taint"}, True
    if not plainly.selected(pod, node):
        return {"node(s) didn't match Pod's node affinity/selector"}, True
    if plainly.ports_clash(pod, node):
        return {"node(s) didn't have free ports for the requested pod ports"}, False
    if found := oracle.fit_reasons(pod, node):
        asked = oracle.requests(pod).items()
        return found, any(amount > node.allocatable.get(one, 0) for one, amount in asked)
    for why in (
        plainly.spread_reason(pod, node, nodes),
        plainly.affinity_reason(pod, node, nodes, state),
    ):
        if why:
            return {why}, why in HOPELESS
    return None


def without(state, uids):
    pods = {uid: pod for uid, pod in state.pods.items() if uid not in uids}
    return SimpleNamespace(nodes=state.nodes, pods=pods, namespaces=state.namespaces)


def importance(pod):
    return -pod.priority, pod.started_us, pod.uid


def violating(pods, budgets):
    """Uids of the pods, in this order, that find a budget of theirs used up."""
    left, found = {number: one["allowed"] for number, one in enumerate(budgets)}, set()
    for pod in pods:
        for number, one in enumerate(budgets):
            if one["namespace"] == pod.namespace and one["selects"](pod.labels) and pod.labels:
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.uid)
    return found


def candidates(pod, state, budgets=()):
    """By node: (victims, the most important first, how many are protected)."""
    found = {}
    for node in oracle.nodes(state):
        why = refusal(pod, node.name, state)
        assert why is not None
        if why[1]:
            continue
        lower = sorted((o for o in node.pods if o.priority < pod.priority), key=importance)
        gone = {one.uid for one in lower}
        if not lower or refusal(pod, node.name, without(state, gone)):
            continue
        protected = violating(lower, budgets)
        for one in sorted(lower, key=lambda one: one.uid not in protected):
            if refusal(pod, node.name, without(state, gone - {one.uid})) is None:
                gone -= {one.uid}
        if gone:
            victims = [one for one in lower if one.uid in gone]
            found[node.name] = (victims, len(gone & protected))
    return found


def best(found):
    """The nodes of the candidates that cost the least."""
    left = dict(found)
    for cost in (
        lambda victims, protected: protected,
        lambda victims, protected: victims[0].priority,
        lambda victims, protected: sum(one.priority + 2**31 for one in victims),
        lambda victims, protected: len(victims),
        lambda victims, protected: (
            -min(o.started_us for o in victims if o.priority == victims[0].priority)
        ),
    ):
        least = min(cost(*one) for one in left.values())
        left = {name: one for name, one in left.items() if cost(*one) == least}
    return set(left)
