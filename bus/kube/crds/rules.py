"""Rules of quota objects as the API server checks them: patterns, and CEL with messages for people.

The values are parts of the CRD's schema, placed by the models' fields. The API server bounds the cost of a rule, so
the schema bounds every map and text in a rule.

Source: Kubernetes documentation, "Validation rules" of CustomResourceDefinitions; RFC 1123 labels.
"""

from __future__ import annotations

import re
from typing import Any

from bus.kube.crds import keys
from bus.kube.kinds import NAME_LABEL, SELECTABLE

Extra = dict[str, Any]

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
#: The name of a label without its prefix, and a label's value; both have at most 63 characters.
LABEL_NAME_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
#: The grammar of :func:`bus.amounts.parse_quantity`; larger amounts are refused behind the API server.
QUANTITY = r"^([0-9]+([.][0-9]+)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"

NAMES_ARE = "a name is at most 63 of a-z, 0-9 and -, and begins and ends with a letter or digit"
KEYS_ARE = (
    "keys are requests.<resource> or limits.<resource>, with .<TYPE> for one model and cash/ for a budget"
    " of cpu, memory or <vendor>/gpu: limits.cpu, limits.cpu.A4, limits.nvidia.com/gpu, cash/limits.cpu"
)
RESOURCES_ARE = (
    "resources are cpu, memory, gpu-memory, ephemeral-storage, hugepages-<size> or <domain>/<name>"
)
SELECTED_BY = (
    "namespaces are selected by labels that every history keeps: "
    + " and ".join((NAME_LABEL, *(f"{prefix}<name>" for prefix in SELECTABLE)))
    + "; give the namespaces such a label, or name them in spec.namespaces"
)
VALUES_ARE = "In and NotIn need values, Exists and DoesNotExist take none"
SELECTS_NOTHING = (
    "a selector without requirements would select every namespace: leave it out, or require that"
    f" {NAME_LABEL} Exists"
)
QUANTITIES_ARE = "a quantity is not negative and at most 32 characters: 10, 500m, 64Gi"

_LABEL = re.compile(LABEL_PATTERN.strip("^$"))


def is_label(name: str) -> bool:
    """Whether ``name`` is an RFC 1123 label (docs/wrong-input.md C13)."""
    return len(name) <= 63 and bool(_LABEL.fullmatch(name))


def _cel(*rules: Extra) -> Extra:
    return {"x-kubernetes-validations": list(rules)}


def _keys(pattern: str, message: str) -> Extra:
    # Naming the wrong key by a messageExpression costs more than the API server allows.
    return _cel({"rule": f"self.all(k, k.matches({_text(f'^({pattern})$')}))", "message": message})


def _text(text: str) -> str:
    """``text`` as a literal of CEL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


#: An RFC 3339 stamp.
STAMP: Extra = {"format": "date-time"}
#: A map with one writer: keys missing in a write are removed. Server-side apply keeps the keys of an emptied map.
WHOLE: Extra = {"x-kubernetes-map-type": "atomic"}
#: An unordered list without duplicates.
AS_SET: Extra = {"x-kubernetes-list-type": "set"}
#: A list as a map by type, as for conditions.
BY_TYPE: Extra = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}

of_quantity = _cel(
    {"rule": f"string(self).matches({_text(QUANTITY)})", "message": QUANTITIES_ARE}
) | {"maxLength": 32}
of_hard = _keys(f"{keys.KEY}|{keys.CASH_KEY}", KEYS_ARE)
of_resources = _keys(keys.RESOURCE, RESOURCES_ARE)
of_parent = _cel(
    {"rule": f"self == '' || self.matches({_text(LABEL_PATTERN)})", "message": NAMES_ARE},
    {
        "rule": "self == oldSelf",
        "message": "a quota cannot be moved: delete it and create it below the other parent",
    },
)
_SELECTED = "^({}|({})[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?)$".format(
    re.escape(NAME_LABEL), "|".join(re.escape(prefix) for prefix in SELECTABLE)
)
of_selected_key = _cel({"rule": f"self.matches({_text(_SELECTED)})", "message": SELECTED_BY})
of_selected_labels = _cel(
    {"rule": f"self.all(k, k.matches({_text(_SELECTED)}))", "message": SELECTED_BY}
)
of_requirement = _cel(
    {
        "rule": "(has(self.values) && size(self.values) > 0) == (self.operator in ['In', 'NotIn'])",
        "message": VALUES_ARE,
    }
)
of_selector = _cel(
    {
        "rule": "(has(self.matchLabels) && size(self.matchLabels) > 0)"
        " || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "message": SELECTS_NOTHING,
    }
)
_MIN, _MAX = "string(self.min[k])", "string(self.max[k])"
of_elastic = _cel(
    {
        "rule": "!has(self.min) || self.min.all(k, has(self.max) && k in self.max)",
        "message": "every resource of min must be in max too",
    },
    {
        "rule": "!has(self.min) || !has(self.max) || self.min.all(k, !(k in self.max)"
        f" || !isQuantity({_MIN}) || !isQuantity({_MAX})"
        f" || quantity({_MIN}).compareTo(quantity({_MAX})) <= 0)",
        "message": "min must not be above max",
    },
)
of_windows = _cel(
    {
        "rule": "self.all(w, w.from < w.until)",
        "message": "a window must end after it starts",
    },
    {
        "rule": "size(self) == 0 || (self.all(w, self.exists_one(v, v.from == w.from))"
        " && size(self.filter(w, !self.exists(v, v.until == w.from))) == 1)",
        "message": "each window must begin where another ends: no gaps, no overlaps",
    },
    {
        # A difference of stamps overflows after 292 years.
        "rule": "size(self) == 0 || self[size(self) - 1].until.getFullYear() - self[0].from.getFullYear() <= 10",
        "message": "the windows may span ten years at most",
    },
)
of_budget = _cel(
    {
        "rule": "!has(self.period) || !has(self.windows) || size(self.windows) == 0",
        "message": "give either a period or windows",
    }
)
of_object = _cel(
    {
        "rule": f"size(self.metadata.name) <= 63 && self.metadata.name.matches({_text(LABEL_PATTERN)})",
        "message": f"metadata.name: {NAMES_ARE}",
    },
    {
        "rule": "!has(self.spec.parentBizGroup) || self.spec.parentBizGroup != self.metadata.name",
        "message": "a quota cannot be its own parent",
        "fieldPath": ".spec.parentBizGroup",
    },
)
