"""Runs `device_accounting` cases through the product: records → translate → bus → runner → ledger → accounts."""

import json
import random
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise

import msgspec
import sqlalchemy as sa

from bus.clock import floor_seconds, format_stamp, parse_stamp
from bus.events import VOCABULARY
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from bus.events.vocabulary import read
from bus.kube.kinds import CLAIM_TEMPLATE, Ask
from bus.kube.watch.lists import listed
from bus.kube.watch.records import Record
from bus.memory import MemoryTransport
from bus.sources import devices, namespaces, nodes, pods
from projections.accounts import accounts
from projections.catalogue import MODEL
from projections.cluster import ClusterState
from projections.devices.demand import is_card
from projections.devices.entries import of_segment
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.inventory.node_supply import excesses, is_oversubscribed, supply
from tests.cases.pod_accounting import POLICY
from tests.projections.ledger import memory_store
from tests.simulation.loop import simulate

CLAIM = "ResourceClaim"
SOURCES = {
    "pod": pods.translate,
    "claim": devices.translate_claim,
    "template": devices.translate_template,
    "slice": devices.translate_slice,
    "class": devices.translate_class,
    "namespace": namespaces.translate,
    "node": nodes.translate,
}


def events_of(given):
    """The events that the sources would publish for a case's observations."""
    return [
        event for number, seen in enumerate(given["events"], 1) for event in _said(seen, number)
    ]


def _said(seen, number):
    time_us = parse_stamp(seen["time"])
    if seen["op"] == "list":
        return listed(
            PodsListed,
            seen["uids"],
            resource_version="",
            time_us=time_us,
            cluster="c",
            source="case",
        )
    if seen["op"] == "claim_list":
        fact = partial(ObjectsListed, kind=CLAIM)
        return listed(
            fact,
            seen["uids"],
            resource_version="",
            time_us=time_us,
            cluster="c",
            source="case",
            name=CLAIM,
        )
    body = seen.get("object") or {
        "metadata": {
            "uid": f"{seen['op']}-{seen['name']}",
            "name": seen["name"],
            "labels": seen.get("labels") or {},
            "annotations": seen.get("annotations") or {},
            "resourceVersion": f"x{number}",
        },
        "status": {"allocatable": seen.get("allocatable") or {}},
    }
    record = Record(seen.get("type", "MODIFIED"), msgspec.json.encode(body), time_us, "c", "case")
    return [SOURCES[seen["op"]](record, POLICY)]


def mixed(events, seed):
    """All events twice, in any order."""
    found = events + [msgspec.structs.replace(e, id=f"{e.id}/again") for e in events]
    random.Random(seed).shuffle(found)
    return found


def told(events, as_of, batch=1000):
    """What the ledger says of the pods at ``as_of``, in the shape of a case's `expect`."""
    store = memory_store()

    async def play():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(MODEL, store), transport, batch=batch).run(live=False)

    simulate(play())
    as_of_s = floor_seconds(parse_stamp(as_of))
    found = accounts(store.select, as_of_s=as_of_s)
    places = {(one.cluster, held.node) for one in found for held in one.holdings}
    excess = excesses(store.select, places, 0, as_of_s)
    return {
        "pods": {account.uid: _pod(account, excess) for account in found},
        "reserved": _reserved(store, floor_seconds(parse_stamp(as_of))),
        "supply": _supply(store),
    }


def _supply(store):
    found = Counter()
    for one in supply(store.select):
        found[one.node] += one.gpu_milli
    return dict(found)


def _reserved(store, as_of_s):
    """What is reserved by claim and model, up to a second: parts of one claim together."""
    seconds = defaultdict(lambda: defaultdict(int))
    query = (
        "SELECT namespace, claim, model, team, vanished, uid, start_s, end_s, gpu_milli"
        " FROM card_segments WHERE kind = 'reserved'"
    )
    for *whose, from_s, to_s, milli in store.select(sa.text(query)):
        seconds[tuple(whose)][from_s] += milli
        seconds[tuple(whose)][min(as_of_s, as_of_s if to_s is None else to_s)] -= milli
    found = []
    for (namespace, claim, model, team, vanished, _), changes in seconds.items():
        milli, times = 0, sorted(changes)
        for from_s, to_s in pairwise(times):
            milli += changes[from_s]
            if milli and from_s < to_s:
                found.append(
                    {
                        "from": format_stamp(from_s * 1_000_000),
                        "to": format_stamp(to_s * 1_000_000),
                        "claim": f"{namespace}/{claim}",
                        "gpu_milli": milli,
                        "model": model,
                        "team": team,
                        "flags": ["vanished"] if vanished else [],
                    }
                )
    return sorted(_joined(found), key=repr)


def _joined(rows):
    """Rows that follow each other and are alike in all else are one."""
    found = []
    for row in rows:
        rest = {**row, "from": None, "to": None}
        last = found[-1] if found else row
        if last["to"] == row["from"] and {**last, "from": None, "to": None} == rest:
            last["to"] = row["to"]
        else:
            found.append(dict(row))
    return found


def demand(events):
    """Milli-cards of each template, and of each claim that is not generated, by what the state of the cluster says."""
    state = ClusterState()
    for event in events:
        state.apply(read(event, VOCABULARY), event)
    asks = {
        f"template {one.namespace}/{one.name}": state.claiming.asked(
            Ask({f"{CLAIM_TEMPLATE}{one.name}": 1}), one.namespace
        ).demand
        for one in state.claim_templates.values()
    }
    for claim in state.device_claims.values():
        if not claim.is_generated and claim.requests:
            asks[f"claim {claim.namespace}/{claim.name}"] = state.workloads[claim.uid].ask.demand
    return {name: 1000 * _cards(one) for name, one in asks.items()}


def _cards(amounts):
    limits = {key.removeprefix("limits."): n for key, n in amounts.items()}
    return sum(
        n for name, n in limits.items() if is_card(name) and not name.startswith("requests.")
    )


def _pod(account, excess):
    flags = {*account.flags}
    for held in account.holdings:
        where = (account.cluster, held.node, held.start_s, held.end_s)
        if held.gpu_milli and is_oversubscribed(excess, *where):
            flags.add("oversubscribed")
    return {
        "unknown_s": account.unknown_s,
        "open": account.is_open,
        "flags": sorted(flags),
        "segments": [_segment(holding) for holding in account.holdings],
    }


def _segment(holding):
    entries = of_segment(holding.model, holding.gpu_milli, holding.devices, holding.device_memory)
    found = {
        "from": format_stamp(holding.start_s * 1_000_000),
        "to": format_stamp(holding.end_s * 1_000_000),
        **{name: getattr(holding, name) for name in ("cpu_milli", "memory_mib", "gpu_milli")},
        "devices": [entry._asdict() for entry in entries],
        **{name: getattr(holding, name) for name in ("team", "node")},
    }
    return found | ({"extended": json.loads(holding.extended)} if holding.extended else {})
