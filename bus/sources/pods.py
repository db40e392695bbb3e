"""Pods as facts: the observations below the ledger. Pure: one record in, one event out.

The hot path of Bursar: only listed fields are decoded, and charged amounts travel as the API server wrote them, so
better rules need no new observation.

No pod is refused for its size, since a tenant chooses it: labels and annotations, resources and ends of containers
have bounds of their own. Together they leave room for the rest in a message. Dropped parts are among the fact's
``notes``.

Source: Kubernetes API reference, core/v1 Pod; docs/accounting.md;
docs/wrong-input.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bus.amounts import ContainerResources, PodResources, observed_quantity
from bus.charges import effective
from bus.envelope import Event
from bus.errors import ObservationError, QuantityError
from bus.events.constraints import HostPort
from bus.events.pods import PodObserved, PodVanished, encoded_resources
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy, encoded_size, kept_texts, named, pod_user
from bus.kube.watch.records import LONGEST_NAME, Record
from bus.sources import card_texts, pod_ends
from bus.sources.constraints import constraints_of
from bus.sources.cpus import cpu_terms
from bus.sources.device_names import claim_names, claim_templates, claimed
from bus.sources.device_terms import device_terms
from bus.sources.limits import LIMITED, bounds, whole_limits
from bus.sources.pod_objects import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Quantities,
    Resources,
)
from bus.sources.podgroups import gang_terms
from bus.sources.training import LAYOUTS

#: Longest quantity published as it was written; a longer one holds only zeros more, and is rewritten.
LONGEST_QUANTITY = 32
#: Most bytes of a pod's resources in its fact, as JSON; where they are more, they are folded.
LARGEST_RESOURCES = 24 * 1024
#: Longest published phase; Kubernetes has five words for it.
LONGEST_PHASE = 63

_FINISHED = ("Succeeded", "Failed")
#: Why a pod is ended by others, as Kubernetes' components write it. Nothing else is carried on.
DISRUPTIONS = frozenset({
    "PreemptionByScheduler", "DeletionByTaintManager", "DeletionByDeviceTaintManager",
    "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet",
})  # fmt: skip

_NO_SPEC = PodSpec()
_NO_STATUS = PodStatus()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``pod.observed``, or ``pod.vanished`` with the last state from the DELETED record.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    pod = records.decoded(record.object, Pod)
    metadata = records.identified(pod.metadata)
    spec = pod.spec or _NO_SPEC
    status = pod.status or _NO_STATUS
    scheduled = disrupted = None
    disruption = ""
    infeasible = is_unready = False
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            scheduled = condition.last_transition_time
        elif condition.type == "DisruptionTarget" and condition.status == "True":
            disrupted = condition.last_transition_time
            disruption = condition.reason if condition.reason in DISRUPTIONS else ""
        elif condition.type == "Ready":
            is_unready = condition.status == "False"
        elif condition.type == "PodResizePending" and condition.reason == "Infeasible":
            infeasible = True
    phase = (status.phase or "")[:LONGEST_PHASE]
    texts = kept_texts(metadata.labels, metadata.annotations, labels)
    is_finished = phase in _FINISHED
    finished, finished_cut = pod_ends.finished(spec, status) if is_finished else ((), False)
    is_stamped = metadata.deletion_grace_period_seconds == 0 and metadata.deletion_timestamp
    is_ended = is_finished or (records.is_delete(record) and not is_stamped)
    # A finish before the bind proves a wrong clock on the node: it records no end.
    bound = scheduled or metadata.creation_timestamp or ""
    is_recorded = bool(finished) and max(finished) >= bound
    evidence, evidence_cut = (
        pod_ends.latest(pod_ends.evidence(status)) if is_ended and not is_recorded else ((), False)
    )
    resources, is_folded, resources_cut = bounded_resources(resources_of(spec, status, infeasible))
    group = spec.scheduling_group
    named_group = group.pod_group_name if group is not None else None
    gang = gang_terms(named_group, metadata.labels, metadata.annotations)
    cpus = cpu_terms(metadata.labels, metadata.annotations)
    constraints, constraints_cut = constraints_of(
        spec, host_ports(spec), _images(spec), metadata.name, metadata.labels, labels, gang, cpus,
        device_terms(metadata.annotations),
    )  # fmt: skip
    owner = records.controller(metadata)
    exits, restarts = _exits(status) if owner and owner.kind in LAYOUTS else ({}, 0)
    fact = (PodVanished if records.is_delete(record) else PodObserved)(
        uid=metadata.uid,
        namespace=records.namespaced(metadata),
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        phase=phase,
        node=_node(spec),
        scheduled=records.stamp(scheduled),
        deletion=records.stamp(metadata.deletion_timestamp),
        grace_seconds=metadata.deletion_grace_period_seconds,
        disrupted=records.stamp(disrupted),
        disruption=disruption,
        finished=finished,
        listed=is_finished and record.change == "LISTED",
        acknowledged=records.stamp(status.start_time if is_ended or not scheduled else None),
        ran="" if phase == "Running" else pod_ends.ran(status),
        init_finished=pod_ends.init_finished(spec, status) if is_finished else None,
        refusal=pod_ends.refusal(status) if phase == "Failed" else "",
        written=records.status_written(record.object) if is_finished else None,
        evidence=evidence,
        deadline_s=spec.active_deadline_seconds,
        priority=spec.priority or 0,
        owner=owner,
        team=named(labels.team, metadata.labels),
        user=pod_user(labels, metadata.labels, metadata.annotations),
        labels=texts.labels,
        annotations=texts.annotations,
        resources=resources,
        limits=whole_limits(limits_of(spec, status)),
        constraints=constraints,
        exits=exits,
        restarts=restarts,
        claims=claim_names(
            spec.resource_claims,
            status.resource_claim_statuses,
            status.extended_resource_claim_status,
        ),
        claim_templates=claim_templates(spec.resource_claims),
        claimed=claimed(status.extended_resource_claim_status),
        is_unready=is_unready and phase == "Running",
        card_texts=card_texts.of_pod(metadata.labels, metadata.annotations, resources, labels),
        notes=records.notes(
            ("labels_cut", texts.labels_cut),
            ("annotations_cut", texts.annotations_cut),
            ("finished_cut", finished_cut),
            ("evidence_cut", evidence_cut),
            ("containers_folded", is_folded),
            ("resources_cut", resources_cut),
            ("constraints_cut", constraints_cut),
        ),
    )
    event = records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )
    # A watch may have reported the same version: another body needs another id.
    return msgspec.structs.replace(event, id=f"{event.id}/listed") if fact.listed else event


def host_ports(spec: PodSpec) -> Iterator[HostPort]:
    """Ports of containers and of sidecars (they run beside them)."""
    for one in spec.containers or ():
        yield from one.ports or ()
    for one in spec.init_containers or ():
        if one.restart_policy == "Always":
            yield from one.ports or ()


def _images(spec: PodSpec) -> list[str]:
    """The images of its containers while it waits: a pod with a node needs none to be placed."""
    if spec.node_name:
        return []
    return [one.image or "" for one in (*(spec.init_containers or ()), *(spec.containers or ()))]


def _node(spec: PodSpec) -> str | None:
    if not spec.node_name:
        return None
    if not records.usable(spec.node_name, LONGEST_NAME):
        raise ObservationError("a field is no name", field="nodeName", length=len(spec.node_name))
    return spec.node_name


def _exits(status: PodStatus) -> tuple[dict[str, int], int]:
    """Exit codes by container, of at most :data:`pod_ends.MOST_FINISHES`, and all restarts."""
    found, restarts = dict[str, int](), 0
    for one in status.container_statuses or ():
        restarts += one.restart_count or 0
        ended = one.state.terminated if one.state else None
        if (
            ended is not None
            and ended.exit_code is not None
            and len(found) < pod_ends.MOST_FINISHES
        ):
            found[one.name[:LONGEST_NAME]] = ended.exit_code
    return found, restarts


def bounded_resources(resources: PodResources) -> tuple[msgspec.Raw, bool, bool]:
    """``resources`` as they are written, whether they were folded, and whether they are still too large."""
    whole = encoded_resources(resources)
    if len(bytes(whole)) <= LARGEST_RESOURCES:
        return whole, False, False
    one, is_cut = folded(resources)
    return encoded_resources(one), True, is_cut


def folded(resources: PodResources) -> tuple[PodResources, bool]:
    """``resources`` as one container with the pod's effective request, for an equal charge.

    Unreadable quantities stay unreadable. Of too many names, cores, memory and devices are kept first; the second
    value: whether any was dropped. second whether any had to be left out.
    """
    request, unreadable = effective(resources)
    written = {name: f"{nano}n" for name, nano in request.items() if nano}
    written |= dict.fromkeys(unreadable, "?")
    kept: dict[str, str] = {}
    room = LARGEST_RESOURCES - 64
    for name in sorted(written, key=_order):
        size = encoded_size(name) + len(written[name]) + 4
        if size <= room:
            room -= size
            kept[name] = written[name]
    return PodResources(containers=(ContainerResources(requests=kept),)), len(kept) < len(written)


def _order(name: str) -> tuple[int, str]:
    if name in ("cpu", "memory"):
        return 0, name
    is_device = name.rpartition("/")[2] in ("gpu", "gpu-core", "gpu-memory-ratio")
    return (1 if is_device else 2 if name.startswith("hugepages-") else 3), name


def resources_of(spec: PodSpec, status: PodStatus, infeasible: bool) -> PodResources:
    """Everything with an effect on the charge. A container's status is found by its name."""
    pod = spec.resources.requests if spec.resources else None
    return PodResources(
        containers=_containers(spec.containers, status.container_statuses),
        init_containers=_containers(spec.init_containers, status.init_container_statuses),
        overhead=_written(spec.overhead),
        requests=_written(pod),
        actual=_written(status.resources.requests) if status.resources else None,
        allocated=_written(status.allocated_resources) if status.allocated_resources else None,
        infeasible=infeasible,
    )


