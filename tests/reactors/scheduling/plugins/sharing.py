"""Nodes with devices, pods that ask for parts of them, and Device objects."""

from bus.events.devices import NodeDevice, NodeDevicesObserved
from reactors.scheduling.plugins.device_share import DeviceShare
from tests import factories as f

GIB = 2**30
K = "koordinator.sh/"


def cards(count, gib=16, **more):
    """What a node with so many cards offers."""
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110", f"{K}gpu-core": str(100 * count)}
    return offered | {f"{K}gpu-memory": f"{gib * count}Gi", **more}


def asking(**requests):
    """What a pod requests."""
    wanted = {K + name.replace("_", "-"): str(amount) for name, amount in requests.items()}
    return {"resources": f.requesting(wanted)}


def given(world, uid, plugin=DeviceShare(), row=0, **fields):
    """Choose devices of a waiting pod and count it on them; what they are."""
    cycle = world.cycle(uid, **fields)
    chosen = plugin.cards(cycle, row)
    if chosen:
        world.columns.place(cycle.pod, world.columns.names[row], chosen)
    return chosen


def gpu(minor, gib=16, is_healthy=True, **place):
    amounts = {f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100", f"{K}gpu-memory": f"{gib}Gi"}
    return NodeDevice("gpu", minor, f"GPU-{minor}", is_healthy, amounts, **place)


def nic(minor, switch="", is_healthy=True, **more):
    return NodeDevice("rdma", minor, "", is_healthy, {f"{K}rdma": "100"}, switch=switch, **more)


def device_object(node, *devices, version=1, partitions="", at=1, labels=None):
    """The event that an agent's Device object was seen."""
    fact = NodeDevicesObserved(
        uid=f"d-{node}", name=node, resource_version=str(version), devices=devices, partitions=partitions,
        labels=labels or {},
    )  # fmt: skip
    return f.said(fact, key=node, id=f"device/{node}/{version}", at=at)


def found(world, node, *devices, version=1, partitions=""):
    """The world, of one of whose nodes an agent says the devices."""
    world.see(device_object(node, *devices, version=version, partitions=partitions, at=version))
    return world
