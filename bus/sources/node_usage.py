"""metrics-server's measurements of nodes, as facts: those of a NodeMetric, without pods. Pure: one record in, one
event out.

It has no uid and no version. So its name stands for the one, and the time of the measurement for the other.

Source: kubernetes/metrics, metrics.k8s.io/v1beta1 NodeMetrics; docs/scheduling.md, "Load".
"""

from __future__ import annotations

import math
import re

import msgspec

from bus.clock import format_stamp, parse_stamp
from bus.envelope import Event
from bus.errors import ObservationError, TimestampError
from bus.events.nodes import NodeMetricObserved, NodeMetricVanished, Used
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record
from bus.sources.loads import MOST_SECONDS, bounded

#: Prefix of the uid of a node's measurement.
MEASURED = "measured-"
#: Hours, minutes and seconds as Go writes them; less than a second counts as one.
_WINDOW = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,4})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,9})?)s)?")


class Named(msgspec.Struct):
    """The decoded part of ``metadata``."""

    name: str = ""


class Usage(msgspec.Struct):
    """``usage``."""

    cpu: str = ""
    memory: str = ""


class NodeMetrics(msgspec.Struct):
    """The decoded part of a NodeMetrics object."""

    metadata: Named
    timestamp: str = ""
    window: str = ""
    usage: Usage | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``nodemetric.observed`` or ``nodemetric.vanished``.

    Raises MalformedJsonError or ObservationError: nothing can be published of the record.
    """
    found = records.decoded(record.object, NodeMetrics)
    try:
        # By the node's clock: a fast and then corrected clock has not measured the future.
        version = str(max(min(parse_stamp(found.timestamp), record.time_us), 0))
    except TimestampError as error:
        raise ObservationError("the time of a measurement is none") from error
    name = found.metadata.name
    metadata = records.identified(Metadata(MEASURED + name, name, version))
    fact: NodeMetricObserved | NodeMetricVanished
    if records.is_delete(record):
        fact = NodeMetricVanished(uid=metadata.uid, name=name, resource_version=version)
    else:
        used = found.usage or Usage()
        fact = NodeMetricObserved(
            uid=metadata.uid,
            name=name,
            resource_version=version,
            updated=records.stamp(found.timestamp),
            interval_seconds=_seconds(found.window),
            used=Used(bounded(used.cpu), bounded(used.memory)),
            names_no_pods=True,
        )
    return records.event_of(fact, record, key=name, uid=metadata.uid, resource_version=version)


def uid_of(raw: bytes) -> str:
    """The uid for the node of a refused object; "" for an unreadable name."""
    name = records.called(raw)
    return name and MEASURED + name


def gone(uid: str, time_us: int) -> bytes:
    """The object of a node without measurements, as of a moment."""
    name, stamp = uid.removeprefix(MEASURED), format_stamp(time_us)
    return msgspec.json.encode({"metadata": {"name": name}, "timestamp": stamp})


def _seconds(window: str) -> int | None:
    """Over how long it was measured; None where nobody can read it."""
    found = _WINDOW.fullmatch(window)
    if found is None or not window:
        return None
    hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return min(math.ceil(hours * 3600 + minutes * 60 + seconds), MOST_SECONDS)
