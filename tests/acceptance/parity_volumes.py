"""Random storage of small clusters as the API takes it: CSINodes, volumes, claims, and pods that name them."""

from tests.acceptance.parity_worlds import HOST, SPACES, TEXTS, ZONE

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
STORAGE = "/apis/storage.k8s.io/v1"
CLAIMS = ("c0", "c1", "c2", "c3")
DRIVERS = ("d.example.org", "e.example.org")
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def csi_node(random, node):
    """How many volumes a node attaches; None where it says nothing."""
    if random.random() < 0.4:
        return None
    drivers = [{"name": one, "nodeID": "x"} for one in DRIVERS if random.random() < 0.8]
    for one in drivers:
        if random.random() < 0.8:
            one["allocatable"] = {"count": random.choice((1, 1, 2, 3))}
    return {"metadata": {"name": node}, "spec": {"drivers": drivers}}


def volume(random, name):
    """A volume of a driver, or of none, somewhere or everywhere."""
    labels = {}
    if random.random() < 0.3:
        labels[random.choice((ZONE, OLD_ZONE))] = random.choice(("z1", "z2", "z1__z3"))
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if random.random() < 0.7:
        handle = random.choice((name, "shared"))
        spec["csi"] = {"driver": random.choice(DRIVERS), "volumeHandle": handle}
    else:
        spec["hostPath"] = {"path": "/x"}
    if random.random() < 0.4:
        terms = [{"matchExpressions": [_in(random)]} for _ in range(random.randint(1, 2))]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def _in(random):
    key = random.choice((ZONE, HOST, "disk"))
    return {"key": key, "operator": "In", "values": random.sample(TEXTS[key], k=2)}


def claim(random, name, namespace, volumes):
    """A claim that is bound to a volume, and sometimes one that is not."""
    mode = "ReadWriteOncePod" if random.random() < 0.2 else "ReadWriteOnce"
    found = {
        "metadata": {"name": name, "namespace": namespace, "annotations": BOUND},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": random.choice((*volumes, "none") if random.random() < 0.2 else volumes),
            "storageClassName": "",
        },
    }
    if random.random() < 0.05:
        found["metadata"]["annotations"] = {}
    return found


def made(random, seed, names):
    """(path, manifest) of all of it, in the order in which it is to be made."""
    for name in names:
        if (one := csi_node(random, name)) is not None:
            yield f"{STORAGE}/csinodes", one
    volumes = [f"v{number}-{seed}" for number in range(4)]
    for name in volumes:
        yield "/api/v1/persistentvolumes", volume(random, name)
    for namespace in sorted(set(SPACES)):
        for name in CLAIMS:
            if random.random() < 0.9:
                path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
                yield path, claim(random, name, namespace, volumes)


def claims(random):
    """Volumes of a pod, mostly none."""
    if random.random() < 0.6:
        return []
    names = random.sample(CLAIMS, k=random.choice((1, 1, 2)))
    return [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in names]
