"""Slices, claims and a pod that holds by a claim, with defaults; times as in `tests.factories`."""

from functools import partial

from bus.events.devices import (
    Allocation,
    Device,
    DeviceResult,
    ResourceClaimObserved,
    ResourceSliceObserved,
)
from bus.events.observations import ObjectsListed
from bus.kube.watch.lists import listed
from tests import factories as given

DRIVER = "gpu.nvidia.com"


def slice_observed(*devices, version=1, at=0, name="s", pool="n", **fields):
    """A slice of these devices was seen."""
    body = ResourceSliceObserved(
        uid=f"slice-{name}", name=name, resource_version=str(version), driver=DRIVER, pool=pool,
        node="n", devices=devices, **fields,
    )  # fmt: skip
    id = f"{body.wire_type}/{body.uid}/{version}"
    return given.said(body, key=body.uid, id=id, at=at)


def claim_observed(uid="g", *devices, version=1, at=0, stamp=None, **fields):
    """A claim was seen, with these devices of pool ``n`` where it was given any."""
    fields = {"namespace": "ns", "name": uid, "created": given.stamp(0), **fields}
    results = tuple(DeviceResult("gpu", DRIVER, "n", device) for device in devices)
    allocation = Allocation(given.stamp(stamp), results) if devices else None
    body = ResourceClaimObserved(
        uid=uid, resource_version=str(version), allocation=allocation, **fields
    )
    return given.said(body, key=uid, id=f"{body.wire_type}/{uid}/{version}", at=at)


def claims_listed(uids, at, kind="ResourceClaim"):
    """One complete list of claims, or of slices."""
    return listed(
        partial(ObjectsListed, kind=kind),
        uids,
        resource_version="9",
        time_us=given.us(at),
        cluster=given.CLUSTER,
        source="test",
        name=kind,
    )


def card(name, model, memory="80Gi"):
    """A whole card."""
    return Device(name, attributes={"productName": model}, capacity={"memory": memory})


def claimed():
    """A pod holds two cards of two models by one claim, for 60 s."""
    return [
        slice_observed(card("gpu-0", "H100"), card("gpu-1", "A100")),
        claim_observed("g", "gpu-0", "gpu-1", stamp=1, at=2),
        given.pod_observed("claims", claims=("g",), at=3),
        given.pod_vanished("claims", claims=("g",), at=60),
        *claims_listed(["g"], 900),
        *claims_listed(["slice-s"], 800, "ResourceSlice"),
    ]
