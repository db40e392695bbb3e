"""Facts about pods: observed, vanished and completely listed pods, PodDisruptionBudgets, PodGroups and Reservations.

Bodies hold the API server's fields, by an allow-list: stamps as its own strings, quantities as its own strings, so
a replay with better rules needs no new observation. No environment, arguments, volumes or unlisted annotations.

Source: Kubernetes API reference, core/v1 Pod, policy/v1 PodDisruptionBudget, scheduling.k8s.io PodGroup;
kubernetes-sigs/scheduler-plugins, scheduling.sigs.k8s.io PodGroup; volcano-sh/volcano, scheduling.volcano.sh PodGroup;
koordinator-sh/koordinator, scheduling.koordinator.sh Reservation; docs/architecture.md; docs/accounting.md; docs/scheduling.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.amounts import PodResources
from bus.events.constraints import NO_CONSTRAINTS, LabelSelector
from bus.events.vocabulary import Fact

#: Kinds of PodGroups, by the group of their API.
NATIVE = "PodGroup.scheduling.k8s.io"
SIGS = "PodGroup.scheduling.sigs.k8s.io"
PLUGINS = "PodGroup.scheduling.x-k8s.io"
VOLCANO = "PodGroup.scheduling.volcano.sh"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The controller of an object (its ``ownerReferences`` entry with ``controller: true``)."""

    kind: str
    name: str
    uid: str


class PodState(Fact, frozen=True, kw_only=True):
    """A pod as one watch or list record showed it. All fields come from the API server.

    ``created``, ``scheduled``, ``acknowledged``, ``deletion``, ``disrupted``, ``finished``, ``init_finished``, ``written`` and
    ``evidence`` are RFC 3339 as written there.
    ``resources`` is a :class:`bus.amounts.PodResources` object, kept as raw JSON: its charge is cached by these bytes.
    """

    uid: str
    namespace: str
    name: str
    #: Opaque but for the order rule of docs/accounting.md.
    resource_version: str
    created: str | None = None
    phase: str = ""
    #: spec.nodeName; absent while not bound.
    node: str | None = None
    #: lastTransitionTime of PodScheduled=True; absent on pods created with a node name.
    scheduled: str | None = None
    #: metadata.deletionTimestamp: a deadline while ``grace_seconds`` is above 0, the time of the delete at 0.
    deletion: str | None = None
    grace_seconds: int | None = None
    #: lastTransitionTime of DisruptionTarget=True.
    disrupted: str | None = None
    #: Its reason, if it is one of Kubernetes' components; "" for another.
    disruption: str = ""
    #: In phase Succeeded or Failed: finishedAt of its containers and sidecars, where each of them has one. Older histories have
    #: those of all terminated containers, init containers too.
    finished: tuple[str, ...] = ()
    #: In phase Succeeded or Failed: a list returned this state, not a watch. Older histories do not record it.
    listed: bool = False
    #: status.startTime of a pod without ``scheduled``, and of an ended one.
    acknowledged: str | None = None
    #: Started containers, of a pod in another phase than Running: ``regular``, ``init`` (none but init containers),
    #: or "".
    ran: str = ""
    #: In phase Succeeded or Failed: the latest finishedAt of its init containers, where a plain one failed.
    init_finished: str | None = None
    #: In phase Failed: status.reason of a pod without container statuses, refused by the kubelet's admission.
    refusal: str = ""
    #: In phase Succeeded or Failed: the newest time in managedFields of the status subresource.
    written: str | None = None
    #: Of an ended pod without a stamp of its end: startedAt and finishedAt of its containers, lastTransitionTime of
    #: its conditions.
    evidence: tuple[str, ...] = ()
    #: spec.activeDeadlineSeconds: it is ended this long after its start; absent where nothing bounds it.
    deadline_s: int | None = None
    #: spec.priority, set by the API server from its class.
    priority: int = 0
    owner: Owner | None = None
    #: The team and user labels' values, found by the source under its configured keys; None = no such label.
    team: str | None = None
    user: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resources: msgspec.Raw = msgspec.Raw(b"{}")
    #: Its limits of cpu (milli), memory and ephemeral-storage (bytes), over all its containers; of everything else the
    #: limit is the request. None = not stated (older histories), or unreadable.
    limits: dict[str, int] | None = None
    #: A :class:`bus.events.constraints.PodConstraints` object as raw JSON; absent where the pod may go anywhere.
    constraints: msgspec.Raw = NO_CONSTRAINTS
    #: Of a pod of a training job: the exit codes of its ended containers, by name, and the number of its
    #: containers' restarts.
    exits: dict[str, int] = {}
    restarts: int = 0
    #: Names of its claims of devices: those in its spec, and those made for it.
    claims: tuple[str, ...] = ()
    #: The templates of its claims, one name for each claim.
    claim_templates: tuple[str, ...] = ()
    #: Extended resources from a claim, not from its node's device plugin.
    claimed: tuple[str, ...] = ()
    #: Its condition Ready is False while it runs.
    is_unready: bool = False
    #: The texts of card-sharing systems in its annotations and labels: docs/devices.md.
    card_texts: dict[str, str] = {}
    #: The source's cuts and repairs, e.g. ``labels_cut``.
    notes: tuple[str, ...] = ()