def _containers(
    containers: list[Container] | None, statuses: list[ContainerStatus] | None
) -> tuple[ContainerResources, ...]:
    if not containers:
        return ()
    by_name: Mapping[str, ContainerStatus] = {one.name: one for one in statuses or ()}
    return tuple(_container(one, by_name.get(one.name)) for one in containers)


def _container(container: Container, status: ContainerStatus | None) -> ContainerResources:
    actual = status.resources if status else None
    allocated = status.allocated_resources if status else None
    return ContainerResources(
        requests=_written(container.resources.requests if container.resources else None),
        actual=_written(actual.requests) if actual else None,
        allocated=_written(allocated) if allocated else None,
        restartable=container.restart_policy == "Always",
    )


def limits_of(spec: PodSpec, status: PodStatus) -> PodResources:
    """The limits in the place of requests; during a resize the larger of current and requested."""
    return PodResources(
        containers=_limited(spec.containers, status.container_statuses),
        init_containers=_limited(spec.init_containers, status.init_container_statuses),
        overhead=_only_limited(spec.overhead),
        requests=_only_limited(spec.resources.limits) if spec.resources else {},
    )


def _limited(
    containers: list[Container] | None, statuses: list[ContainerStatus] | None
) -> tuple[ContainerResources, ...]:
    by_name = {one.name: one.resources for one in statuses or ()}
    found = []
    for container in containers or ():
        actual = by_name.get(container.name)
        found.append(
            ContainerResources(
                requests=_bounds(container.resources),
                actual=_bounds(actual) if actual and actual.limits else None,
                restartable=container.restart_policy == "Always",
            )
        )
    return tuple(found)


def _bounds(resources: Resources | None) -> Quantities:
    if resources is None:
        return {}
    return bounds(_only_limited(resources.limits), _only_limited(resources.requests))


def _only_limited(quantities: Quantities | None) -> Quantities:
    if not quantities:
        return {}
    return _written({name: quantities[name] for name in LIMITED if name in quantities})


def _written(quantities: Quantities | None) -> Quantities:
    """The quantities as they were written; a too long one is published shorter, with its value.

    The API server keeps leading zeros in any number, and with them a pod could grow beyond a message and so out of
    the ledger. Invalid quantities are cut, and stay invalid.
    """
    if not quantities:
        return {}
    for name, text in quantities.items():
        if len(text) > LONGEST_QUANTITY:
            quantities[name] = _shorter(text)
    return quantities


def _shorter(text: str) -> str:
    try:
        return f"{observed_quantity(text)}n"
    except QuantityError:
        return text[: LONGEST_QUANTITY - 1] + "?"
