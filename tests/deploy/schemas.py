"""Kubernetes' own schema of the kinds that our manifests have, and objects held against it without a server.

As kubeconform with `-strict`: unknown fields, wrong types and missing fields are named with their place. What only a server
knows (allowed values, names, CEL, Pod Security) is asked of one in `tests/cluster/test_installed.py`.

`schemas.json` is an excerpt of Kubernetes' `api/openapi-spec/swagger.json` (Apache License 2.0) without its texts, written by
`python -m tests.deploy.schemas SWAGGER`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).with_name("schemas.json")
_KEPT = ("type", "required", "format")
_GROUP = "x-kubernetes-group-version-kind"
_TYPES = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int, "number": (int, float)}  # fmt: skip


def differing(one) -> list[str]:
    """What the schema does not allow in an object; nothing where it is right."""
    version, kind = one["apiVersion"], one["kind"]
    known = _known()
    name = known["kinds"].get(f"{version}/{kind}")
    if name is None:
        return [f"{version}/{kind}: no such kind"]
    return list(_differing(one, {"$ref": name}, kind, known["definitions"]))


def _known():
    if not _cache:
        _cache.update(json.loads(FILE.read_text()))
    return _cache


_cache: dict = {}


def _differing(value, schema, place, definitions) -> Iterator[str]:
    while "$ref" in schema:
        schema = definitions[schema["$ref"]]
    if schema.get("format") == "int-or-string":
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield f"{place}: neither a number nor a text"
        return
    wanted = _TYPES.get(schema.get("type", ""), object)
    if not isinstance(value, wanted) or (
        isinstance(value, bool) and schema.get("type") in ("integer", "number")
    ):
        yield f"{place}: {type(value).__name__} is no {schema['type']}"
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _differing(each, schema.get("items", {}), f"{place}[{number}]", definitions)
    elif isinstance(value, dict):
        yield from _fields(value, schema, place, definitions)


def _fields(value, schema, place, definitions) -> Iterator[str]:
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties")
    yield from (
        f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value
    )
    for name, each in value.items():
        if name in properties:
            yield from _differing(each, properties[name], f"{place}.{name}", definitions)
        elif more is not None:
            yield from _differing(each, more, f"{place}.{name}", definitions)
        elif properties:
            yield f"{place}.{name}: no such field"


def excerpt(swagger, kinds) -> dict:
    """The definitions that these kinds (`apiVersion/kind`) need, and where each begins."""
    found, begins = {}, {}
    for name, definition in swagger["definitions"].items():
        for each in definition.get(_GROUP, ()):
            group = f"{each['group']}/" if each["group"] else ""
            if f"{group}{each['version']}/{each['kind']}" in kinds:
                begins[f"{group}{each['version']}/{each['kind']}"] = name
    waiting = [*begins.values()]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _kept(swagger["definitions"][name], waiting)
    return {"kinds": dict(sorted(begins.items())), "definitions": dict(sorted(found.items()))}


def _kept(schema, waiting):
    """A schema without its texts; the names that it refers to are added to `waiting`."""
    found = {}
    for key, value in schema.items():
        if key == "$ref":
            found[key] = value.rpartition("/")[2]
            waiting.append(found[key])
        elif key == "properties":
            found[key] = {name: _kept(each, waiting) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            found[key] = _kept(value, waiting) if isinstance(value, dict) else {}
        elif key in _KEPT:
            found[key] = value
    return found


if __name__ == "__main__":
    from tests.deploy.installations import CASES, objects

    wanted = {f"{one['apiVersion']}/{one['kind']}" for case in CASES for one in objects(*case)}
    made = excerpt(json.loads(Path(sys.argv[1]).read_text()), wanted)
    FILE.write_text(json.dumps(made, separators=(",", ":")) + "\n")
