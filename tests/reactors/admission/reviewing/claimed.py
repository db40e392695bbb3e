"""A cluster in which claims of devices, their templates and slices are seen, and such objects as they are reviewed."""

from bus.events.devices import (
    Allocation,
    Device,
    DeviceClassObserved,
    DeviceRequest,
    DeviceResult,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
    ResourceClaimVanished,
    ResourceSliceObserved,
)
from bus.events.namespaces import NamespaceObserved
from bus.events.workloads import WorkloadObserved
from tests.reactors.admission.below import owner
from tests.reactors.cluster import QUOTA, Cluster

GPU = "gpu.nvidia.com"
DEVICES, CARDS, MEMORY = f"limits.dra/{GPU}", "limits.nvidia.com/gpu", "limits.gpu-memory"
HARD = {"limits.cpu": 100_000, DEVICES: 8, CARDS: 8, MEMORY: 8 * 2**30}
OF_TEMPLATE = {
    "group": "resource.k8s.io",
    "version": "v1",
    "resource": "resourceclaimtemplates",
    "kind": "ResourceClaimTemplate",
}
OF_CLAIM = {
    "group": "resource.k8s.io",
    "version": "v1",
    "resource": "resourceclaims",
    "kind": "ResourceClaim",
}


class Devices(Cluster):
    """A cluster in which devices are seen."""

    async def see_slice(self, *names, memory="1Gi", parts=(), **fields):
        """``parts``: devices that all take of one set of counters, by their memory."""
        of_set = (
            Device(f"part-{n}", capacity={"memory": one}, consumes={"set": {"memory": one}})
            for n, one in enumerate(parts)
        )
        devices = (*(Device(name, capacity={"memory": memory}) for name in names), *of_set)
        fact = ResourceSliceObserved(
            uid="slice", name="slice", resource_version=self.version(), driver=GPU, pool="n1",
            node="n1", devices=devices, **fields,
        )  # fmt: skip
        await self.say(fact, "slice")

    async def see_class(self, name, extended_name=""):
        fact = DeviceClassObserved(
            uid=name, name=name, resource_version=self.version(), extended_name=extended_name
        )
        await self.say(fact, name)

    async def see_template(self, name, *asks, uid=""):
        fact = ResourceClaimTemplateObserved(
            uid=uid or f"template-{name}", namespace="ns", name=name,
            resource_version=self.version(), requests=(DeviceRequest("g", asks),),
        )  # fmt: skip
        await self.say(fact, fact.uid)

    async def lose_template(self, name, uid=""):
        fact = ResourceClaimTemplateVanished(
            uid=uid or f"template-{name}",
            namespace="ns",
            name=name,
            resource_version=self.version(),
        )
        await self.say(fact, fact.uid)

    async def see_job(self, uid, template, pods=1):
        fact = WorkloadObserved(
            uid=uid, kind="Job", namespace="ns", name=uid, resource_version=self.version(),
            labels={QUOTA: "team"}, demand={"limits.cpu": 1000, f"claims.template/{template}": pods},
        )  # fmt: skip
        await self.say(fact, uid)

    async def see_claim(self, name, *asks, pod=None, given=None, gone=False, labels=None):
        results = tuple(DeviceResult("g", GPU, "n1", one) for one in given or ())
        fact = (ResourceClaimVanished if gone else ResourceClaimObserved)(
            uid=name, namespace="ns", name=name, resource_version=self.version(),
            owner=owner("Pod", pod) if pod else None, is_generated=pod is not None,
            requests=(DeviceRequest("g", asks),), labels=labels or {},
            allocation=None if given is None else Allocation(results=results),
        )  # fmt: skip
        await self.say(fact, name)

    def version(self):
        return str(next(self._versions))

    def held(self, *keys):
        return tuple(self.used(key=key) for key in keys or (DEVICES, CARDS, MEMORY))


def of(item, *entries):
    """An object whose pods have these claims: names of templates."""
    spec = item["spec"].get("template", item)["spec"]
    spec["resourceClaims"] = [
        {"name": f"c{n}", "resourceClaimTemplateName": name} for n, name in enumerate(entries)
    ]
    return item


def claim(uid, count=1, **metadata):
    ask = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count}
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, **metadata},
        "spec": {"devices": {"requests": [{"name": "g", "exactly": ask}]}},
    }


def template(name, count):
    return {**claim(name), "spec": {"spec": claim(name, count)["spec"]}}


async def map_namespace(cluster):
    mapped = NamespaceObserved(
        uid="ns", name="ns", resource_version=cluster.version(), labels={QUOTA: "team"}
    )
    await cluster.say(mapped, "ns")
