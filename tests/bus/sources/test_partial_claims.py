"""A claim with a part that cannot be read is charged by its other parts, and never as nothing."""

import json

import pytest

from bus.errors import BursarError
from bus.events.devices import ResourceClaimObserved
from bus.kube.client import answers
from bus.sources import partial_claims
from bus.sources.catalogue import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from projections.devices.demand import GPU_DRIVERS, Sizes, asked
from tests.bus.counting import counted_calls
from tests.bus.kube.watch.fakes import Followed
from tests.bus.kube.watch.odd_bytes import ODD, written
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "c", "name": "c", "namespace": "ns", "resourceVersion": "7"}
GPU = "gpu.nvidia.com"
RESULT = {"request": "g", "driver": GPU, "pool": "n", "device": "gpu-0"}
#: Other values are objects of which a member that is never read is unreadable.
READABLE = {"brackets in texts", "doubled key by an escape", "5,000 objects"}
UNREADABLE = [odd for name, odd in ODD.items() if name not in READABLE]


def one(name="g", device_class=GPU, **exactly):
    return {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}


def claim(requests, status=None, **metadata):
    spec = {"devices": {"requests": requests}}
    return {"metadata": METADATA | metadata, "spec": spec, "status": status or {}}


def fact(thing, odd):
    return body(partial_claims.translate_claim(record(written(thing, odd)), POLICY))


def demand(thing, odd):
    event = partial_claims.translate_claim(record(written(thing, odd)), POLICY)
    return asked(ResourceClaimObserved.read(event).requests, Sizes({}, {}))


@pytest.mark.parametrize("odd", UNREADABLE)
def test_an_unreadable_count_is_the_most_that_the_class_may_give(odd):
    requests = [one(count="@"), one("h", "gpu.amd.com", count=2)]

    assert demand(claim(requests), odd) == {
        f"dra/{GPU}": 32, "nvidia.com/gpu": 32, "dra/gpu.amd.com": 2, "amd.com/gpu": 2,
    }  # fmt: skip


@pytest.mark.parametrize("odd", UNREADABLE)
@pytest.mark.parametrize(
    "thing",
    [
        claim([one(device_class="@")]),
        claim([{"name": "g", "exactly": "@"}]),
        claim(["@"]),
        claim("@"),
        {"metadata": METADATA, "spec": {"devices": "@"}},
        {"metadata": METADATA, "spec": "@"},
    ],
    ids=["class", "exactly", "request", "requests", "devices", "spec"],
)
def test_without_a_readable_class_each_vendor_s_cards_are_charged(thing, odd):
    found = demand(thing, odd)

    assert {key: found[f"dra/{key}"] for key in GPU_DRIVERS} == dict.fromkeys(GPU_DRIVERS, 32)


@pytest.mark.parametrize("odd", UNREADABLE)
def test_what_can_be_read_is_carried(odd):
    status = {"allocation": {"allocationTimestamp": "@", "devices": {"results": [RESULT, "@"]}}}
    labels = {"team": "vision", "odd": "@"}
    found = fact(claim([one()], status, labels=labels, creationTimestamp="@"), odd)

    assert found["requests"] == [{"name": "g", "asks": [{"device_class": GPU}]}]
    assert found["allocation"]["results"] == [RESULT]
    assert "created" not in found


def test_a_claim_that_asks_for_nothing_is_charged_nothing():
    for thing in ({"metadata": METADATA}, claim([]), {"metadata": METADATA, "spec": {}}):
        assert demand(thing, b"") == {}


@pytest.mark.parametrize("name", ["uid", "name", "namespace", "resourceVersion"])
@pytest.mark.parametrize("odd", UNREADABLE)
def test_a_claim_without_an_identity_is_refused(name, odd):
    with pytest.raises(BursarError):
        fact(claim([one()], **{name: "@"}), odd)


def test_a_template_is_charged_in_the_same_way():
    spec = {"spec": {"devices": {"requests": [one(count="@")]}}}
    raw = written({"metadata": METADATA, "spec": spec}, rb'"\ud800"')
    found = body(partial_claims.translate_template(record(raw), POLICY))

    assert found["requests"][0]["asks"] == [{"device_class": GPU, "mode": "All"}]


def test_requests_that_no_message_holds_are_charged_as_each_vendor_s_cards():
    """32 requests of eight alternatives with the longest names make a fact of more than 64 KiB."""
    longest = "a" * 57 + "."
    several = [{"name": f"s{n}", "deviceClassName": (longest * 4 + str(n))[:253]} for n in range(8)]
    requests = [{"name": f"{n:063}", "firstAvailable": several} for n in range(32)]
    found = demand(claim(requests), b"")

    assert {key: found[f"dra/{key}"] for key in GPU_DRIVERS} == dict.fromkeys(GPU_DRIVERS, 32)
    raw = written(
        {"metadata": METADATA, "spec": {"spec": {"devices": {"requests": requests}}}}, b""
    )
    template = body(partial_claims.translate_template(record(raw), POLICY))
    assert len(template["requests"]) == 1


@pytest.mark.simulated
@pytest.mark.parametrize("source", [RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES])
async def test_a_list_names_such_a_claim_and_publishes_what_can_be_read(source):
    spec = {"devices": {"requests": [one(count="@")]}}
    bad = {"metadata": METADATA, "spec": spec if source is RESOURCE_CLAIMS else {"spec": spec}}
    raw = written(bad, b'{"a":1,"a":2}')
    pages = [
        answers.page(b'{"metadata":{"resourceVersion":"%d"},"items":[%b]}' % (version, items))
        for version, items in ((1, b""), (9, raw))
    ]
    watch = [b'{"type":"ADDED","object":%b}' % raw]
    async with Followed(pages, [watch], source=source) as followed:
        await followed.until(lambda f: f.state.unread_count)

        assert list(followed.state.unread) == ["ns/c"]
        observed = [one for one in followed.transport.events if one.type.endswith(".observed")]
        assert [json.loads(event.body)["uid"] for event in observed] == ["c"]
        listed = [one for one in followed.transport.events if one.type == "objects.listed"]
        assert json.loads(listed[-1].body)["uids"] == ["c"]


@pytest.mark.parametrize("unit", ["1,", '"",', "[[]],", '{"a":[]},'])
def test_opaque_parameters_are_skipped_in_few_steps(unit):
    """32 of them hold 160,000 values. Each list judged each value of them: 0.7 s for one claim."""
    thing = claim([one(count="x")])
    opaque = {"opaque": {"driver": GPU, "parameters": "@"}}
    thing["spec"]["devices"]["config"] = [opaque] * 32
    raw = written(thing, b"[%b1]" % (unit.encode() * (9_500 // len(unit))))

    with counted_calls() as calls:
        found = body(partial_claims.translate_claim(record(raw), POLICY))

    assert [one["name"] for one in found["requests"]] == ["g"] and calls[0] < 40_000
