"""Nodes as facts: their resources and their GPU. Pure: one record in, one event out.

A node writes its status every few minutes; the source skips those with an unchanged fact.

Source: Kubernetes API reference, core/v1 Node; docs/accounting.md (GPU model).
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.constraints import Taint
from bus.events.nodes import NodeObserved, NodeVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LONGEST_KEY, LabelPolicy, encoded_size, gpu_model, kept_labels
from bus.kube.watch.records import Metadata, Record
from bus.sources import card_texts
from bus.sources.constraints import bounded_taints, further_labels
from bus.sources.images import ContainerImage, images_of
from bus.sources.sealed_users import sealed

#: Most resources of one node in a fact, and longest quantity; the quantity parser accepts 32 characters.
MOST_RESOURCES = 128
LONGEST_QUANTITY = 32
#: Most bytes of them, as JSON; a message of the history carries 64 KiB.
LARGEST_ALLOCATABLE = 32 * 1024
#: Annotation with the limits on a node's real use, instead of the policy's (Koordinator), and its longest text.
THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
LONGEST_THRESHOLDS = 1024
#: Most bytes of a node's taints, as JSON.
LARGEST_TAINTS = 4 * 1024


class Condition(msgspec.Struct):
    """An entry of ``status.conditions``."""

    type: str = ""
    status: str = ""


class _Spec(msgspec.Struct):
    """The decoded part of ``spec``."""

    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class _Status(msgspec.Struct):
    """The decoded part of ``status``."""

    allocatable: dict[str, str] | None = None
    conditions: list[Condition] | None = None
    images: list[ContainerImage] | None = None


class Node(msgspec.Struct):
    """The decoded part of a node."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC = _Spec()
_NO_STATUS = _Status()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``node.observed`` or ``node.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    node = records.decoded(record.object, Node)
    metadata = records.identified(node.metadata)
    if records.is_delete(record):
        vanished = NodeVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
        return _event(vanished, record)
    spec, status = node.spec or _NO_SPEC, node.status or _NO_STATUS
    kept = kept_labels(metadata.labels, labels)[0]
    written = sealed(spec.taints or (), tuple[Taint, ...], labels)
    taints, taints_cut = bounded_taints(written, LARGEST_TAINTS)
    further, labels_cut = further_labels(
        sealed(metadata.labels, dict[str, str] | None, labels), kept
    )
    observed = NodeObserved(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        model=gpu_model(metadata.labels, labels),
        allocatable=_allocatable(status.allocatable or {}),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        unschedulable=bool(spec.unschedulable),
        labels=kept,
        further_labels=further,
        taints=taints,
        images=images_of(status.images or ()),
        card_texts=card_texts.of_node(metadata.annotations, status.allocatable or (), labels),
        usage_thresholds=(metadata.annotations or {}).get(THRESHOLDS, "")[:LONGEST_THRESHOLDS],
        is_cut=taints_cut or labels_cut,
    )
    return _event(observed, record)


def _allocatable(quantities: dict[str, str]) -> dict[str, str]:
    """Sorted by name, so equal nodes give equal bytes; invalid quantities and names are dropped, and of too many
    those of extended resources, the last by name first.
    """
    usable = sorted(
        (
            name
            for name, quantity in quantities.items()
            if len(name) <= LONGEST_KEY and len(quantity) <= LONGEST_QUANTITY
        ),
        key=lambda name: ("/" in name, name.rpartition("/")[2] != "gpu", name),
    )
    kept: list[str] = []
    room = LARGEST_ALLOCATABLE
    for name in usable[:MOST_RESOURCES]:
        room -= encoded_size(name) + encoded_size(quantities[name]) + 2
        if room < 0:
            break
        kept.append(name)
    return {name: quantities[name] for name in sorted(kept)}


def _event(fact: NodeObserved | NodeVanished, record: Record) -> Event:
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )
