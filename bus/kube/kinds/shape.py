"""The shapes: how a kind is described, and what is read of an object of it.

A *path* names a place in an object as JSON has it, ``spec.template``; ``*`` stands for every value of a map (in the
order of its keys) or of a list. "" is the object itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bus.events.runtimes import RuntimeUse

#: The labels of a workload that name its quota and the models it asks for; all that an ask carries of labels.
QUOTA_LABELS = (
    "biz.group.resource.quota",
    "biz.group.resource.quota/cpu-type",
    "biz.group.resource.quota/gpu-type",
    "biz.group.resource.quota/memory-type",
    "quota.scheduling.koordinator.sh/name",
    "quota.scheduling.koordinator.sh/tree-id",
)

#: The label that the API server gives every namespace: its name.
NAME_LABEL = "kubernetes.io/metadata.name"
#: Prefixes of the other labels by which a quota may select namespaces: the history keeps them whatever the settings.
SELECTABLE = ("app.kubernetes.io/", "bursar.io/")

#: On a suspended object: it waits in this quota's queue, and Bursar starts it. Without it, its user suspended it.
QUEUE_ANNOTATION = "bursar.io/queue"

#: (path, values): holds where one of the values stands at the path; "" also stands for a field that is absent.
Holds = tuple[str, tuple[str | bool, ...]]

Left = Callable[[Mapping[str, Any], Any, int], int]
"""How many pods of a set its controller can still make: of the object, the value at the set's place, and the set's pods."""


class Added(msgspec.Struct, frozen=True):
    """A container that the controller adds to each pod of a set. Paths begin at the object."""

    name: str
    #: Quantities of CPU and memory, as Kubernetes writes them.
    requests: tuple[str, str]
    limits: tuple[str, str]
    #: The controller adds it where all of these hold, and where something stands at ``if_present``.
    when: tuple[Holds, ...] = ()
    if_present: str = ""
    #: ``resources`` that stand here replace those above.
    resources: str = ""
    is_init: bool = False


class PodSet(msgspec.Struct, frozen=True):
    """Pods made from one template. All paths but ``at`` start at ``at``; "" = there is no such field.

    Pods: ``replicas`` (``default`` where absent or null), at least ``at_least``, at most ``at_most``, times ``times``.
    """

    #: Where the set is; with ``*`` it is as many sets as are found there.
    at: str = "spec"
    template: str = "template"
    replicas: str = ""
    default: int = 1
    at_least: str = ""
    at_most: str = ""
    times: str = ""
    #: A flag that leaves the set without pods.
    suspended: str = ""
    #: Paths from the object: the controller makes the set only where all of these hold.
    when: tuple[Holds, ...] = ()
    #: Containers that the controller adds, and the only container of a set whose template is absent.
    adds: tuple[Added, ...] = ()
    default_container: Added | None = None
    #: Pods that the status reports as finished are out.
    left: Left | None = None
    #: An object without this set asks for the others only; otherwise it is refused.
    optional: bool = False


class Kind(msgspec.Struct, frozen=True):
    """A governed kind: where an object of it says how many pods of which template it wants."""

    group: str
    #: Versions of the group in which the paths below hold; the first one is followed.
    versions: tuple[str, ...]
    #: The plural, as API paths and admission reviews name it.
    resource: str
    kind: str
    sets: tuple[PodSet, ...]
    #: Seconds after which it is ended by its controller.
    deadline: str = ""
    #: The flag that keeps it from running, and the annotation whose presence does.
    suspend: str = ""
    stopped: str = ""
    #: Its controller refuses that flag unless all of these hold, and where something stands at one of the paths.
    suspends_if: tuple[Holds, ...] = ()
    suspends_without: tuple[str, ...] = ()
    #: What still runs while suspended (a list or a number): until it is empty the object holds what it asked for.
    active: str = ""
    #: Condition types whose ``True`` means that its controller makes nothing more, and other marks of that, which must all hold.
    ended_conditions: tuple[str, ...] = ()
    ended: tuple[Holds, ...] = ()
    #: Where the controller is named that makes its pods, and the names of those that make them in this cluster.
    managed_by: str = ""
    managers: tuple[str, ...] = ()
    #: How many pods must start together.
    gang: str = ""
    #: ``at`` of the set whose replicas the scale subresource sets; "" = it has no such subresource.
    scales: str = ""
    #: Whether what it controls is covered by what it asks for.
    covers: bool = True
    #: Whether it waits, suspended, where its quota holds instead of refusing; if its controller takes that.
    queues: bool = False
    #: It has no templates: it names a training runtime that has them.
    has_runtime: bool = False
    #: The kinds that its controller makes below it.
    makes: tuple[str, ...] = ("Pod",)

    @property
    def is_native(self) -> bool:
        """Whether its controller is part of Kubernetes itself, and so known by its account."""
        return self.group in ("apps", "batch")

    @property
    def path(self) -> str:
        """Where an API server serves all objects of it."""
        group = f"/apis/{self.group}" if self.group else "/api"
        return f"{group}/{self.versions[0]}/{self.resource}"


class Ask(msgspec.Struct, frozen=True):
    """What one workload asks for now.

    ``demand``: ``requests.<resource>`` and ``limits.<resource>`` to amounts over all its pods, cpu in milli, everything
    else in whole units (bytes, counts); no zeros. Nothing, and 0 ``pods``, while it is ``suspended``: held back, stopped
    or ended.
    """

    demand: dict[str, int] = {}
    pods: int = 0
    #: Seconds from its start to its end by its controller; None = no end is set. Of a CronJob: of each run.
    deadline_s: int | None = None
    suspended: bool = False
    #: Of :data:`QUOTA_LABELS`: the workload's own, else those of its pod templates.
    labels: dict[str, str] = {}
    #: Of the first pod set that names one.
    priority_class: str = ""
    #: Demand of one pod, and number of pods, of the set that the scale subresource sets, or of the only set; None
    #: where there is no such set. Also known while suspended.
    per_replica: dict[str, int] | None = None
    replicas: int | None = None
    #: While it is suspended and has not ended: what it asks for once it runs.
    wanted: dict[str, int] = {}
    #: It is suspended because it waits in a queue (:data:`QUEUE_ANNOTATION`).
    held: bool = False
    #: By ``limits.<resource>``: its containers that state no limit of it; by ``requests.<resource>``: those of them that
    #: state no request either. Their demand is what they request.
    unstated: dict[str, tuple[str, ...]] = {}
    #: Claims of devices that its pods name themselves, without those of templates.
    claims: tuple[str, ...] = ()
    #: Of a TrainJob: the runtime that it names. Until that was seen its demand is the runtime's name. Rows of a ledger hold asks:
    #: unset it is not written, so that those of other kinds are as they were.
    runtime: RuntimeUse | msgspec.UnsetType = msgspec.UNSET
    #: Another controller that the object names: it makes no pods in this cluster.
    managed_by: str | msgspec.UnsetType = msgspec.UNSET


class Scale(msgspec.Struct, frozen=True):
    """An ``autoscaling/v1 Scale``: how many replicas the object ``uid`` shall have."""

    uid: str
    replicas: int


class Target(msgspec.Struct, frozen=True):
    """What a HorizontalPodAutoscaler scales, in its own namespace, and how far."""

    group: str
    kind: str
    name: str
    max_replicas: int
