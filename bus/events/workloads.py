"""Facts about workloads: the links of the owner chain from a pod up to what its user created, and what each asks for.

Source: Kubernetes API reference, apps/v1 and batch/v1; docs/accounting.md (workload); docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bus.events.pods import Owner
from bus.events.vocabulary import Fact, Upcast

#: The note of a workload whose demand could not be read: it is there, and what it asks for is unknown.
UNREADABLE = "demand_unreadable"


def _said_less(body: dict[str, Any]) -> dict[str, Any]:
    return body


class WorkloadObserved(Fact, frozen=True, kw_only=True):
    """An object of a governed kind was seen, a Deployment or a Job, say. Key: its uid.

    ``demand`` to ``replicas`` are what :func:`bus.kube.kinds.asked` reads of it, also of one whose controller answers for
    it: whether it is charged is a question of the whole chain. Version 1 said nothing of them, version 2 nothing of what
    waits: ``wanted``, ``priority_class`` and ``held``.
    """

    wire_type: ClassVar[str] = "workload.observed"
    version: ClassVar[int] = 3
    upcasts: ClassVar[Mapping[int, Upcast]] = {1: _said_less, 2: _said_less}

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    owner: Owner | None = None
    #: Its own, by the label policy; and those that name its quota, its own or else those of its templates.
    labels: dict[str, str] = {}
    #: Its own, those of Bursar and the stamps of Kubeflow's culler: what its user wants of culling, say.
    annotations: dict[str, str] = {}
    #: ``requests.<resource>`` and ``limits.<resource>`` over all pods: cpu in milli, everything else in whole units.
    #: None = not said, or unreadable (see ``notes``).
    demand: dict[str, int] | None = None
    pods: int = 0
    deadline_s: int | None = None
    #: Held back, stopped or ended: it asks for nothing now.
    suspended: bool = False
    #: Demand of one pod, and number of pods, of the set that a scale sets; None where there is none.
    per_replica: dict[str, int] | None = None
    replicas: int | None = None
    #: While it is suspended and has not ended: what it asks for once it runs.
    wanted: dict[str, int] = {}
    #: Of the first of its pod templates that names one.
    priority_class: str = ""
    #: It is suspended because it waits in a queue, not by its user.
    held: bool = False
    #: As :class:`bus.kube.kinds.Ask` has it: containers that state no limit of ``limits.<resource>``, or no request either.
    unstated: dict[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()


class WorkloadVanished(Fact, frozen=True, kw_only=True):
    """A workload was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "workload.vanished"

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
