"""Facts about quotas: their objects, in the ledger's own measures.

Both kinds, Bursar's `BizGroupResourceQuota` and Koordinator's `ElasticQuota`, are one fact: fields missing in a
kind stay at their default. Amounts are converted once, by the source, and rounded up.

Source: docs/quotas.md; docs/accounting.md; docs/wrong-input.md C.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.vocabulary import Fact


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """The periods of a quota's budget, and the effect of its exhaustion."""

    #: ``Day``, ``Week``, ``Month`` or ``Total`` (never anew); ``Windows``: those of ``windows``.
    period: str = "Total"
    #: IANA name; days, weeks and months begin there.
    time_zone: str = "UTC"
    #: [from, until) in whole seconds UTC, in order, each beginning where the one before ends.
    windows: tuple[tuple[int, int], ...] = ()
    #: ``Warn``, ``DenyNew`` or ``GraceThenEvict``.
    exhaustion: str = "DenyNew"
    #: Between exhaustion and eviction; only for ``GraceThenEvict``.
    grace_seconds: int = 0


class Queue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The waiting rule of workloads for a full quota."""

    #: Held in a queue; otherwise refused.
    hold: bool = False
    #: ``Strict`` or ``BackFill``.
    order: str = "BackFill"
    #: Longest delay of the head by back-fill; 0 = the head is never passed.
    max_head_delay_seconds: int = 0
    #: Held workloads are marked as gangs.
    gang: bool = False


class NamespaceRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A requirement on a label of a namespace, as in a Kubernetes LabelSelector."""

    key: str
    #: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``.
    operator: str
    values: tuple[str, ...] = ()


class Serves(msgspec.Struct, frozen=True, omit_defaults=True):
    """The namespaces of a quota: named and selected ones, or all, if neither the quota nor an ancestor names any."""

    namespaces: tuple[str, ...] = ()
    #: Selects the namespaces with all of them; empty = no selector.
    selector: tuple[NamespaceRequirement, ...] = ()


class QuotaObserved(Fact, frozen=True, kw_only=True):
    """A quota was observed. Key: its uid.

    Amounts of ``hard`` are by quota key (``requests.cpu``, ``limits.cpu.A4``), those of ``min``, ``max`` and ``weight`` by
    resource name: cpu in milli-cores, everything else in whole units (bytes, pieces). A key that is absent is no limit.
    """

    wire_type: ClassVar[str] = "quota.observed"

    uid: str
    #: ``BizGroupResourceQuota`` or ``ElasticQuota``.
    kind: str
    name: str
    #: "" for BizGroupResourceQuota (cluster scope).
    namespace: str = ""
    resource_version: str
    created: str | None = None
    generation: int = 0
    #: Name of the quota above; "" = it is a root.
    parent: str = ""
    #: Koordinator's tree id; "" = the default tree.
    tree: str = ""
    hard: dict[str, int] = {}
    #: Budgets by key without ``cash/``, in the ledger's measures: milli-core-seconds of cpu,
    #: milli-card-seconds of ``…/gpu``, MiB-seconds of memory; typed keys (``limits.cpu.A4``) alike.
    cash: dict[str, int] = {}
    min: dict[str, int] = {}
    max: dict[str, int] = {}
    #: None = never stated: then it is ``max``.
    weight: dict[str, int] | None = None
    #: Its unrequested share goes to others, its ``min`` too.
    lends: bool = True
    #: Holds quotas, not pods.
    is_parent: bool = False
    #: It is the top of the tree ``tree``.
    tree_root: bool = False
    #: Checks of sums of ``min`` are skipped for it.
    force_update: bool = False
    #: Resources with ``max`` never below the usage.
    strict_max_keys: tuple[str, ...] = ()
    #: Pods of these namespaces go into it (ElasticQuota's annotation).
    namespaces: tuple[str, ...] = ()
    budget: Budget = Budget()
    queue: Queue = Queue()
    #: Of BizGroupResourceQuota; None = missing, as in older histories: any object naming it is charged to it then.
    serves: Serves | None = None
    #: A container without a limit is charged by its request instead of being refused.
    charges_requests: bool = False
    #: Why the object cannot be used, by field path; "" = it can. The amounts are empty then: the
    #: quota is shown, and neither charged nor taken for unlimited.
    problem: str = ""
    #: Rounding by the source, ``rounded_up:<key>``: quantities finer than the measure.
    notes: tuple[str, ...] = ()


class QuotaVanished(Fact, frozen=True, kw_only=True):
    """A quota was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "quota.vanished"

    uid: str
    kind: str
    name: str
    namespace: str = ""
    resource_version: str
