"""Runs `deviceshare` cases: what requests of devices mean, how they lie on cards, and which cards are chosen."""

import numpy as np
import pytest

from bus.sources.catalogue import NODE_DEVICES
from bus.sources.node_devices import LABELS
from reactors.scheduling.columns import device_requests as requests
from reactors.scheduling.devices import rules
from reactors.scheduling.devices.rooms import NAMES as NAMES_OF
from reactors.scheduling.devices.rooms import DeviceColumns
from reactors.scheduling.devices.rules import Card, Part, Scope
from reactors.scheduling.diagnosis.summaries import offered_by_devices
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.worlds import World

NAMES = {
    "gpu": requests.GPU, "gpu_core": requests.CORE, "gpu_memory_ratio": requests.RATIO, "gpu_memory": requests.MEMORY,
    "gpu_shared": requests.SHARED, "nvidia_gpu": requests.NVIDIA, "amd_gpu": requests.AMD, "hygon_dcu": requests.HYGON,
    "npu_core": requests.NPU_CORE, "npu_cpu": requests.NPU_CPU, "npu_dvpp": requests.NPU_DVPP, "rdma": requests.RDMA,
    "fpga": requests.FPGA,
}  # fmt: skip
SHORT = {name: short for short, name in NAMES.items()}
BYTES = 80 * 2**30
WHOLE = {requests.CORE: 100, requests.RATIO: 100, requests.MEMORY: BYTES}


def check(case):
    """What the operation gives is what the case says."""
    given, expect = case["given"], case["expect"]
    if given["op"] not in OPERATIONS:
        pytest.fail("not followed: see docs/scheduling.md, shared GPUs", pytrace=False)
    found = OPERATIONS[given["op"]](given)

    assert {key: found.get(key) for key in expect} == expect


def named(amounts):
    return {NAMES.get(key, key): amount for key, amount in amounts.items()}


def plain(amounts):
    return {SHORT[key]: amount for key, amount in amounts.items()}


def validate(given):
    return {"valid": rules.is_legal(named(given["request"]), given["era"])}


def convert(given):
    return {"converted": plain(rules.converted(named(given["request"])))}


def split(given):
    part = rules.per_card(named(given["request"]))
    return {"per_card": plain(part.amounts), "cards": part.count, "shared": part.is_share}


def many(given):
    request = named(given["request"])
    kind = next((name for name in (requests.RDMA, requests.FPGA) if name in request), requests.CORE)
    is_many = rules.is_many(request, kind)
    return dict.fromkeys(("multi", "multi_card", "is_multi", "is_multi_card", "multiple"), is_many)


def fill(given):
    found = rules.filled(named(given["allocated"]), given["card_total_memory_bytes"])
    return {"filled": plain(found)}


def size_of(free):
    sizes = [
        one[requests.MEMORY] * 100 // one[requests.RATIO] for one in free if one.get(requests.RATIO, 0) and requests.MEMORY in one
    ]  # fmt: skip
    return max(sizes, default=0)


def fit(given):
    free, allocation = given["free"], {}
    by_kind = requests.requested({f"requests.{name}": one for name, one in named(given["request"]).items()})  # fmt: skip
    for kind, request in by_kind.items():
        frees = {int(minor): named(one) for minor, one in free.get(kind, {}).items()}
        total = {name: 100 for name in requests.KINDS[kind]} | {
            requests.MEMORY: size_of(frees.values())
        }
        part = rules.per_card(rules.converted(request), "v1.0")
        chosen = rules.chosen(part, [Card(minor, total, one) for minor, one in frees.items()])
        if not chosen:
            return {"fits": False}
        parts = plain(rules.filled(part.amounts, total[requests.MEMORY]) if kind == "gpu" else part.amounts)  # fmt: skip
        allocation[kind] = [{"minor": minor, "resources": parts} for minor in chosen]
    return {"fits": True, "allocation": allocation}


def score_card(given):
    amounts = (named(given[key]) for key in ("request", "total", "free"))
    return {"score": rules.score(given["strategy"], *amounts)}


def score_node(given):
    found = 0
    for kind, request in given["request"].items():
        columns = DeviceColumns(1, NAMES_OF[kind])
        free = given["free_summed"].get(kind, {})
        columns.write(0, (Card(0, named(given["total_summed"].get(kind, {})), named(free)),))
        part = Part(named(request), 1, False)
        found += int(columns.scores(np.array([0]), part, given["strategy"])[0])
    return {"raw_score": found}


def scores_of(given):
    return {one["minor"]: one["score"] for one in given["cards"]}


