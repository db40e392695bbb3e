"""Opaque parameters of a claim, kept byte for byte by an API server, change nothing of the claim's fact."""

import pytest

from bus.sources import devices
from tests.bus.kube.watch.odd_bytes import PARAMETERS, written
from tests.bus.sources.records import POLICY, record

REQUESTS = [
    {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 3}},
    {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.amd.com"}]},
]
RESULT = {"request": "a", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}


def claim(**more):
    metadata = {"uid": "c", "name": "c", "namespace": "ns", "resourceVersion": "7"}
    return {"metadata": metadata | more}


def plain():
    """A claim with nothing that is opaque."""
    allocation = {"devices": {"results": [RESULT]}}
    return claim() | {
        "spec": {"devices": {"requests": REQUESTS}},
        "status": {"allocation": allocation},
    }


def opaque(odd):
    """The same claim with parameters wherever an API server keeps some."""
    config = [{"opaque": {"driver": "d", "parameters": "@"}}] * 2
    data = [{"driver": "d", "pool": "n", "device": "x", "data": "@"}]
    found = claim(managedFields=[{"manager": "m", "fieldsV1": "@"}]) | {
        "spec": {"devices": {"config": config, "requests": REQUESTS, "constraints": []}},
        "status": {"allocation": {"devices": {"config": config, "results": [RESULT]}}, "devices": data},
    }  # fmt: skip
    return written(found, odd)


@pytest.mark.parametrize("change", ["ADDED", "DELETED"])
@pytest.mark.parametrize("odd", PARAMETERS.values(), ids=PARAMETERS)
def test_odd_parameters_change_nothing_of_a_claim(odd, change):
    want = devices.translate_claim(record(plain(), change), POLICY)

    assert devices.translate_claim(record(opaque(odd), change), POLICY) == want


@pytest.mark.parametrize("odd", PARAMETERS.values(), ids=PARAMETERS)
def test_odd_parameters_change_nothing_of_a_template(odd):
    config = [{"opaque": {"driver": "d", "parameters": "@"}}]
    devices_of = {"devices": {"requests": REQUESTS}}
    without = claim() | {"spec": {"spec": devices_of}}
    within = claim() | {"spec": {"spec": {"devices": {"config": config, "requests": REQUESTS}}}}
    want = devices.translate_template(record(without), POLICY)

    assert devices.translate_template(record(written(within, odd)), POLICY) == want
