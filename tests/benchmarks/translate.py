"""From a pod's watch line to the bytes that are published: decode, translate, encode.

    python -m tests.benchmarks.translate [--events 5000] [--rounds 5] [-o json]

*ours* is what the reflector does with a line, all of it: open the envelope, prove that the object is strict JSON (UTF-8,
depth, no doubled keys, no NUL …), decode the allow-listed fields, check the identity, make the fact and its body. The
control *orjson* reads the line into dicts and picks the same fields from them, without proving or checking anything;
*orjson_strict* runs the product's strict check before, *json_strict* gets its strictness as one would write it, from
the standard library with a hook that refuses doubled keys; *json* is the standard library without. All of them make
events with equal bodies, which is verified for every line.

*ours_unproven* is ours with a plain typed decode in the place of the proof: nothing the product ever does, but it tells
what the proof costs and that decoding and translating alone stay within the goal.

Source: tests/benchmarks/README.md (goal 4).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import msgspec
import orjson

from bus import strict
from bus.envelope import Event
from bus.events.pods import PodObserved
from bus.kube.watch import lines, records
from bus.kube.watch.labels import LabelPolicy, kept_texts, named
from bus.kube.watch.records import LARGEST_RECORD, Record
from bus.sources import pods
from tests.benchmarks import measure, synthetic
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch

POLICY = LabelPolicy()

GOALS = (
    Goal("CPU: ours with strict checks / orjson dicts without", "cpu", "ours", "orjson", "<=", 0.65),
    Goal("CPU: ours without the proof / orjson dicts without", "cpu", "ours_unproven", "orjson", "<=", 0.65),
    Goal("CPU: ours / json dicts, doubled keys refused by a hook", "cpu", "ours", "json_strict", "<=", 0.65),
)  # fmt: skip


def ours(line: bytes) -> Event:
    """What the reflector does with a line."""
    change, raw = lines.opened(line)
    return pods.translate(
        Record(change, raw, synthetic.BEGIN_US, synthetic.CLUSTER, synthetic.SOURCE), POLICY
    )


_pod_decoder = msgspec.json.Decoder(pods.Pod)


def _unproven(raw: bytes, _: object) -> pods.Pod:
    """A typed decode that proves nothing."""
    return _pod_decoder.decode(raw)


def by_dicts(
    line: bytes,
    load: Callable[[bytes], Any],
    dump: Callable[[Any], bytes],
    *,
    checked: bool = False,
) -> Event:
    """The control: the same fields picked from dicts."""
    if checked:
        strict.loads(line, max_bytes=LARGEST_RECORD)
    record = load(line)
    body = _picked(record["object"])
    type = "pod.vanished" if record["type"] == "DELETED" else "pod.observed"
    uid, version = body["uid"], body["resource_version"]
    return Event(
        synthetic.CLUSTER,
        type,
        uid,
        f"{type}/{uid}/{version}",
        synthetic.SOURCE,
        synthetic.BEGIN_US,
        dump(body),
    )


def _picked(pod: dict[str, Any]) -> dict[str, Any]:
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    labels = metadata.get("labels")
    since = {
        c["type"]: c.get("lastTransitionTime")
        for c in status.get("conditions", ())
        if c["status"] == "True"
    }
    texts = kept_texts(labels, metadata.get("annotations"), POLICY)
    found = {
        "uid": metadata["uid"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "resource_version": metadata["resourceVersion"],
        "created": metadata.get("creationTimestamp"),
        "phase": status.get("phase", ""),
        "node": spec.get("nodeName"),
        "scheduled": since.get("PodScheduled"),
        "deletion": metadata.get("deletionTimestamp"),
        "grace_seconds": metadata.get("deletionGracePeriodSeconds"),
        "disrupted": since.get("DisruptionTarget"),
        "finished": _finished(status),
        "owner": _owner(metadata),
        "team": named(POLICY.team, labels),
        "user": named(POLICY.user, labels),
        "labels": texts.labels,
        "annotations": texts.annotations,
        "resources": _resources(spec, status),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _finished(status: dict[str, Any]) -> list[str]:
    if status.get("phase") not in ("Succeeded", "Failed"):
        return []
    ended = (
        one.get("state", {}).get("terminated", {}).get("finishedAt")
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind, ())
    )
    return list(dict.fromkeys(stamp for stamp in ended if stamp))


def _owner(metadata: dict[str, Any]) -> dict[str, str] | None:
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("controller"):
            return {name: owner[name] for name in ("kind", "name", "uid")}
    return None


def _resources(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    by_name = {one["name"]: one for one in status.get("containerStatuses", ())}
    containers = []
    for container in spec.get("containers", ()):
        told = by_name.get(container["name"], {})
        found = {
            "actual": told.get("resources", {}).get("requests"),
            "allocated": told.get("allocatedResources"),
            "requests": container.get("resources", {}).get("requests", {}),
        }
        containers.append({name: value for name, value in found.items() if value})
    return {"containers": containers}


def _hooked(line: bytes) -> Any:
    return json.loads(line, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("doubled key")
    return found


VARIANTS: dict[str, Callable[[bytes], Event]] = {
    "ours": ours,
    "ours_unproven": ours,
    "orjson": lambda line: by_dicts(line, orjson.loads, orjson.dumps),
    "orjson_strict": lambda line: by_dicts(line, orjson.loads, orjson.dumps, checked=True),
    "json_strict": lambda line: by_dicts(line, _hooked, lambda body: json.dumps(body).encode()),
    "json": lambda line: by_dicts(line, json.loads, lambda body: json.dumps(body).encode()),
}


def verify(watched: list[bytes]) -> None:
    """Every variant says the same of every line."""
    read = msgspec.json.Decoder(PodObserved).decode
    for line in watched:
        told = [variant(line) for variant in VARIANTS.values()]
        facts = [(event.id, event.type, _plain(read(event.body))) for event in told]
        assert facts.count(facts[0]) == len(facts), facts


def _plain(fact: PodObserved) -> tuple[PodObserved, Any]:
    """A fact whose raw part is compared by value: the order of keys in it is the encoder's."""
    resources = msgspec.json.decode(bytes(fact.resources))
    return msgspec.structs.replace(fact, resources=msgspec.Raw(b"{}")), resources


def measured(name: str, watched: list[bytes]) -> Cost:
    """CPU per line."""
    variant = VARIANTS[name]
    with ExitStack() as stack:
        if name == "ours_unproven":
            stack.enter_context(mock.patch.object(records, "decoded", _unproven))
        with Stopwatch() as clock:
            for line in watched:
                variant(line)
    return clock.cost(len(watched))


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    watched = list(synthetic.lines(args.events))
    verify(watched)
    variants = {name: lambda _, n=name: measured(n, watched) for name in VARIANTS}
    size = sum(map(len, watched)) / len(watched)
    notes = [f"{len(watched)} lines of {size:.0f} B on average; equal facts in all variants"]
    return measure.judged(measure.interleaved(variants, args.rounds), GOALS, notes)


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "From a watch line to a fact's bytes.", events=5_000))
