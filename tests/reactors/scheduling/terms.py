"""Random terms of pods and nodes, as the API has them, and worlds that are full of them."""

from random import Random

import msgspec

from bus.events.constraints import PodConstraints, Taint
from tests import factories as f
from tests.reactors.scheduling.worlds import World, asked

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KEYS = (ZONE, HOST, "disk")
TEXTS = {
    ZONE: ("z1", "z2"),
    HOST: ("n0", "n1", "n2", "n3", "n4"),
    "disk": ("ssd", "7"),
}
APPS = ("a", "b")
SPACES = ("ns", "ns", "other")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def constrained(constraints):
    """The raw constraints of a fact, from the API's own JSON."""
    found = msgspec.json.decode(msgspec.json.encode(constraints), type=PodConstraints)
    return {"constraints": msgspec.Raw(msgspec.json.encode(found, order="sorted"))}


def some(random, make, most=2):
    return [make(random) for _ in range(random.randint(0, most))]


def requirement(random):
    key = random.choice((*KEYS, "absent"))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = random.sample(TEXTS.get(key, ("x", "y")), k=random.randint(1, 2))
    if operator in ("Gt", "Lt"):
        key, values = "disk", [random.choice(("5", "9", "x"))]
    return {"key": key, "operator": operator, "values": values}


def node_term(random):
    fields = [
        {"key": "metadata.name", "operator": random.choice(("In", "NotIn")), "values": ["n1"]}
    ]
    return {
        "matchExpressions": some(random, requirement),
        "matchFields": fields if random.random() < 0.2 else [],
    }


def selector(random):
    if random.random() < 0.1:
        return random.choice((None, {}))
    if random.random() < 0.5:
        return {"matchLabels": {"app": random.choice(APPS)}}
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    key = random.choice(("app", "k8s-app"))
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": [random.choice(APPS)]}]
    }


def pod_term(random):
    found = {"topologyKey": random.choice(KEYS), "labelSelector": selector(random)}
    if random.random() < 0.2:
        found["namespaces"] = [random.choice(SPACES)]
    if random.random() < 0.2:
        names = {"kubernetes.io/metadata.name": random.choice(SPACES)}
        found["namespaceSelector"] = random.choice(({}, {"matchLabels": names}))
    if random.random() < 0.2:
        found[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["app"]
    return found


def weighted(random):
    return {"weight": random.randint(1, 100), "podAffinityTerm": pod_term(random)}


def affinity(random):
    required, preferred = (
        f"{one}DuringSchedulingIgnoredDuringExecution" for one in ("required", "preferred")
    )
    found = {}
    if random.random() < 0.4:
        found["nodeAffinity"] = {
            preferred: [
                {"weight": random.randint(1, 100), "preference": node_term(random)}
                for _ in range(random.randint(0, 2))
            ]
        }
        if random.random() < 0.5:
            found["nodeAffinity"][required] = {"nodeSelectorTerms": some(random, node_term)}
    for kind in ("podAffinity", "podAntiAffinity"):
        if random.random() < 0.4:
            found[kind] = {
                required: some(random, pod_term, 1),
                preferred: some(random, weighted),
            }
    return found


def toleration(random):
    return {
        "key": random.choice(("k", "l", "")),
        "operator": random.choice(("Exists", "Equal", "")),
        "value": random.choice(("v", "")),
        "effect": random.choice((*EFFECTS, "")),
    }


def spread(random):
    return {
        "maxSkew": random.randint(1, 2),
        "topologyKey": random.choice(KEYS),
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": selector(random),
        "minDomains": random.choice((None, None, None, 2)),
        "nodeAffinityPolicy": random.choice((None, "Honor", "Ignore")),
        "nodeTaintsPolicy": random.choice((None, "Honor", "Ignore")),
        "matchLabelKeys": random.choice((None, ["app"])),
    }


def port(random):
    return {
        "hostPort": random.choice((80, 81)),
        "protocol": random.choice(("TCP", "UDP")),
        "hostIP": random.choice(("", "10.0.0.1", "0.0.0.0", "10.0.0.2")),
    }


def terms(random):
    """The constraints of one pod."""
    found = {}
    if random.random() < 0.2:
        key = random.choice(KEYS)
        found["nodeSelector"] = {key: random.choice(TEXTS[key])}
    if random.random() < 0.5:
        found["affinity"] = affinity(random)
    if random.random() < 0.4:
        found["tolerations"] = some(random, toleration)
    if random.random() < 0.5:
        found["topologySpreadConstraints"] = some(random, spread)
    if random.random() < 0.3:
        found["hostPorts"] = some(random, port)
    return found


def placed(random, node):
    """Fields of a pod with random labels and terms."""
    return {
        "node": node, "namespace": random.choice(SPACES),
        "labels": {"app": random.choice(APPS)} if random.random() < 0.9 else {},
        "deletion": 50 if random.random() < 0.1 else None,
        **asked(random), **constrained(terms(random)),
    }  # fmt: skip


def constrained_world(seed):
    """Nodes with labels and taints, pods with terms on them; and the random numbers that go on."""
    random, world = Random(seed), World()
    world.see(f.namespace_observed("other", labels={"team": "x"}))
    for number in range(random.randint(1, 5)):
        labels = {key: random.choice(TEXTS[key]) for key in (ZONE, "disk") if random.random() < 0.9}
        if random.random() < 0.9:
            labels[HOST] = f"n{number}"
        taints = tuple(
            Taint(random.choice("kl"), random.choice(("v", "")), random.choice(EFFECTS))
            for _ in range(random.choice((0, 0, 1, 2)))
        )
        world.node(
            f"n{number}", further_labels=labels, taints=taints, unschedulable=random.random() < 0.1
        )
    names = [one.name for one in world.state.current_nodes()]
    for number in range(random.randint(0, 14)):
        world.pod(f"held{number}", **placed(random, random.choice((*names, None))))
    return world, random
