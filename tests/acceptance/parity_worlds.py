"""Random small clusters as the API takes them: nodes, pods on them, and pods that wait, with every term that scheduling reads."""

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KEYS = (ZONE, HOST, "disk")
TEXTS = {ZONE: ("z1", "z2", "z3"), HOST: ("h0", "h1", "h2", "h3", "h4"), "disk": ("ssd", "7")}
APPS = ("a", "b")
#: Where pods are; the second has the label ``team: x``.
SPACES = ("parity", "parity", "other")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU = "nvidia.com/gpu"
#: By name: the size of an image, as every node says it.
IMAGES = {"pool/small:1": 90 * 2**20, "pool/large:latest": 2500 * 2**20, "pool/tiny:2": 2**20}
NAMES = ("pool/small:1", "pool/large", "pool/tiny:2", "pool/none:1")
#: A runtime class whose pods have this overhead.
HEAVY, OVERHEAD = "heavy", {"cpu": "250m", "memory": "120Mi"}
REQUIRED, PREFERRED = (
    f"{one}DuringSchedulingIgnoredDuringExecution" for one in ("required", "preferred")
)


def node(random, name, number):
    """A node of one of several sizes, with labels and taints."""
    labels = {key: random.choice(TEXTS[key]) for key in (ZONE, "disk") if random.random() < 0.9}
    if random.random() < 0.95:
        labels[HOST] = f"h{number}"
    allocatable = {
        "cpu": random.choice(("2", "4", "7500m")),
        "memory": random.choice(("4Gi", "16Gi", "9000000k")),
        "ephemeral-storage": "20Gi",
        "pods": random.choice(("3", "110", "110")),
    }
    if random.random() < 0.5:
        allocatable[GPU] = random.choice("248")
    if random.random() < 0.3:
        allocatable["hugepages-2Mi"] = "64Mi"
    taints = {
        (one["key"], one["effect"]): one
        for one in (
            {"key": random.choice("kl"), "value": random.choice(("v", "")), "effect": random.choice(EFFECTS)}
            for _ in range(random.choice((0, 0, 1, 2)))
        )
    }  # fmt: skip
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints.values()), "unschedulable": random.random() < 0.1},
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "images": [
                {"names": [f"docker.io/{name}"], "sizeBytes": size}
                for name, size in IMAGES.items()
                if random.random() < 0.5
            ],
        },
    }


def pod(random, name, names):
    """A pod that most nodes take, or one that few do; ``names`` are those of the nodes."""
    spec = {"terminationGracePeriodSeconds": 30, **_terms(random, names), **_containers(random)}
    if random.random() < 0.7:
        _soften(random, spec)
    return {
        "metadata": {
            "name": name, "namespace": random.choice(SPACES),
            "labels": {
                key: text
                for key, text in (("app", random.choice(APPS)), ("rev", random.choice("12")))
                if random.random() < 0.9
            },
        },
        "spec": spec,
    }  # fmt: skip


def _soften(random, spec):
    """Leave little that is required."""
    spec.pop("nodeSelector", None)
    if random.random() < 0.8:
        for one in spec.get("affinity", {}).values():
            one.pop(REQUIRED, None)
        spec["topologySpreadConstraints"] = [
            one
            for one in spec.get("topologySpreadConstraints", ())
            if one["whenUnsatisfiable"] == "ScheduleAnyway"
        ]
    if random.random() < 0.7:
        spec["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
    if random.random() < 0.7:
        spec.pop("resources", None)
        for one in (*spec["containers"], *spec["initContainers"]):
            one["resources"]["requests"].pop("cpu", None)


def _containers(random):
    containers = [_container(random, f"c{at}") for at in range(random.choice((1, 1, 2)))]
    ports = {
        (one["protocol"], one["hostPort"]): one
        for one in (_port(random) for _ in range(random.choice((0, 0, 0, 1, 2))))
    }
    containers[0]["ports"] = list(ports.values())
    first = []
    if random.random() < 0.25:
        first = [_container(random, f"i{at}") for at in range(random.randint(1, 2))]
        for one in first:
            if random.random() < 0.4:
                one["restartPolicy"] = "Always"
    found = {"containers": containers, "initContainers": first}
    if random.random() < 0.15:
        found["runtimeClassName"] = HEAVY
    elif random.random() < 0.1:
        # No less than all of its containers together. Not with an overhead: docs/scheduling.md, departures.
        found["resources"] = {"requests": {"cpu": random.choice(("5", "6"))}}
        if random.random() < 0.5:
            found["resources"]["requests"]["memory"] = "13Gi"
    if random.random() < 0.1:
        image = {"reference": f"docker.io/{random.choice(NAMES)}"}
        found["volumes"] = [{"name": "model", "image": image}]
    return found


def _container(random, name):
    requests = {
        "cpu": random.choice(("", "", "100m", "1", "1500m")),
        "memory": random.choice(("", "", "200Mi", "1Gi", "3Gi")),
        "ephemeral-storage": random.choice(("", "", "", "", "6Gi")),
        GPU: random.choice(("", "", "", "1", "2")),
    }
    requests = {key: text for key, text in requests.items() if text}
    if "memory" in requests and random.random() < 0.08:
        requests["hugepages-2Mi"] = random.choice(("4Mi", "40Mi"))
    limits = {key: text for key, text in requests.items() if key in (GPU, "hugepages-2Mi")}
    return {
        "name": name, "image": f"docker.io/{random.choice(NAMES)}",
        "resources": {"requests": requests, "limits": limits},
    }  # fmt: skip


def _port(random):
    found = {
        "containerPort": 80,
        "hostPort": random.choice((80, 81)),
        "protocol": random.choice(("TCP", "TCP", "UDP")),
    }
    address = random.choice(("", "10.0.0.1", "0.0.0.0", "10.0.0.2"))
    return found | ({"hostIP": address} if address else {})


def _terms(random, names):
    found = {}
    if random.random() < 0.15:
        key = random.choice(KEYS)
        found["nodeSelector"] = {key: random.choice(TEXTS[key])}
    if random.random() < 0.6:
        found["affinity"] = _affinity(random, names)
    if random.random() < 0.6:
        found["tolerations"] = _some(random, _toleration)
    if random.random() < 0.5:
        spreads = _some(random, _spread)
        spreads = {(one["topologyKey"], one["whenUnsatisfiable"]): one for one in spreads}
        found["topologySpreadConstraints"] = list(spreads.values())
    return found


def _some(random, make, most=2):
    return [make(random) for _ in range(random.randint(0, most))]


def _requirement(random):
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "disk", "operator": operator, "values": [random.choice(("5", "9"))]}
    key = random.choice((*KEYS, "absent"))
    found = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = random.sample(TEXTS.get(key, ("x", "y")), k=random.randint(1, 2))
    return found


