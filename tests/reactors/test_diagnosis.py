"""What the port of health tells of the scheduler: flags, nodes, elastic quotas, tables of scores."""

import json
import logging

import pytest

from bus.events.devices import NodeDevice
from bus.waiting import beside
from reactors.diagnosis import Diagnosis
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from reactors.webhook.health import HealthApplication
from tests.reactors.scheduling.binding_cpus import pod, scene, topology
from tests.reactors.scheduling.governed import Governed
from tests.reactors.scheduling.plugins.sharing import K, asking, cards, device_object, gpu, nic
from tests.reactors.scheduling.scene import Cluster
from tests.reactors.webhook.asking import ask
from tests.scenario import settled

pytestmark = pytest.mark.simulated


async def asked(diagnosis, path, method="GET", body=b""):
    return await ask(HealthApplication(routes=diagnosis.routes), body, path=path, method=method)


async def test_a_node_and_the_pods_on_it():
    cluster = Cluster()
    await cluster.say(cluster.node("a"), cluster.pod("p", "a"), cluster.pod("q"))
    answer = await asked(Diagnosis(lambda: cluster.runner.replica), "/apis/v1/nodes/a")
    found = json.loads(answer.body)

    assert (found["name"], [one["name"] for one in found["pods"]]) == ("a", ["p"])


async def test_what_a_node_should_offer_by_its_devices():
    """An agent found that a card is broken; nobody has told the node yet."""
    cluster = Cluster()
    labels = {"vendor": "nvidia", "model": "A100"}
    await cluster.say(
        cluster.node("a", allocatable=cards(2)), cluster.node("b"),
        device_object("a", gpu(0), gpu(1, is_healthy=False), nic(0), labels=labels),
    )  # fmt: skip
    asking_for = [f"/apis/v1/nodes/{name}" for name in ("a", "b")]
    a, b = [
        json.loads((await asked(Diagnosis(lambda: cluster.runner.replica), path)).body)
        for path in asking_for
    ]

    assert a["deviceResources"] == {
        "resources": {f"{K}gpu": 100, f"{K}gpu-core": 100, f"{K}gpu-memory-ratio": 100, f"{K}gpu-memory": 16 * 2**30},
        "labels": {"node.koordinator.sh/gpu-model": "A100", "node.koordinator.sh/gpu-vendor": "nvidia"},
    }  # fmt: skip
    assert a["allocatable"][f"{K}gpu-core"] == "200" and b["deviceResources"] is None


@pytest.mark.parametrize(
    ("vendor", "offered"),
    [
        ("nvidia", {f"{K}gpu": 120, f"{K}gpu-core": 120, f"{K}gpu.shared": 200}),
        ("huawei", {f"{K}gpu-core": 120, f"{K}gpu.shared": 200}),
    ],
)
async def test_a_node_offers_what_its_cards_name_and_shared_cards_by_their_number(vendor, offered):
    """Source: koordinator-sh/koordinator, gpudeviceresource/plugin.go."""
    cluster, shared = Cluster(), {f"{K}gpu.shared": "100"}
    devices = [
        NodeDevice("gpu", minor, "", is_healthy, {f"{K}gpu-core": core})
        for minor, (core, is_healthy) in enumerate([("100", True), ("20", True), ("100", False)])
    ]
    await cluster.say(
        cluster.node("a", allocatable=shared),
        device_object("a", *devices, nic(0), labels={"vendor": vendor}),
    )
    found = await asked(Diagnosis(lambda: cluster.runner.replica), "/apis/v1/nodes/a")

    assert json.loads(found.body)["deviceResources"]["resources"] == offered


async def test_elastic_quotas_in_the_fields_of_koordinator():
    async with Governed() as cluster:
        await cluster.begin()
        fields = {"kind": "ElasticQuota", "namespace": "quotas"}
        await cluster.see_quota("share", {}, min={"cpu": 1000}, max={"cpu": 2000}, **fields)
        await cluster.run("p", 1, labels={"quota.scheduling.koordinator.sh/name": "share"})
        await cluster.tick()
        diagnosis = Diagnosis(lambda: cluster.deciding.runner.replica)
        one = await asked(diagnosis, "/apis/v1/plugins/ElasticQuota/quota/share")
        every = await asked(diagnosis, "/apis/v1/plugins/ElasticQuota/quotas")
        absent = await asked(diagnosis, "/apis/v1/plugins/ElasticQuota/quota/no")

        assert json.loads(every.body) == {"share": json.loads(one.body)}
        assert json.loads(one.body)["used"] == {"cpu": 1000}
        assert (absent.status, json.loads(absent.body)) == (
            404,
            {"message": "cannot find quota no"},
        )


