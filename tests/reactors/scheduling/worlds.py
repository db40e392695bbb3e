"""Small clusters for schedulers: facts folded into a ClusterState, and columns over it."""

from random import Random

from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.vocabulary import read
from projections.cluster import ClusterState
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle
from tests import factories as f

_PLAIN = ("free", "allocatable")
_EXACT = ("pods", "most_pods", "unschedulable")
ROOMY = {"cpu": "16", "memory": "64Gi", "pods": "110"}


class World:
    """A cluster; columns follow it from the moment they are asked for."""

    def __init__(self, *events: Event):
        self.state = ClusterState()
        self._columns = None
        #: Who hears of changes in the place of the columns.
        self.listeners = []
        self._version = 0
        for event in events:
            self.see(event)

    def see(self, event):
        self.state.apply(read(event, VOCABULARY), event)
        changes = list(self.state.changes(event))
        if self._columns is not None and not self.listeners:
            self._columns.follow(changes)
        for heard in self.listeners:
            heard(changes)

    @property
    def columns(self):
        if self._columns is None:
            self._columns = Columns(self.state)
        return self._columns

    @property
    def context(self):
        return PluginContext(self.columns)

    def node(self, name, **fields):
        self._version += 1
        fields.setdefault("allocatable", ROOMY)
        fields.setdefault("uid", f"uid-{name}")
        self.see(f.node_observed(name, self._version, self._version, **fields))
        return self

    def pod(self, uid, node=None, **fields):
        """A pod, waiting unless ``node`` says where it is; its row."""
        self._version += 1
        self.see(f.pod_observed(uid, self._version, self._version, node=node, **fields))
        return self.state.pods.get(uid)

    def claim(self, name, **fields):
        self._version += 1
        self.see(f.claim_observed(name, self._version, self._version, **fields))

    def volume(self, name, **fields):
        self._version += 1
        self.see(f.volume_observed(name, self._version, self._version, **fields))

    def storage(self, kind, name, **fields):
        """Another fact about storage."""
        self._version += 1
        body = kind(uid=f"uid-{name}", name=name, resource_version=str(self._version), **fields)
        id = f"{body.wire_type}/{body.uid}/{self._version}"
        self.see(f.said(body, key=body.uid, id=id, at=self._version))

    def gone(self, uid):
        self._version += 1
        self.see(f.pod_vanished(uid, self._version, self._version))

    def cycle(self, uid="p", **fields):
        """The cycle of a waiting pod."""
        return Cycle(self.pod(uid, **fields), self.context)


def reasons(plugin, cycle):
    """By node name: why a plugin refuses it."""
    found = {}
    for one in plugin.filter(cycle, slice(None)):
        for row, name in enumerate(cycle.columns.names):
            if one.nodes[row]:
                found.setdefault(name, set()).add(one.reason)
    return found


def scores(plugin, cycle):
    """By node name: its score, normalized over all nodes where the plugin does that."""
    found = plugin.score(cycle, slice(None))
    if hasattr(plugin, "normalize"):
        found = plugin.normalize(cycle, found)
    return dict(zip(cycle.columns.names, found.tolist(), strict=True))


def random_world(seed, nodes=6, pods=14):
    """Nodes of several sizes, some cordoned, with pods on them."""
    random = Random(seed)
    world = World()
    for number in range(random.randint(1, nodes)):
        allocatable = {
            "cpu": random.choice(("2", "4", "7500m")),
            "memory": random.choice(("4Gi", "16Gi", "9000000k")),
            "pods": random.choice(("3", "110")),
        }
        if random.random() < 0.5:
            allocatable["nvidia.com/gpu"] = random.choice(("2", "8"))
        world.node(
            f"n{random.randint(0, 99)}-{number}",
            uid=f"u{random.randint(100, 999)}-{number}",
            allocatable=allocatable,
            unschedulable=random.random() < 0.2,
        )
    names = [one.name for one in world.state.current_nodes()]
    for number in range(random.randint(0, pods)):
        world.pod(f"held{number}", random.choice((*names, None, "elsewhere")), **asked(random))
    return world, random


def asked(random):
    """What a random pod requests."""
    found = {"cpu": random.choice(("", "100m", "1", "1500m"))}
    found["memory"] = random.choice(("", "200Mi", "1Gi", "3Gi"))
    if random.random() < 0.3:
        found["nvidia.com/gpu"] = random.choice("12")
    found = {name: text for name, text in found.items() if text}
    return {"resources": f.requesting(found)}


def changed(world, random):
    """One thing happens in a world."""
    names = [one.name for one in world.state.current_nodes()]
    does = random.randrange(5)
    if does == 0:
        labels = {"app": random.choice("xy")}
        world.node(random.choice(("n1", "n2", *names)), labels=labels, model=random.choice("ab"))
    elif does == 1:
        world.gone(random.choice(sorted(world.state.pods) or ["nobody"]))
    elif does == 2:
        phase = random.choice(("Running", "Succeeded"))
        world.pod(f"held{random.randrange(9)}", random.choice(names), phase=phase, **asked(random))
    elif does == 3 and len(names) > 1:
        uid = next(one.uid for one in world.state.current_nodes() if one.name == names[0])
        world.see(f.node_vanished(names[0], 10**6, 10**6, uid=uid))
    else:
        world.pod(f"new{random.randrange(9)}", random.choice((*names, None)), **asked(random))


def shown(columns):
    """Everything that plugins read, whatever numbers texts and resources have."""
    offered = {resource for node in columns.nodes for resource in node.allocatable}
    by_name = {
        name: {
            one: getattr(columns.resources, name)[:, at].tolist()
            for one, at in columns.resources.names.items()
            if one in offered and getattr(columns.resources, name)[:, at].any()
        }
        for name in _PLAIN
    }
    texts = {number: text for text, number in columns.labels.texts.items()}
    labels = {
        key: [texts.get(int(one), "") for one in columns.labels.of(key)] for key in ("zone", "app")
    }
    plain = {name: getattr(columns, name).tolist() for name in _EXACT}
    plain |= {"nonzero": columns.resources.nonzero.tolist(), "cards": columns.cards.each.tolist()}
    model = [texts.get(int(one), "") for one in columns.labels.model]
    crowds = sorted(
        (one.namespace, sorted(one.labels.items()), one.is_terminating, repr(one.affinity), sorted(one.on.items()))
        for one in columns.crowds
    )  # fmt: skip
    taints = [columns.labels.taints[at] for at in columns.labels.taint_set]
    return columns.names, by_name, labels, plain, model, crowds, columns.ports, taints