class PodObserved(PodState, frozen=True, kw_only=True):
    """A pod was observed: ADDED, MODIFIED, or in a list. Key: its uid."""

    wire_type: ClassVar[str] = "pod.observed"


class PodVanished(PodState, frozen=True, kw_only=True):
    """A pod was deleted: the last state, as the DELETED record carried it. Key: its uid."""

    wire_type: ClassVar[str] = "pod.vanished"


class PodsListed(Fact, frozen=True, kw_only=True):
    """Every pod whose uid lies in [``first``, ``until``) at one moment: who is not in ``uids`` did not exist.

    One list of a cluster is cut into parts by uid ranges, each complete in itself, so that a part needs no other
    part to be folded and none is larger than a message may be. ``first`` "" and ``until`` "" are open ends.
    Key: ``<resource version>-<part>``.
    """

    wire_type: ClassVar[str] = "pods.listed"

    #: The list's resourceVersion: it shows the cluster as of that version; "" in a recording without versions.
    resource_version: str = ""
    first: str = ""
    until: str = ""
    uids: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1


class DisruptionBudgetObserved(Fact, frozen=True, kw_only=True):
    """A disruption budget was observed. Key: its uid."""

    wire_type: ClassVar[str] = "disruptionbudget.observed"

    uid: str
    namespace: str
    name: str
    resource_version: str
    #: The protected pods; None = none.
    selector: LabelSelector | None = None
    #: status.disruptionsAllowed: how many of them may go now.
    allowed: int = 0
    #: status.disruptedPods: names of pods counted as gone already.
    disrupted: tuple[str, ...] = ()
    #: Labels of pods in its selector, not published by the source.
    unkept_labels: tuple[str, ...] = ()
    #: Its selector is larger than a fact: its protected pods are unknown.
    is_cut: bool = False


