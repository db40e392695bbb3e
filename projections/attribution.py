"""Attribution of an object by the labels around it: its quota, and the types of its demand. Pure.

Each label is looked for by itself: on the top workload of the pod's owner chain, else on the pod, else on its
namespace (a mapping for all its objects). ``biz.group.resource.quota``, wherever it stands, goes before
Koordinator's label. Objects without a quota label belong to the ElasticQuota of their namespace. A type counts only
together with a quota.

Whoever may edit workloads may write their labels, so a label alone does not choose a quota:

- A mapped namespace belongs to that quota. Its workloads may name the quota itself, one below it, or one with the
  namespace in its names or selector; with any other name, they are charged to the mapped one.
- A quota with names or a selector of namespaces, or below such a quota, serves no others: an object elsewhere
  naming it belongs to none, also by Koordinator's label, or by an ElasticQuota of the same name.
- A selector uses the observed labels of the namespace. An unobserved namespace is selected by none.

These rules apply to quotas with an observed :class:`bus.events.quotas.Serves`; for quotas of older histories, the
label alone decides, as it did then. The ledger and admission use the same function.

Source: ``docs/admission.md``, "Namespaces of a quota".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from bus.events.constraints import meets
from bus.events.quotas import NamespaceRequirement
from bus.kube.kinds import NAME_LABEL, QUOTA_LABELS, SELECTABLE

_QUOTA, _CPU, _GPU, _MEMORY, _KOORDINATOR, _ = QUOTA_LABELS
_NAMING = frozenset((_QUOTA, _CPU, _GPU, _MEMORY, _KOORDINATOR))

#: Group of pods without a team or a user.
UNASSIGNED = "unassigned"

#: Most followed levels of a tree.
LEVELS = 16

#: The names in one object's labels: business quota, cpu type, GPU type, memory type, elastic quota; "" for a
#: missing one.
Names = tuple[str, str, str, str, str]

#: Quota, cpu type, GPU type, memory type.
Attribution = tuple[str, str, str, str]

#: Resource of an account to the columns of a held segment: its amount, and its type.
AMOUNTS = {
    "cpu": ("cpu_milli", "cpu_type"),
    "gpu": ("gpu_milli", "gpu_type"),
    "memory": ("memory_mib", "memory_type"),
}

NOTHING: Attribution = ("", "", "", "")

_NO_NAMES: tuple[Names, ...] = (("", "", "", "", ""),)


class SeenNamespace(msgspec.Struct, frozen=True):
    """A namespace by name, with at least its selectable labels; None for an unobserved one."""

    name: str
    labels: Mapping[str, str] | None = None


class AttributionRule(msgspec.Struct, frozen=True, array_like=True):
    """The parent of a quota, and the names and selector of its namespaces."""

    parent: str = ""
    namespaces: tuple[str, ...] = ()
    selector: tuple[NamespaceRequirement, ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether it serves only the namespaces in its names or selector."""
        return bool(self.namespaces or self.selector)

    def has(self, namespace: SeenNamespace) -> bool:
        """Whether it names or selects the namespace."""
        return namespace.name in self.namespaces or (
            bool(self.selector)
            and namespace.labels is not None
            and all(_meets(namespace.name, namespace.labels, one) for one in self.selector)
        )


def _meets(name: str, labels: Mapping[str, str], one: NamespaceRequirement) -> bool:
    text = name if one.key == NAME_LABEL else labels.get(one.key)
    return meets(one.operator, one.values, text)


def selectable(labels: Mapping[str, str]) -> dict[str, str]:
    """A namespace's selectable labels, besides its name."""
    return {key: value for key, value in labels.items() if key.startswith(SELECTABLE)}


#: The rule of a quota by name; None if its observation lacks the served namespaces.
Rules = Callable[[str], AttributionRule | None]


def no_rules(quota: str) -> AttributionRule | None:
    """No quota was seen."""
    return None


def counts(named: str, mapped: str, namespace: SeenNamespace, rules: Rules) -> tuple[str, bool]:
    """The business quota charged for an object ("" for none), and whether the object may name its quota.

    ``named`` stands on the object, ``mapped`` on its ``namespace``; "" where there is none.
    """
    wanted = named or mapped
    is_served = serves(wanted, namespace, rules)
    if wanted == mapped or not mapped:
        return (wanted if is_served else ""), is_served
    own = rules(wanted)
    is_named = own is not None and own.has(namespace)
    if is_served and (is_named or is_below(wanted, mapped, rules)):
        return wanted, True
    if rules(mapped) is None:
        return (wanted if is_served else ""), False
    return (mapped if serves(mapped, namespace, rules) else ""), False


def serves(quota: str, namespace: SeenNamespace, rules: Rules) -> bool:
    """Whether the quota serves the namespace: by its own names and selector, else by those of the nearest ancestor
    with any.
    """
    rule = bound(quota, rules)
    return rule is None or rule.has(namespace)


def bound(quota: str, rules: Rules) -> AttributionRule | None:
    """The rule of the quota, or of its nearest ancestor with names or a selector of namespaces; None where none does."""
    for _ in range(LEVELS):
        rule = rules(quota) if quota else None
        if rule is None or rule.is_bounded:
            return rule
        quota = rule.parent
    return None


def is_below(quota: str, top: str, rules: Rules) -> bool:
    """Whether ``quota`` is ``top`` or stands below it."""
    for _ in range(LEVELS):
        if quota == top:
            return True
        rule = rules(quota) if quota else None
        if rule is None:
            return False
        quota = rule.parent
    return False


def names(labels: Mapping[str, str]) -> Names | None:
    """The names in an object's labels; None for nothing."""
    if _NAMING.isdisjoint(labels):
        return None
    get = labels.get
    found = (
        get(_QUOTA, ""), get(_CPU, ""), get(_GPU, ""), get(_MEMORY, ""), get(_KOORDINATOR, ""),
    )  # fmt: skip
    return found if any(found) else None


def attributed(
    *sources: Names | None,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    rules: Rules = no_rules,
    serving: str = "",
) -> Attribution:
    """Each name from the first of ``sources`` with it; nothing without a quota. The last one is the namespace's.

    ``labels`` are the selectable ones of the namespace, None for an unobserved one. ``serving`` is the ElasticQuota
    of the namespace, "" for none: for objects without a quota label.
    """
    named = [source for source in sources if source is not None]
    if not named and not serving:
        return NOTHING
    business, cpu, gpu, memory, elastic = (
        next(filter(None, place), "") for place in zip(*named or _NO_NAMES, strict=True)
    )
    seen = SeenNamespace(namespace, labels)
    if business:
        of_namespace = sources[-1]
        mapped = of_namespace[0] if of_namespace is not None else ""
        own = next((one[0] for one in sources[:-1] if one is not None and one[0]), "")
        quota = counts(own, mapped, seen, rules)[0]
    else:
        # A business quota of this name may be another team's.
        quota = elastic or serving
        quota = quota if serves(quota, seen, rules) else ""
    return (quota, cpu, gpu, memory) if quota else NOTHING


def mentioned(found: Names | None) -> tuple[str, ...]:
    """The quotas in an object's labels."""
    if found is None:
        return ()
    business, *_, elastic = found
    return tuple(filter(None, (business, elastic)))
