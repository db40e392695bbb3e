"""Cards that are given out by claim: what the claim controller and the scheduler write for a pod that asks for one.

A claim of one request for one device, as :mod:`tests.cluster.devices` makes them, on nodes whose cards are whole or divided.
"""

from typing import Any

from tests.cluster import devices
from tests.simulation.apiserver import CONTROLLERS, ApiServer, Json, Key

ROOT = f"/apis/{devices.API}"
#: Which devices a class selects, by the type that the driver gives them.
TYPES = {devices.CLASSES[devices.WHOLE]: "gpu", devices.CLASSES[devices.PART]: "mig"}


class Claims:
    """Of one cluster."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def make(self, key: Key, pod: Json) -> None:
        """The claims that the pod's templates ask for, and their names in the pod's status."""
        made = []
        for source in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimTemplateName" not in source:
                continue
            template = self._at(
                "resourceclaimtemplates", key.namespace, source["resourceClaimTemplateName"]
            )
            name = f"{key.name}-{source['name']}"
            owner = {
                "apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod["metadata"]["uid"], "controller": True,
            }  # fmt: skip
            body = {
                "apiVersion": devices.API,
                "metadata": {
                    "name": name,
                    "annotations": {"resource.kubernetes.io/pod-claim-name": source["name"]},
                    "ownerReferences": [owner],
                },
                "spec": template["spec"]["spec"],
            }
            path = f"{ROOT}/namespaces/{key.namespace}/resourceclaims"
            await self._api.create(path, body, user=CONTROLLERS)
            made.append({"name": source["name"], "resourceClaimName": name})
        if made:
            self._api.change(key, status={"resourceClaimStatuses": made})

    def node_of(self, key: Key, pod: Json) -> str | None:
        """Where the pod's claims can be had, all of them held for it from now on; None = nowhere now."""
        given = {}
        for name in self._names(pod):
            claim = self._at("resourceclaims", key.namespace, name)
            found = claim.get("status", {}).get("allocation") or self._free(claim)
            if found is None:
                return None
            given[name] = found
        for name, allocation in given.items():
            held = Key(ROOT, "resourceclaims", key.namespace, name)
            user = {"resource": "pods", "name": key.name, "uid": pod["metadata"]["uid"]}
            users = self._api.objects[held].get("status", {}).get("reservedFor", [])
            self._api.change(held, status={"allocation": allocation, "reservedFor": [*users, user]})
        (node,) = {one["devices"]["results"][0]["pool"] for one in given.values()}
        return node

    def release(self) -> None:
        """Claims of pods that ended go: made for one, with it; those of many once nobody holds them are free."""
        alive = {
            pod["metadata"]["uid"]
            for _, pod in self._api.of("Pod")
            if pod["status"]["phase"] not in ("Succeeded", "Failed")
        }
        for key, claim in self._api.of("ResourceClaim"):
            owners = claim["metadata"].get("ownerReferences", ())
            users = claim.get("status", {}).get("reservedFor", [])
            left = [one for one in users if one["uid"] in alive]
            if left != users:
                still: Any = claim["status"]["allocation"] if left else None
                self._api.change(key, status={"reservedFor": left, "allocation": still})
            elif any(one["uid"] not in alive for one in owners):
                self._api.remove(key)

    def _free(self, claim: Json) -> Json | None:
        (ask,) = claim["spec"]["devices"]["requests"]
        kind = TYPES[ask["exactly"]["deviceClassName"]]
        taken = {
            (result["pool"], result["device"])
            for _, one in self._api.of("ResourceClaim")
            for result in (one.get("status", {}).get("allocation") or {})
            .get("devices", {})
            .get("results", ())
        }
        room: dict[tuple[str, str], int] = {}
        offered = []
        for _, one in self._api.of("ResourceSlice"):
            spec, pool = one["spec"], one["spec"]["pool"]["name"]
            for counter in spec.get("sharedCounters", ()):
                room[pool, counter["name"]] = devices.CARD_GIB
            offered += [(pool, device) for device in spec.get("devices", ())]
        for pool, device in offered:
            for name, gib in _takes(device):
                room[pool, name] -= gib * ((pool, device["name"]) in taken)
        for pool, device in offered:
            if device["attributes"]["type"]["string"] != kind or (pool, device["name"]) in taken:
                continue
            if all(room[pool, name] >= gib for name, gib in _takes(device)):
                result = {
                    "request": ask["name"], "driver": devices.DRIVER, "pool": pool, "device": device["name"],
                }  # fmt: skip
                return {
                    "devices": {"results": [result]},
                    "allocationTimestamp": self._api.stamp(),
                }
        return None

    def _names(self, pod: Json) -> list[str]:
        made = {
            one["name"]: one["resourceClaimName"]
            for one in pod["status"].get("resourceClaimStatuses", ())
        }
        return [
            one.get("resourceClaimName") or made[one["name"]]
            for one in pod["spec"].get("resourceClaims", ())
        ]

    def _at(self, plural: str, namespace: str, name: str) -> Json:
        return self._api.objects[Key(ROOT, plural, namespace, name)]


def _takes(device: Json) -> list[tuple[str, int]]:
    """GiB that it takes of each counter of its pool."""
    return [
        (one["counterSet"], int(one["counters"]["memory"]["value"].removesuffix("Gi")))
        for one in device.get("consumesCounters", ())
    ]
