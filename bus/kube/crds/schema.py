"""CustomResourceDefinitions from pydantic models: structural schemas as the API server accepts them. Pure.

A structural schema has no references, no ``null`` among its types and no titles; a value of text or number is
``x-kubernetes-int-or-string``.

Source: Kubernetes documentation, "Specifying a structural schema".
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from bus.kube.crds import quotas

Json = dict[str, Any]

_KEPT = frozenset(
    "type format description default enum pattern minimum maximum minLength maxLength minItems maxItems maxProperties "
    "required".split()
)


def crds() -> list[Json]:
    """Every CustomResourceDefinition of Bursar, ready to be applied, in the order of their names."""
    return [
        crd(
            quotas.Quota,
            group=quotas.GROUP,
            version=quotas.VERSION,
            kind=quotas.KIND,
            plural=quotas.PLURAL,
            short_names=["bgrq"],
            columns={
                "Parent": ".spec.parentBizGroup",
                "Used": ".status.shown.used",
                "Hard": ".status.shown.hard",
                "Budget-Left": ".status.shown.budgetLeft",
                "Exhausts-At": ".status.exhaustsAt",
            },
        )
    ]


def crd(
    model: type[BaseModel],
    *,
    group: str,
    version: str,
    kind: str,
    plural: str,
    short_names: list[str],
    columns: dict[str, str],
) -> Json:
    """The definition of a cluster-scoped kind with a status subresource; ``columns`` are JSON paths by heading."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short_names,
                "categories": ["bursar"],
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": "string", "jsonPath": path}
                        for name, path in columns.items()
                    ],
                    "schema": {"openAPIV3Schema": structural(model)},
                }
            ],
        },
    }


def structural(model: type[BaseModel]) -> Json:
    """The structural schema of a model's JSON."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _flat(schema, schema.get("$defs", {}))


def _flat(schema: Json, known: Json) -> Json:
    if "$ref" in schema:
        target = _flat(known[schema["$ref"].rpartition("/")[2]], known)
        return _joined(target, _own(schema))
    if "anyOf" in schema:
        return _joined(_alternative(schema["anyOf"], known), _own(schema))
    found = _own(schema)
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if "properties" in schema:
        found["properties"] = {
            name: _flat(one, known) for name, one in schema["properties"].items()
        }
    if "items" in schema:
        found["items"] = _flat(schema["items"], known)
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _flat(schema["additionalProperties"], known)
    return found


def _own(schema: Json) -> Json:
    """The schema's own parts, as far as an API server understands them."""
    return {
        name: value
        for name, value in schema.items()
        if (name in _KEPT or name.startswith("x-kubernetes-"))
        and not (name == "default" and value in (None, {}, []))
    }


def _alternative(alternatives: list[Json], known: Json) -> Json:
    """A shape or nothing, or a quantity: text or a whole number."""
    found = [_flat(one, known) for one in alternatives if one.get("type") != "null"]
    return found[0] if len(found) == 1 else {"x-kubernetes-int-or-string": True}


def _joined(schema: Json, more: Json) -> Json:
    """``schema`` with the additions of its place: rules are joined, else the place's value counts."""
    rules = [
        *schema.get("x-kubernetes-validations", []),
        *more.get("x-kubernetes-validations", []),
    ]
    return {**schema, **more, **({"x-kubernetes-validations": rules} if rules else {})}
