"""Records as a source receives them: recorded ones, and small ones of a test's own."""

import json
from pathlib import Path

import msgspec

from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record

POLICY = LabelPolicy()
RECORDINGS = Path(__file__).parent / "recordings"


def recorded(kind):
    """The records of one recorded watch, in order."""
    watched = json.loads((RECORDINGS / f"{kind}.json").read_text())
    return [record(seen["object"], seen["type"]) for seen in watched]


def record(thing, change="MODIFIED"):
    """One record; `thing` is an object, or its bytes where they matter."""
    raw = thing if isinstance(thing, bytes) else msgspec.json.encode(thing)
    return Record(change, raw, 1_000_000, "default", "kube/test")


def body(event):
    """An event's body as plain values."""
    return msgspec.json.decode(event.body)