def order(given):
    preferred = {minor: "preferred" for minor in given["preferred_minors"]}
    return {"order": rules.ordered(scores_of(given), preferred, {"preferred"})}


def order_by_switch(given):
    switches = {int(minor): switch for minor, switch in given["pcie_of"].items()}
    return {"order": rules.ordered(scores_of(given), switches, given["preferred_pcie"])}


def choose(given):
    total = named(given["card_total"])
    cards = [Card(int(minor), total, named(free)) for minor, free in given["cards"].items()]
    part = rules.per_card(named(given["request"]))
    found = rules.chosen(part, cards, given["strategy"])
    return outcome(found) | {"resources": plain(rules.filled(part.amounts, total[requests.MEMORY]))}


def outcome(minors):
    return {"minors": list(minors)} if minors else {"error": "no_valid_allocation"}


def board(given):
    """Eight cards or so; some are fully used, and a half of others may be."""
    full = set(given.get("fully_used_minors", ()))
    halves = {int(m) for key, ms in given.items() if key.endswith("used_minors") for m in ms} - full
    for minor, used in given.get("used", {}).items():
        (full if named(used).get(requests.RATIO, 100) >= 100 else halves).add(int(minor))
    half = {name: amount // 2 for name, amount in WHOLE.items()}
    none = dict.fromkeys(WHOLE, 0)
    return [
        Card(minor, WHOLE, none if minor in full else half if minor in halves else WHOLE)
        for minor in given["cards_present"]
    ]


def choose_partition(given):
    table = {int(size): list(map(tuple, groups)) for size, groups in given["partition_table"].items()}  # fmt: skip
    part = Part({requests.CORE: 100, requests.RATIO: 100}, given["cards_wanted"], False)
    honors = given["policy"] == "Honor"
    return outcome(rules.chosen(part, board(given), table=table, honors=honors))


LEVELS = {"Node": 1, "NUMANode": 2, "PCIe": 3, "Device": 4}


def scope_of(given):
    def grouped(minors, by, level, inner):
        keys = sorted({by[str(minor)] for minor in minors})
        several = (tuple(minor for minor in minors if by[str(minor)] == key) for key in keys)
        return tuple(Scope(one, level, inner(one)) for one in several)

    switches = lambda minors: grouped(minors, given["pcie_of"], 3, lambda _: ())  # noqa: E731
    whole = tuple(given["cards_present"])
    return Scope(whole, 1, grouped(whole, given["numa_of"], 2, switches))


def choose_topology(given):
    request = named(given.get("request") or {"gpu_core": 100, "gpu_memory_ratio": 100})
    part = rules.per_card(request)
    if "request" not in given:
        is_share = given["op"] == "choose_shared_topology"
        parts = {name: 50 if is_share else 100 for name in request}
        part = Part(parts, given["cards_wanted"], is_share)
    level = LEVELS.get(given.get("required_scope", ""), 0)
    strategy = given.get("strategy", "MostAllocated")
    return outcome(rules.chosen(part, board(given), strategy, scope=scope_of(given), level=level))


def node_resources(given):
    """What the node of a Device object should offer, as the port of health tells it."""
    said = given["device_labels"]
    raw = [
        {"type": one["type"], "minor": one["minor"], "health": one["healthy"], "resources": named(one["resources"])}
        for one in given["devices"] or ()
    ]  # fmt: skip
    labels = {LABELS + key.replace("_", "-"): text for key, text in said.items()}
    metadata = {"uid": "d", "name": "a", "resourceVersion": "1", "labels": labels}
    shared = {requests.SHARED: "1"} if given["publish_shared"] else {}
    world = World().node("a", allocatable=shared)
    if given["devices"] is not None:
        world.see(NODE_DEVICES.translate(record({"metadata": metadata, "spec": {"devices": raw}}), POLICY))  # fmt: skip
    found = offered_by_devices(*world.state.nodes.values(), world.state.devices_of("a"))
    if not (found and found["resources"]):
        return {"reset": True}
    told = {key.removeprefix(LABELS).replace("-", "_"): text for key, text in found["labels"].items()}  # fmt: skip
    return {"resources": plain(found["resources"]), "labels": told}


OPERATIONS = {
    "node_resources": node_resources,
    "validate": validate,
    "convert": convert,
    "per_card": split,
    "is_multi_card": many,
    "fill_memory": fill,
    "fit": fit,
    "score_card": score_card,
    "score_node": score_node,
    "order_cards": order,
    "order_cards_by_pcie": order_by_switch,
    "choose": choose,
    "choose_partition": choose_partition,
    "choose_topology": choose_topology,
    "choose_shared_topology": choose_topology,
}
