"""Runs `pod_accounting` cases through the product: records → translate → bus → runner → ledger → accounts."""

import random

import msgspec

from bus.clock import floor_seconds, format_stamp, parse_stamp
from bus.events.pods import PodsListed
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.lists import listed
from bus.kube.watch.records import Record
from bus.memory import MemoryTransport
from bus.sources import namespaces, nodes, pods
from projections.accounts import accounts
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from tests.projections.ledger import memory_store
from tests.simulation.loop import simulate

POLICY = LabelPolicy()


def events_of(given):
    """The events that a source would publish for a case's observations."""
    events = []
    for number, seen in enumerate(given["events"], 1):
        time_us = parse_stamp(seen["time"])
        if seen["op"] == "list":
            events += listed(
                PodsListed,
                seen["uids"],
                resource_version=seen.get("rv", ""),
                time_us=time_us,
                cluster="c",
                source="case",
            )
            continue
        change, body, translate = seen.get("type", "MODIFIED"), seen.get("object"), pods.translate
        if seen["op"] != "pod":
            translate = {"namespace": namespaces, "node": nodes}[seen["op"]].translate
            body = {
                "metadata": {
                    "uid": f"{seen['op']}-{seen['name']}",
                    "name": seen["name"],
                    "labels": seen["labels"],
                    "annotations": seen.get("annotations", {}),
                    "resourceVersion": f"x{number}",
                }
            }
        record = Record(change, msgspec.json.encode(body), time_us, "c", "case")
        events.append(translate(record, POLICY))
    return events


def shuffled(events, seed):
    """The pods' events shuffled and doubled; everything else stays where it was."""
    rng = random.Random(seed)
    pod_events = [e for e in events if e.type.startswith("pod.")]
    again = [msgspec.structs.replace(e, id=f"{e.id}/again") for e in pod_events]
    others = [e for e in events if not e.type.startswith("pod.")]
    mixed = pod_events + again
    rng.shuffle(mixed)
    for event in others:
        mixed.insert(rng.randrange(len(mixed) + 1), event)
    return mixed


def told(events, as_of, batch=1000):
    """What the ledger says of the pods at ``as_of``, in the shape of a case's `expect`."""
    store = memory_store()

    async def play():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(MODEL, store), transport, batch=batch).run(live=False)

    simulate(play())
    found = accounts(store.select, as_of_s=floor_seconds(parse_stamp(as_of)))
    return {
        "pods": {account.uid: _pod(account) for account in found},
        "totals": {
            f"{name}_s": sum(
                getattr(h, name) * (h.end_s - h.start_s) for a in found for h in a.holdings
            )
            for name in ("cpu_milli", "memory_mib", "gpu_milli")
        },
    }


def _pod(account):
    return {
        "waiting_s": account.waiting_s,
        "unknown_s": account.unknown_s,
        "open": account.is_open,
        "flags": list(account.flags),
        "segments": [
            {
                "from": format_stamp(h.start_s * 1_000_000),
                "to": format_stamp(h.end_s * 1_000_000),
                **{name: getattr(h, name) for name in ("cpu_milli", "memory_mib", "gpu_milli")},
                **{name: getattr(h, name) for name in ("team", "node", "model")},
            }
            for h in account.holdings
        ],
    }
