"""PodGroups of three APIs as facts, and the group of a pod. Pure: one record in, one event out.

A native PodGroup is read in whichever version is served. Tenants write all of it, so every text is bounded.

Source: Kubernetes, scheduling.k8s.io PodGroup (``v1alpha2``, ``v1beta1``); koordinator-sh/koordinator, "Gang Scheduling";
volcano-sh/volcano, PodGroup.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.envelope import Event
from bus.events.constraints import GangTerms
from bus.events.pods import SIGS, PodGroupObserved, PodGroupVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import LONGEST_NAME, Metadata, Record

#: Label and annotations of pods with a PodGroup of their namespace. They count in this order, after the pod's own
#: field.
GROUP_LABELS = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
#: Koordinator's annotations begin so, of pods and of PodGroups.
KOORDINATOR = "gang.scheduling.koordinator.sh/"
#: On PodGroups made by Koordinator's scheduler from such annotations of pods.
COPY = "PodGroupFromPodAnnotation"

#: Longest number, mode or duration, and longest list of gangs, in a fact.
LONGEST_WORD = 64
LONGEST_GROUPS = 4 * 1024
#: Longest key of a label, with its prefix.
LONGEST_KEY = 317
#: No gang needs so many pods.
MOST_NEEDED = 2**31 - 1


class Gang(msgspec.Struct, rename="camel"):
    """``spec.schedulingPolicy.gang`` of a native PodGroup."""

    min_count: int = 0


class Policy(msgspec.Struct):
    """``spec.schedulingPolicy`` of a native PodGroup."""

    gang: Gang | None = None


class TopologyConstraint(msgspec.Struct):
    """One of ``spec.schedulingConstraints.topology`` of a native PodGroup."""

    key: str = ""


class Constraints(msgspec.Struct):
    """``spec.schedulingConstraints`` of a native PodGroup."""

    topology: list[TopologyConstraint] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec``."""

    scheduling_constraints: Constraints | None = None
    #: A word in ``v1alpha2``, an object with one key from ``v1beta1`` on.
    disruption_mode: object = None
    scheduling_policy: Policy | None = None
    min_member: int | None = None
    schedule_timeout_seconds: int | None = None
    queue: str = ""


class _Status(msgspec.Struct):
    """The decoded part of ``status``."""

    phase: str = ""


class PodGroup(msgspec.Struct):
    """The decoded part of a PodGroup."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS = _Spec(), _Status()


def translate(record: Record, labels: LabelPolicy, *, kind: str) -> Event:
    """``podgroup.observed`` or ``podgroup.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, PodGroup)
    metadata = records.identified(found.metadata)
    namespace = records.namespaced(metadata)
    fact: PodGroupObserved | PodGroupVanished
    if records.is_delete(record):
        fact = PodGroupVanished(
            kind=kind, uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
    else:
        spec, status = found.spec or _NO_SPEC, found.status or _NO_STATUS
        noted = metadata.annotations or {}
        groups, is_cut = _groups(noted)
        fact = PodGroupObserved(
            kind=kind,
            uid=metadata.uid,
            namespace=namespace,
            name=metadata.name,
            resource_version=metadata.resource_version,
            least=_least(spec),
            wait_seconds=_bounded(spec.schedule_timeout_seconds),
            mode=_word(noted, "mode"),
            total=_word(noted, "total-number"),
            groups=groups,
            is_cut=is_cut,
            topology=_topology(spec),
            queue=spec.queue[:LONGEST_NAME],
            phase=status.phase[:LONGEST_WORD],
            owner=records.controller(metadata),
            goes_whole=spec.disruption_mode == "PodGroup"
            or (isinstance(spec.disruption_mode, dict) and "all" in spec.disruption_mode),
            is_copy=kind == SIGS and noted.get(COPY) == "true",
        )
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def gang_terms(
    named: str | None, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> GangTerms | None:
    """The gang named in a pod's field, label or annotation; None = none."""
    labels, noted = labels or {}, annotations or {}
    group = named or next((labels[key] for key in GROUP_LABELS if labels.get(key)), "")
    group = group or next((noted[key] for key in GROUP_ANNOTATIONS if noted.get(key)), "")
    if group:
        return GangTerms(group[:LONGEST_NAME])
    light = noted.get(f"{KOORDINATOR}name", "")
    if not light:
        return None
    groups, is_cut = _groups(noted)
    return GangTerms(
        light[:LONGEST_NAME], is_light=True, least=_word(noted, "min-available"),
        total=_word(noted, "total-number"), mode=_word(noted, "mode"), wait=_word(noted, "waiting-time"),
        groups=groups, is_cut=is_cut,
    )  # fmt: skip


def _least(spec: _Spec) -> int | None:
    if spec.scheduling_policy is None:
        return _bounded(spec.min_member)
    gang = spec.scheduling_policy.gang
    return None if gang is None else _bounded(gang.min_count)


def _topology(spec: _Spec) -> str:
    constraints = spec.scheduling_constraints
    found = next(iter(constraints.topology or ()), None) if constraints is not None else None
    # One character more than a label has: no node has that.
    return found.key[: LONGEST_KEY + 1] if found is not None else ""


def _bounded(number: int | None) -> int | None:
    return None if number is None else min(max(number, -1), MOST_NEEDED)


def _word(noted: Mapping[str, str], name: str) -> str:
    return noted.get(KOORDINATOR + name, "")[: LONGEST_WORD + 1]


def _groups(noted: Mapping[str, str]) -> tuple[str, bool]:
    found = noted.get(f"{KOORDINATOR}groups", "")
    is_cut = len(found) > LONGEST_GROUPS
    return "" if is_cut else found, is_cut
