"""Every object of every installation, and of the chart, fits Kubernetes' own schema."""

import copy
import json

import pytest

from tests.deploy.installations import ALL_ACTS, CASES, objects
from tests.deploy.schemas import FILE, differing, excerpt

each = pytest.mark.parametrize(
    ("size", "mode", "acts"), CASES, ids=lambda v: "all" if v == ALL_ACTS else str(v)
)


@each
def test_every_object_fits_the_schema_of_its_kind(size, mode, acts):
    assert [words for one in objects(size, mode, acts) for words in differing(one)] == []


def workload():
    [found] = [one for one in objects() if one["kind"] == "StatefulSet"]
    return copy.deepcopy(found)


def test_what_does_not_fit_is_named_with_its_place():
    spoiled = workload()
    spec = spoiled["spec"]
    spec["replica"] = spec.pop("replicas")
    del spec["serviceName"], spec["selector"]
    spec["template"]["spec"]["containers"][0] |= {"ports": [{"containerPort": "9443"}], "image": 7}
    spec["template"]["spec"]["automountServiceAccountToken"] = 1
    spec["template"]["metadata"]["labels"]["number"] = 1
    place = "StatefulSet.spec.template"

    assert differing({"apiVersion": "v2", "kind": "Pod"}) == ["v2/Pod: no such kind"]
    assert set(differing(spoiled)) == {
        "StatefulSet.spec: selector is missing",
        "StatefulSet.spec.replica: no such field",
        f"{place}.metadata.labels.number: int is no string",
        f"{place}.spec.automountServiceAccountToken: int is no boolean",
        f"{place}.spec.containers[0].image: int is no string",
        f"{place}.spec.containers[0].ports[0].containerPort: str is no integer",
    }


def test_the_excerpt_is_whole_and_of_these_kinds_alone():
    known = json.loads(FILE.read_text())
    wanted = {f"{one['apiVersion']}/{one['kind']}" for case in CASES for one in objects(*case)}

    def referred(schema):
        if isinstance(schema, dict):
            yield from [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
            for value in schema.values():
                yield from referred(value)

    begins = set(known["kinds"].values())
    assert known["kinds"].keys() == wanted
    assert known["definitions"].keys() == begins | set(referred(known["definitions"]))
    inner = {"description": "x", "properties": {"b": {"$ref": "#/definitions/c"}}}
    inner["x-kubernetes-group-version-kind"] = [{"group": "", "version": "v1", "kind": "A"}]
    made = {"definitions": {"a": inner, "c": {"type": "string"}}}
    assert excerpt(made, {"v1/A"}) == {
        "kinds": {"v1/A": "a"},
        "definitions": {"a": {"properties": {"b": {"$ref": "c"}}}, "c": {"type": "string"}},
    }