async def test_tables_are_logged_while_the_flag_wants_them(caplog):
    cluster = Cluster()
    diagnosis = Diagnosis(lambda: None)
    with caplog.at_level(logging.INFO, logger="reactors.diagnosis"):
        async with beside(diagnosis.follow(cluster.transport)):
            await settled()
            await cluster.set_policy(SchedulingPolicy())
            await cluster.say(cluster.node("a"), cluster.node("b"), cluster.pod("p"))
            await settled()
            before = len(caplog.messages)
            await asked(diagnosis, "/debug/flags/s", "PUT", b"1")
            await cluster.say(cluster.pod("q"))
            await settled()

    assert before == 0
    (said,) = caplog.messages
    lines = said.splitlines()[1:]
    assert lines[0].startswith("| # | Pod | Node | Score | ") and lines[1].startswith(
        "| --- | --- | --- | ---:|"
    )
    assert lines[2].startswith("| 0 | ns/q | ") and len(lines) == 3


async def test_debug_messages_of_our_packages_are_logged_from_verbosity_4_on():
    diagnosis, log = Diagnosis(lambda: None), logging.getLogger("reactors.webhook.listening")
    before = log.isEnabledFor(logging.DEBUG)
    answers = [
        await asked(diagnosis, "/debug/flags/v", "PUT", one) for one in (b"3", b"4", b"loud")
    ]
    is_told, others = (
        log.isEnabledFor(logging.DEBUG),
        logging.getLogger("asyncio").isEnabledFor(logging.DEBUG),
    )
    await asked(diagnosis, "/debug/flags/v", "PUT", b"0")

    assert [200, 200, 400] == [one.status for one in answers]
    assert answers[1].body == b"successfully set klog.logging.verbosity to 4"
    assert (before, is_told, others, log.isEnabledFor(logging.DEBUG)) == (False, True, False, False)


async def test_a_long_value_is_refused_before_it_is_read_whole():
    answer = await asked(Diagnosis(lambda: None), "/debug/flags/s", "PUT", b"1" * 1000)

    assert answer.status == 413


async def test_the_cpus_of_a_node_and_who_has_them():
    at = await scene("a")
    await at.say(pod(at, "p", 2), topology(at, "a", 2, reserved="7"))
    await at.tick()
    paths = [
        f"/apis/v1/plugins/NodeNUMAResource/{one}"
        for one in ("availableCPUs/a", "cpuTopologyOptions/a", "availableCPUs/b")
    ]
    answers = [await asked(Diagnosis(lambda: at.runner.replica), path) for path in paths]
    free, layout, absent = (json.loads(one.body) for one in answers)
    one = {"cpuID": 4, "coreID": 2, "nodeID": 1, "socketID": 0}

    assert free["availableCPUs"] == "0-3,6"
    assert free["allocated"] == {"4": one | {"refCount": 1}, "5": one | {"cpuID": 5, "refCount": 1}}
    assert layout["cpuTopology"]["cpuDetails"]["4"] == one
    assert (layout["cpuTopology"]["numNodes"], layout["reservedCPUs"]) == (2, "7")
    assert (answers[2].status, absent) == (404, {"message": "cannot find CPUs of node b"})


async def test_the_devices_of_nodes_and_who_has_them():
    cluster, core = Cluster(), f"{K}gpu-core"
    policy = SchedulingPolicy(profiles=(SchedulingProfile(weights={"DeviceShare": 1}),))
    await cluster.say(cluster.node("a", allocatable=cards(2)), cluster.node("b"))
    await cluster.set_policy(policy)
    await cluster.say(cluster.pod("p", **asking(gpu_core=30, gpu_memory=2**30)))
    await cluster.tick()
    diagnosis, path = Diagnosis(lambda: cluster.runner.replica), "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"  # fmt: skip
    every, one, none = [await asked(diagnosis, path + end) for end in ("", "/a", "/b")]
    found = json.loads(one.body)

    assert json.loads(every.body) == {"a": found}
    assert found["allocateSet"]["gpu"]["ns/p"]["0"][core] == 30
    assert [found[f"device{part}"][core] for part in ("Total", "Free", "Used")] == [200, 170, 30]
    assert found["deviceFreeDetail"]["gpu"]["0"][core] == 70
    assert (none.status, json.loads(none.body)["message"]) == (404, "cannot find devices of node b")


@pytest.mark.parametrize(
    "path", ["NodeNUMAResource/cpuTopologyOptions/a", "DeviceShare/nodeDeviceSummaries/a"]
)
async def test_nothing_is_known_of_parts_of_nodes_where_no_profile_asks_for_them(path):
    cluster = Cluster()
    await cluster.say(cluster.node("a"))
    answer = await asked(Diagnosis(lambda: cluster.runner.replica), f"/apis/v1/plugins/{path}")

    assert answer.status == 404
