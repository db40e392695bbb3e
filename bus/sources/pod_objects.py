"""The decoded part of a pod: no environment, arguments, mounts or messages.

Source: Kubernetes API reference, core/v1 Pod.
"""

from __future__ import annotations

import msgspec

from bus.events.constraints import HostPort
from bus.kube.watch.records import Metadata
from bus.sources.constraints import Placing, PodClaim
from bus.sources.device_names import ExtendedClaim

Quantities = dict[str, str]


class Resources(msgspec.Struct):
    """``resources`` of a container, of its status or of a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(msgspec.Struct, rename="camel"):
    """The decoded part of a container: no command, arguments, environment or mounts."""

    name: str = ""
    image: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[HostPort] | None = None


class Running(msgspec.Struct, rename="camel"):
    """``state.running`` of a container."""

    started_at: str | None = None


class Terminated(msgspec.Struct, rename="camel"):
    """``state.terminated`` of a container."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None


class State(msgspec.Struct):
    """``state`` or ``lastState`` of a container."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """The decoded part of a container's status."""

    name: str = ""
    state: State | None = None
    last_state: State | None = None
    restart_count: int | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class Condition(msgspec.Struct, rename="camel"):
    """An entry of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: str | None = None


class PodSpec(Placing, rename="camel"):
    """The decoded part of ``spec``."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    active_deadline_seconds: int | None = None
    priority: int | None = None


class PodStatus(msgspec.Struct, rename="camel"):
    """The decoded part of ``status``."""

    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None
    resource_claim_statuses: list[PodClaim] | None = None
    extended_resource_claim_status: ExtendedClaim | None = None


class Pod(msgspec.Struct):
    """The decoded part of a pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None
