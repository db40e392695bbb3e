"""Opaque parameters of a claim, kept byte for byte by an API server, change nothing of the claim's fact."""

import pytest

from bus.sources import devices
from tests.bus.kube.watch.odd_bytes import ODD, written
from tests.bus.sources.records import POLICY, record

REQUESTS = [
    {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 3}},
    {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.amd.com"}]},
]
RESULT = {"request": "a", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}
#: Parameters that look like what stands around them, each with a value that strict readers refuse.
VARIANTS = {
    **ODD,
    "an end of the list": rb'{"]}},":"\ud800","x":"]}}],\"items\":[]}"}',
    "marks of managedFields": rb'{"managedFields":["\ud800"],"managedFields":[1],"x":{"y":[1]},"spec":{}}',
    "marks of managedFields, from one to the next": b'{"a":0,"managedFields":[{"b":[1]},"spec"],"a":{"c":[1]},"spec":2}',
    "requests of its own": rb'{"requests":[],"requests":[{"name":"\ud800"}],"devices":{"requests":null}}',
    "a claim in a claim": rb'{"metadata":{"uid":"other","uid":"\udfff"},"spec":{"devices":{"requests":[]}},"status":null}',
    "a million empty arrays": b"[" + b"[]," * 300_000 + b'"\\ud800"]',
    "objects of 5,000 levels with texts": b'{"]":["}",' * 2_500 + rb'"\ud800"' + b"]}" * 2_500,
    "escapes without end": rb'"\ud800' + rb"\\\"" * 100_000 + b'"',
    "half of a pair beside a pair": rb'"\ud83d\ude00\ude00\ud83d"',
    "numbers of every size": b"[1e400,-0,0.0e-999," + b"1" * 400 + b",12345678901234567890123]",
    "keys that differ by escapes": rb'{"\/":1,"/":2,"\u002f":3}',
    "a byte order mark and white space": b' \t\r\n{"\xef\xbb\xbf":1,"\xef\xbb\xbf":2}\n ',
}  # fmt: skip


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
@pytest.mark.parametrize("odd", VARIANTS.values(), ids=VARIANTS)
def test_odd_parameters_change_nothing_of_a_claim(odd, change):
    want = devices.translate_claim(record(plain(), change), POLICY)

    assert devices.translate_claim(record(opaque(odd), change), POLICY) == want


@pytest.mark.parametrize("odd", VARIANTS.values(), ids=VARIANTS)
def test_odd_parameters_change_nothing_of_a_template(odd):
    config = [{"opaque": {"driver": "d", "parameters": "@"}}]
    devices_of = {"devices": {"requests": REQUESTS}}
    without = claim() | {"spec": {"spec": devices_of}}
    within = claim() | {"spec": {"spec": {"devices": {"config": config, "requests": REQUESTS}}}}
    want = devices.translate_template(record(without), POLICY)

    assert devices.translate_template(record(written(within, odd)), POLICY) == want
