"""NodeMetric objects as facts: the use of a node and its pods. Pure: one record in, one event out.

The node agent writes each object every minute, and each is an event: a scheduler needs the newest measurement.

Source: koordinator-sh/koordinator, apis/slo/v1alpha1 NodeMetric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bus.envelope import Event
from bus.events.nodes import AggregatedUse, NodeMetricObserved, NodeMetricVanished, PodUsed, Used
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import LONGEST_NAME, Metadata, Record

#: Most bytes of a node's pods, as JSON: of more the first are kept, and the others count as if they used nothing yet.
LARGEST_PODS = 48 * 1024
MOST_DURATIONS = 8
PERCENTILES = ("avg", "p50", "p90", "p95", "p99")
#: Longest quantity or duration; a longer one is none.
LONGEST_TEXT = 32
#: No agent rests for longer.
MOST_SECONDS = 86_400


class Resources(msgspec.Struct):
    """The decoded part of an amount of resources."""

    cpu: str = ""
    memory: str = ""


class Use(msgspec.Struct):
    """An entry with resources."""

    resources: Resources | None = None


class Aggregated(msgspec.Struct):
    """An entry of ``status.nodeMetric.aggregatedNodeUsages``."""

    duration: str = ""
    usage: dict[str, Use] | None = None


class NodeUse(msgspec.Struct, rename="camel"):
    """``status.nodeMetric``."""

    node_usage: Use | None = None
    aggregated_node_usages: list[Aggregated] | None = None


class PodUse(msgspec.Struct, rename="camel"):
    """An entry of ``status.podsMetric``."""

    name: str = ""
    namespace: str = ""
    pod_usage: Use | None = None


class Policy(msgspec.Struct, rename="camel"):
    """``spec.metricCollectPolicy``."""

    report_interval_seconds: int | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec``."""

    metric_collect_policy: Policy | None = None


class _Status(msgspec.Struct, rename="camel"):
    """The decoded part of ``status``."""

    update_time: str | None = None
    node_metric: NodeUse | None = None
    pods_metric: list[PodUse] | None = None


class NodeMetric(msgspec.Struct):
    """The decoded part of a NodeMetric object."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``nodemetric.observed`` or ``nodemetric.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, NodeMetric)
    metadata = records.identified(found.metadata)
    fact: NodeMetricObserved | NodeMetricVanished
    if records.is_delete(record):
        fact = NodeMetricVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        status = found.status or _Status()
        measured = status.node_metric or NodeUse()
        fact = NodeMetricObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            updated=records.stamp(status.update_time),
            interval_seconds=_interval(found.spec),
            used=_used(measured.node_usage),
            pods=tuple(_pods(status.pods_metric or ())),
            aggregated=tuple(
                AggregatedUse(bounded(one.duration), _percentiles(one.usage or {}))
                for one in (measured.aggregated_node_usages or ())[:MOST_DURATIONS]
            ),
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )


def _interval(spec: _Spec | None) -> int | None:
    policy = spec.metric_collect_policy if spec is not None else None
    seconds = policy.report_interval_seconds if policy is not None else None
    return None if seconds is None else min(max(seconds, 0), MOST_SECONDS)


def _used(use: Use | None) -> Used | None:
    if use is None or use.resources is None:
        return None
    return Used(bounded(use.resources.cpu), bounded(use.resources.memory))


def _pods(uses: Iterable[PodUse]) -> Iterator[PodUsed]:
    room = LARGEST_PODS
    for one in uses:
        used = _used(one.pod_usage) or Used()
        pod = PodUsed(one.namespace[:LONGEST_NAME], one.name[:LONGEST_NAME], used.cpu, used.memory)
        room -= len(msgspec.json.encode(pod)) + 1
        if room < 0:
            return
        yield pod


def _percentiles(uses: dict[str, Use]) -> dict[str, Used]:
    found = {name: _used(uses[name]) for name in PERCENTILES if name in uses}
    return {name: used for name, used in found.items() if used is not None}


def bounded(text: str) -> str:
    """A quantity or duration as it was written; "" where it is too long to be one."""
    return text if len(text) <= LONGEST_TEXT else ""
