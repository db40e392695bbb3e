"""Where a pod fits and how good each node is, one node after the other in plain Python, from the rows of the cluster.

Written against kube-scheduler's own text, not against the product: slow, and easy to read.
"""

from fractions import Fraction

LEAST_CPU, LEAST_MEMORY = 100, 200 * 2**20


def amount(name, text):
    units = {"": 1, "m": Fraction(1, 1000), "k": 1000, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    unit = next(one for one in ("Ki", "Mi", "Gi", "m", "k", "") if text.endswith(one))
    number = Fraction(text.removesuffix(unit)) * units[unit]
    return int(number * 1000) if name == "cpu" else int(number)


def requests(pod):
    return {
        name.removeprefix("requests."): amount
        for name, amount in pod.demand.items()
        if name.startswith("requests.")
    }


class Node:
    """A node with the pods that hold a part of it."""

    def __init__(self, row, state):
        self.row, self.name = row, row.name
        self.allocatable = {name: amount(name, text) for name, text in row.allocatable.items()}
        self.pods = [
            one
            for one in state.pods.values()
            if one.node == row.name and one.phase not in ("Succeeded", "Failed")
        ]
        self.used, self.nonzero = {}, {"cpu": 0, "memory": 0}
        for pod in self.pods:
            for name, asked in requests(pod).items():
                self.used[name] = self.used.get(name, 0) + asked
            self.nonzero["cpu"] += requests(pod).get("cpu", 0) or LEAST_CPU
            self.nonzero["memory"] += requests(pod).get("memory", 0) or LEAST_MEMORY

    def free(self, name):
        return self.allocatable.get(name, 0) - self.used.get(name, 0)


def nodes(state):
    return [Node(one, state) for one in sorted(state.nodes.values(), key=lambda one: one.uid)]


def fit_reasons(pod, node):
    found = set()
    if len(node.pods) + 1 > node.allocatable["pods"]:
        found.add("Too many pods")
    for name, asked in requests(pod).items():
        if asked > node.free(name):
            found.add(f"Insufficient {name}")
    return found


def filled(pod, node, name):
    """(requested with the pod, capacity), as the scores of NodeResourcesFit count them."""
    asked = requests(pod).get(name, 0)
    least = {"cpu": LEAST_CPU, "memory": LEAST_MEMORY}
    if name in least:
        return node.nonzero[name] + (asked or least[name]), node.allocatable.get(name, 0)
    return node.used.get(name, 0) + asked, node.allocatable.get(name, 0) if asked else 0


def fit_score(pod, node, strategy, weights, shape=()):
    total = weight = 0
    for name, counts in weights.items():
        requested, capacity = filled(pod, node, name)
        if not capacity:
            continue
        if strategy == "LeastAllocated":
            score = 0 if requested > capacity else (capacity - requested) * 100 // capacity
        elif strategy == "MostAllocated":
            score = min(requested, capacity) * 100 // capacity
        else:
            score = bent(shape, 100 if requested > capacity else requested * 100 // capacity)
            counts = counts if score else 0
        total += score * counts
        weight += counts
    if not weight:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return int(Fraction(total, weight) + Fraction(1, 2))
    return total // weight


def bent(shape, percent):
    for at, (utilization, score) in enumerate(shape):
        if percent <= utilization:
            if at == 0:
                return score * 10
            before, low = shape[at - 1]
            return low * 10 + int(
                Fraction((score - low) * 10 * (percent - before), utilization - before)
            )
    return shape[-1][1] * 10


def balance(used, capacities):
    fractions = [min(u / c, 1.0) for u, c in zip(used, capacities, strict=True) if c]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = (sum((one - mean) ** 2 for one in fractions) / len(fractions)) ** 0.5
    return int((1 - deviation) * 100.0)


def balanced_score(pod, node, names):
    asked = requests(pod)
    names = [one for one in names if one in ("cpu", "memory") or asked.get(one)]
    capacities = [node.allocatable.get(one, 0) for one in names]
    used = [node.used.get(one, 0) for one in names]
    with_pod = [one + asked.get(name, 0) for one, name in zip(used, names, strict=True)]
    return 50 + (50 + balance(with_pod, capacities) - balance(used, capacities)) // 2
