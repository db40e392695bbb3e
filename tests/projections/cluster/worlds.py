"""Random clusters as sources tell of them: late, twice, with lists that omit, and with objects that have a former one's name."""

from random import Random

import msgspec

from bus.events.devices import (
    DeviceAsk,
    DeviceRequest,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
)
from bus.events.nodes import NodeVanished
from bus.events.observations import ObjectsListed
from bus.events.pods import DisruptionBudgetVanished
from bus.events.priorities import PriorityClassObserved, PriorityClassVanished
from bus.events.volumes import ClaimVanished, VolumeVanished
from bus.kube.watch.lists import listed
from tests import factories as f

NAMES = ("a", "b", "c", "d")
KINDS = ("Deployment", "ReplicaSet", "Job")
BUDGET = "PodDisruptionBudget"
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
TEMPLATE = "ResourceClaimTemplate"
NODES = ("n1", "n2", "n3")
QUOTAS = ({}, {"biz.group.resource.quota": "q1"}, {"quota.scheduling.koordinator.sh/name": "e1"})


class World:
    """Objects come, change and go; ``events`` is what was said of them, in the order in which it was observed."""

    def __init__(self, seed, *, steps=60):
        self._random = Random(seed)
        self._version = 0
        self._second = 0.0
        self._made = 0
        #: Uid to (kind, fields) of what exists.
        self._objects = {}
        self.events = []
        for _ in range(steps):
            self._step()

    def _step(self):
        self._second += self._random.choice((0.5, 1, 5))
        does = self._random.choices(
            (self._make, self._change, self._delete, self._list, self._again), (6, 6, 3, 1, 2)
        )[0]
        does()

    def _make(self):
        kind = self._random.choice(
            (
                "Pod",
                "Pod",
                "Node",
                "Quota",
                "Namespace",
                "Class",
                BUDGET,
                CLAIM,
                VOLUME,
                TEMPLATE,
                *KINDS,
            )
        )
        if kind == "Namespace":
            self._see(f"namespace-{self._random.choice(NAMES)}", kind, {})
            return
        # Nobody has the name of an object that exists.
        taken = {fields["name"] for of, fields in self._objects.values() if of == kind}
        free = [name for name in NAMES if name not in taken]
        if free:
            self._made += 1
            uid = f"{self._random.choice('stuv')}-{self._made}"
            self._see(uid, kind, {"name": self._random.choice(free)})

    def _change(self):
        if self._objects:
            uid = self._random.choice(sorted(self._objects))
            self._see(uid, *self._objects[uid])

    def _see(self, uid, kind, fields):
        self._version += 1
        fields = dict(fields)
        if kind in ("Pod", *KINDS):
            owners = [one for one, (of, _) in sorted(self._objects.items()) if of in KINDS]
            fields["labels"] = self._random.choice(QUOTAS)
            chosen = self._random.choice((None, *owners))
            fields["owner"] = f.owner(chosen, self._objects[chosen][0]) if chosen else None
        if kind == "Pod":
            fields["node"] = self._random.choice((None, *NODES))
            fields["claim_templates"] = self._random.choice(((), (), ("a",), ("a", "b", "b")))
            fields["phase"] = self._random.choice(("Pending", "Running", "Running", "Succeeded"))
        self._objects[uid] = (kind, fields)
        event = self._observed(uid, kind, fields)
        # Some changes nobody watches.
        if event is not None and self._random.random() < 0.9:
            self.events.append(event)

    def _observed(self, uid, kind, fields):
        version, at = self._version, self._second
        if kind == "Pod":
            return f.pod_observed(uid, version, at, **fields)
        if kind == "Node":
            return f.node_observed(fields["name"], version, at, uid=uid)
        if kind == "Namespace":
            labels = self._random.choice(QUOTAS)
            return f.namespace_observed(uid[10:], version, at, labels=labels, team=str(version))
        if kind == "Quota":
            return f.quota_observed(fields["name"], version, at, uid=uid)
        if kind == "Class":
            name = fields["name"]
            body = PriorityClassObserved(uid=uid, name=name, resource_version=str(version), value=1)
            return _said(body, uid, version, at)
        if kind == BUDGET:
            allowed = self._random.randint(0, 2)
            return f.disruption_budget_observed(fields["name"], version, at, uid=uid, allowed=allowed)  # fmt: skip
        if kind in (CLAIM, VOLUME):
            make = f.claim_observed if kind == CLAIM else f.volume_observed
            return make(fields["name"], version, at, uid=uid, storage_class=f"c{version}")
        if kind == TEMPLATE:
            return _template(ResourceClaimTemplateObserved, uid, fields["name"], version, at)
        return f.workload_observed(uid, version, at, kind=kind, **fields)

    def _delete(self):
        gone = [uid for uid, (kind, _) in self._objects.items() if kind != "Namespace"]
        if not gone:
            return
        uid = self._random.choice(sorted(gone))
        kind, fields = self._objects.pop(uid)
        self._version += 1
        if self._random.random() < 0.6:
            self.events.append(self._vanished(uid, kind, fields))

    def _vanished(self, uid, kind, fields):
        version, at, name = self._version, self._second, fields["name"]
        if kind == "Pod":
            return f.pod_vanished(uid, version, at, name=name)
        if kind == "Node":
            body = NodeVanished(uid=uid, name=name, resource_version=str(version))
            return _said(body, uid, version, at)
        if kind == "Quota":
            return f.quota_vanished(name, version, at, uid=uid)
        if kind == "Class":
            body = PriorityClassVanished(uid=uid, name=name, resource_version=str(version))
            return _said(body, uid, version, at)
        if kind == BUDGET:
            body = DisruptionBudgetVanished(uid=uid, namespace="ns", name=name, resource_version=str(version))  # fmt: skip
            return _said(body, uid, version, at)
        if kind == CLAIM:
            body = ClaimVanished(uid=uid, namespace="ns", name=name, resource_version=str(version))
            return _said(body, uid, version, at)
        if kind == VOLUME:
            body = VolumeVanished(uid=uid, name=name, resource_version=str(version))
            return _said(body, uid, version, at)
        if kind == TEMPLATE:
            return _template(ResourceClaimTemplateVanished, uid, name, version, at)
        return f.workload_vanished(uid, version, at, kind=kind, name=name)

    def _list(self):
        """A complete list, of which some omit what exists."""
        kind = self._random.choice(("Pod", "Quota", BUDGET, CLAIM, VOLUME, TEMPLATE, *KINDS))
        omits = self._random.random() < 0.3
        uids = [
            uid
            for uid, (of, _) in self._objects.items()
            if of == kind and not (omits and self._random.random() < 0.5)
        ]
        per_part = self._random.choice((2, 1000))
        if kind == "Pod":
            self.events += f.pods_listed(uids, self._version, self._second, per_part=per_part)
            return
        kind = "BizGroupResourceQuota" if kind == "Quota" else kind
        self.events += listed(
            lambda **part: ObjectsListed(kind=kind, **part), uids, name=kind, per_part=per_part,
            resource_version=str(self._version), time_us=f.us(self._second), cluster=f.CLUSTER,
            source="test",
        )  # fmt: skip

    def _again(self):
        """Another watcher sees the present version of an object later."""
        if self.events:
            event = self._random.choice(self.events)
            if event.type.endswith(".observed"):
                self.events.append(msgspec.structs.replace(event, time_us=f.us(self._second)))

    def shuffled(self):
        """The same facts in another order, some of them twice."""
        found = [*self.events, *self._random.sample(self.events, len(self.events) // 4)]
        self._random.shuffle(found)
        return found


def _said(body, uid, version, at):
    return f.said(body, key=body.name, id=f"{body.wire_type}/{uid}/{version}", at=at)


def _template(fact, uid, name, version, at):
    body = fact(uid=uid, namespace="ns", name=name, resource_version=str(version))
    if fact is ResourceClaimTemplateObserved:
        ask = DeviceAsk("gpu.nvidia.com", count=version)
        body = msgspec.structs.replace(body, requests=(DeviceRequest("g", (ask,)),))
    return _said(body, uid, version, at)