def _node_term(random, names):
    found = {"matchExpressions": _some(random, _requirement)}
    if random.random() < 0.2:
        found["matchFields"] = [
            {
                "key": "metadata.name", "operator": random.choice(("In", "In", "NotIn")),
                "values": [random.choice((*names, "nowhere"))],
            }
            for _ in range(random.choice((1, 1, 1, 2)))
        ]  # fmt: skip
    return found


def _selector(random):
    if random.random() < 0.1:
        return random.choice((None, {}))
    if random.random() < 0.5:
        return {"matchLabels": {"app": random.choice(APPS)}}
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    found = {"key": random.choice(("app", "app", "k8s-app")), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = [random.choice(APPS)]
    return {"matchExpressions": [found]}


def _pod_term(random):
    found = {"topologyKey": random.choice(KEYS), "labelSelector": _selector(random)}
    if random.random() < 0.2:
        found["namespaces"] = [random.choice(SPACES)]
    if random.random() < 0.2:
        found["namespaceSelector"] = random.choice(({}, {"matchLabels": {"team": "x"}}))
    if random.random() < 0.2 and found["labelSelector"] is not None:
        found[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
    return found


def _affinity(random, names):
    found = {}
    if random.random() < 0.5:
        found["nodeAffinity"] = {
            PREFERRED: [
                {"weight": random.randint(1, 100), "preference": _node_term(random, names)}
                for _ in range(random.randint(0, 2))
            ]
        }
        if random.random() < 0.6:
            found["nodeAffinity"][REQUIRED] = {
                "nodeSelectorTerms": [
                    _node_term(random, names) for _ in range(random.randint(1, 2))
                ]
            }
    for kind in ("podAffinity", "podAntiAffinity"):
        if random.random() < 0.4:
            found[kind] = {
                REQUIRED: _some(random, _pod_term, 1),
                PREFERRED: [
                    {"weight": random.randint(1, 100), "podAffinityTerm": one}
                    for one in _some(random, _pod_term)
                ],
            }
    return found


def _toleration(random):
    key, operator = random.choice(("k", "l", "")), random.choice(("Exists", "Equal"))
    found = {
        "key": key,
        "operator": operator if key else "Exists",
        "effect": random.choice((*EFFECTS, "")),
    }
    if found["operator"] == "Equal":
        found["value"] = random.choice(("v", ""))
    return found


def _spread(random):
    found = {
        "maxSkew": random.randint(1, 2), "topologyKey": random.choice(KEYS),
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(random),
        "nodeAffinityPolicy": random.choice((None, "Honor", "Ignore")),
        "nodeTaintsPolicy": random.choice((None, "Honor", "Ignore")),
    }  # fmt: skip
    if found["whenUnsatisfiable"] == "DoNotSchedule":
        found["minDomains"] = random.choice((None, None, 2, 3))
    if random.random() < 0.2 and found["labelSelector"] is not None:
        found["matchLabelKeys"] = ["rev"]
    return found