class DisruptionBudgetVanished(Fact, frozen=True, kw_only=True):
    """A disruption budget was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "disruptionbudget.vanished"

    uid: str
    namespace: str
    name: str
    resource_version: str


class PodGroupObserved(Fact, frozen=True, kw_only=True):
    """A PodGroup was observed. Texts are as its annotations have them. Key: its uid."""

    wire_type: ClassVar[str] = "podgroup.observed"

    #: ``NATIVE``, ``SIGS``, ``PLUGINS`` or ``VOLCANO``.
    kind: str
    uid: str
    namespace: str
    name: str
    resource_version: str
    #: So many of its pods start together; None = each starts by itself.
    least: int | None = None
    #: spec.scheduleTimeoutSeconds.
    wait_seconds: int | None = None
    #: Koordinator's annotations ``mode``, ``total-number`` and ``groups``.
    mode: str = ""
    total: str = ""
    groups: str = ""
    #: ``groups`` is more than a fact carries.
    is_cut: bool = False
    #: The label of nodes with one value for all its pods; "" = any nodes.
    topology: str = ""
    #: Volcano's queue, and the phase written by the controller of its API.
    queue: str = ""
    phase: str = ""
    owner: Owner | None = None
    #: Koordinator's scheduler made it from the annotations of pods. These have more data.
    is_copy: bool = False
    #: None of its pods goes for a more important one without the others.
    goes_whole: bool = False


class PodGroupVanished(Fact, frozen=True, kw_only=True):
    """A PodGroup was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "podgroup.vanished"

    kind: str
    uid: str
    namespace: str
    name: str
    resource_version: str


class OwnerObject(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A pod that may use a reservation, or the controller of such pods. An empty text means any."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    #: Of a controller: the required flag of its owner reference; None = any.
    controller: bool | None = None


class ReservationOwner(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An entry of ``spec.owners``: all that it says must fit a pod."""

    object: OwnerObject | None = None
    controller: OwnerObject | None = None
    label_selector: LabelSelector | None = None


class ReservationCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of ``status.conditions`` of a Reservation."""

    type: str
    is_true: bool = False
    reason: str = ""
    message: str = ""
    #: lastTransitionTime and lastProbeTime.
    changed: str | None = None
    probed: str | None = None


class ReservationObserved(Fact, frozen=True, kw_only=True):
    """A Reservation was observed. Key: its uid."""

    wire_type: ClassVar[str] = "reservation.observed"

    uid: str
    name: str
    resource_version: str
    created: str | None = None
    deletion: str | None = None
    team: str | None = None
    user: str | None = None
    #: The labels of its stand-in pod: those of the template, and the reservation's own above them.
    labels: dict[str, str] = {}
    #: Whether there is a template at all, and its namespace, node, priority and priority class.
    has_template: bool = True
    namespace: str = "default"
    template_node: str = ""
    priority: int | None = None
    priority_class: str = ""
    #: As in the fact of a pod.
    resources: msgspec.Raw = msgspec.Raw(b"{}")
    limits: dict[str, int] | None = None
    constraints: msgspec.Raw = NO_CONSTRAINTS
    owners: tuple[ReservationOwner, ...] = ()
    #: Labels of pods in the owners' selectors, not published by the source.
    unkept_labels: tuple[str, ...] = ()
    #: The owners are more than a fact carries: nobody is known to be one.
    owners_cut: bool = False
    #: A duration as Go writes it, and RFC 3339; None = not set.
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool = True
    pre_allocation: bool = False
    unschedulable: bool = False
    has_taints: bool = False
    #: ``Aligned`` or ``Restricted``; "" = the reservation must have all requests of a pod.
    allocate_policy: str = ""
    #: The resources of ``Restricted``; () = all reserved ones.
    restricted: tuple[str, ...] = ()
    #: The label ``scheduling.koordinator.sh/reservation-order``.
    order: str = ""
    phase: str = ""
    #: status.nodeName.
    node: str = ""
    conditions: tuple[ReservationCondition, ...] = ()
    #: Its amounts, and the part allocated to its owners, as written in its status; None = missing.
    allocatable: dict[str, str] | None = None
    allocated: dict[str, str] | None = None
    #: Uids of its current owners.
    current_owners: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ReservationVanished(Fact, frozen=True, kw_only=True):
    """A Reservation was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "reservation.vanished"

    uid: str
    name: str
    resource_version: str


def encoded_resources(resources: PodResources) -> msgspec.Raw:
    """``resources`` in the one form of bodies: equal resources give equal bytes."""
    return msgspec.Raw(msgspec.json.encode(resources, order="sorted"))
