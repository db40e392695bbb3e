"""Cards that are given out by claim (Dynamic Resource Allocation), as a GPU driver offers them. Pure: from names to manifests.

A node's card is whole, or divided: then its partitions take of one counter, and the scheduler gives out those that fit.
"""

from typing import Any

from tests.cluster.api import Json

DRIVER = "gpu.nvidia.com"
API = "resource.k8s.io/v1"
#: A claim of one whole card, and of a partition: names of claim templates and of device classes.
WHOLE, PART = "gpu", "gpu-part"
CLASSES = {WHOLE: DRIVER, PART: "mig.nvidia.com"}
#: GiB of a card, and of each of the partitions into which it may be divided.
CARD_GIB = 180
PARTS_GIB = (23, 23, 23, 23, 45, 45, 90, 180)


def classes() -> list[Json]:
    """The device classes, which select by the type that the driver gives a device."""
    found = []
    for kind, name in (("gpu", CLASSES[WHOLE]), ("mig", CLASSES[PART])):
        expression = (
            f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{kind}"'
        )
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        found.append(_made("DeviceClass", name, spec))
    return found


def template(namespace: str, name: str) -> Json:
    """The template of claims of one device: :data:`WHOLE` or :data:`PART`."""
    ask = {"name": "gpu", "exactly": {"deviceClassName": CLASSES[name]}}
    made = _made("ResourceClaimTemplate", name, {"spec": {"devices": {"requests": [ask]}}})
    made["metadata"]["namespace"] = namespace
    return made


def slices(node: str, model: str, cards: int, *, divided: bool) -> list[Json]:
    """The slices of a node: its cards, or the counters of its cards and the partitions that take of them."""
    if not divided:
        whole = [_device(f"gpu-{n}", "gpu", model, CARD_GIB) for n in range(cards)]
        return [_slice(node, "devices", 1, {"devices": whole})]
    counters = [
        {"name": f"gpu-{n}", "counters": {"memory": {"value": f"{CARD_GIB}Gi"}}}
        for n in range(cards)
    ]
    parts = []
    for card in range(cards):
        for n, gib in enumerate(PARTS_GIB):
            taken = {"memory": {"value": f"{gib}Gi"}}
            part = _device(f"gpu-{card}-part-{n}", "mig", model, gib)
            parts.append(
                part | {"consumesCounters": [{"counterSet": f"gpu-{card}", "counters": taken}]}
            )
    # The API server takes counters and devices in slices of their own.
    return [
        _slice(node, "counters", 2, {"sharedCounters": counters}),
        _slice(node, "devices", 2, {"devices": parts}),
    ]


def _device(name: str, kind: str, model: str, gib: int) -> Json:
    return {
        "name": name,
        "attributes": {"type": {"string": kind}, "productName": {"string": model}},
        "capacity": {"memory": {"value": f"{gib}Gi"}},
    }


def _slice(node: str, what: str, count: int, content: dict[str, Any]) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
    return _made("ResourceSlice", f"{node}-{what}", spec)


def _made(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
