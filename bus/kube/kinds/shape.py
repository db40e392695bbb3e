"""The shapes: the description of a kind, and the demand of an object.

A *path* names a place in an object as JSON has it, ``spec.template``; ``*`` stands for every value of a map (in the
order of its keys) or of a list. "" is the object itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bus.events.runtimes import RuntimeUse

#: A workload's labels for its quota and its models; an ask has no other labels.
QUOTA_LABELS = (
    "biz.group.resource.quota",
    "biz.group.resource.quota/cpu-type",
    "biz.group.resource.quota/gpu-type",
    "biz.group.resource.quota/memory-type",
    "quota.scheduling.koordinator.sh/name",
    "quota.scheduling.koordinator.sh/tree-id",
)

#: The API server's label for the name of a namespace.
NAME_LABEL = "kubernetes.io/metadata.name"
#: Prefixes of further selectable labels of namespaces: the history has them with any settings.
SELECTABLE = ("app.kubernetes.io/", "bursar.io/")

#: On a suspended object: it waits in this quota's queue, and Bursar starts it. Without it, its user suspended it.
QUEUE_ANNOTATION = "bursar.io/queue"

#: (path, values): true if one of the values is at the path; "" also matches an absent field.
Holds = tuple[str, tuple[str | bool, ...]]

Left = Callable[[Mapping[str, Any], Any, int], int]
"""How many pods of a set its controller can still make: of the object, the value at the set's place, and the set's pods."""


class Added(msgspec.Struct, frozen=True):
    """A container added by the controller to each pod of a set. Paths begin at the object."""

    name: str
    #: Quantities of CPU and memory, as Kubernetes writes them.
    requests: tuple[str, str]
    limits: tuple[str, str]
    #: The controller adds it where all of these hold, and where something stands at ``if_present``.
    when: tuple[Holds, ...] = ()
    if_present: str = ""
    #: ``resources`` here replace those above.
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
    #: A flag for a set without pods.
    suspended: str = ""
    #: Paths from the object: the controller makes the set only where all of these hold.
    when: tuple[Holds, ...] = ()
    #: Containers added by the controller; without a template, the only container of the set.
    adds: tuple[Added, ...] = ()
    default_container: Added | None = None
    #: Pods finished by the status are excluded.
    left: Left | None = None
    #: An object without this set asks for the others only; otherwise it is refused.
    optional: bool = False


class Kind(msgspec.Struct, frozen=True):
    """A governed kind: the paths of templates and pod counts in its objects."""

    group: str
    #: Versions of the group with the paths below; the first one is followed.
    versions: tuple[str, ...]
    #: The plural, as API paths and admission reviews name it.
    resource: str
    kind: str
    sets: tuple[PodSet, ...]
    #: Seconds until its controller ends it.
    deadline: str = ""
    #: The suspend flag, and the suspend annotation (its presence counts).
    suspend: str = ""
    stopped: str = ""
    #: Its controller refuses the flag unless all of these hold, and if one of the paths has a value.
    suspends_if: tuple[Holds, ...] = ()
    suspends_without: tuple[str, ...] = ()
    #: Pods still running while suspended (a list or a number): until it is empty the object is charged for its
    #: demand.
    active: str = ""
    #: Condition types with ``True`` for a controller without further pods, and other marks of an end; all must
    #: hold.
    ended_conditions: tuple[str, ...] = ()
    ended: tuple[Holds, ...] = ()
    #: The path of the responsible controller, and the names of the controllers of this cluster.
    managed_by: str = ""
    managers: tuple[str, ...] = ()
    #: How many pods must start together.
    gang: str = ""
    #: ``at`` of the set with the scale subresource; "" = it has no such subresource.
    scales: str = ""
    #: Whether its own demand covers its children.
    covers: bool = True
    #: Whether it waits suspended in a held queue instead of being refused, if its controller supports that.
    queues: bool = False
    #: It has no templates: it names a training runtime with templates.
    has_runtime: bool = False
    #: Child kinds made by its controller.
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
    """The current demand of one workload.

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
    #: Of the first pod set with a label.
    priority_class: str = ""
    #: Demand of one pod and number of pods, for the set with the scale subresource, or for the only set. None
    #: without such a set. Also known while suspended.
    per_replica: dict[str, int] | None = None
    replicas: int | None = None
    #: While suspended and not ended: the demand after it resumes.
    wanted: dict[str, int] = {}
    #: It is suspended because it waits in a queue (:data:`QUEUE_ANNOTATION`).
    held: bool = False
    #: By ``limits.<resource>``: containers without a limit; by ``requests.<resource>``: those of them without a
    #: request. Their demand is their request.
    unstated: dict[str, tuple[str, ...]] = {}
    #: Claims of devices named by its pods directly, without those of templates.
    claims: tuple[str, ...] = ()
    #: The runtime of a TrainJob. Until it was observed, the demand is the runtime's name. Rows of a ledger hold
    #: asks: an unset value is not written, so rows of other kinds stay as they were.
    runtime: RuntimeUse | msgspec.UnsetType = msgspec.UNSET
    #: Another controller named by the object: it makes no pods in this cluster.
    managed_by: str | msgspec.UnsetType = msgspec.UNSET


class Scale(msgspec.Struct, frozen=True):
    """An ``autoscaling/v1 Scale``: how many replicas the object ``uid`` shall have."""

    uid: str
    replicas: int


class ScaleTarget(msgspec.Struct, frozen=True):
    """The target of a HorizontalPodAutoscaler, in its own namespace, and its limit."""

    group: str
    kind: str
    name: str
    max_replicas: int
