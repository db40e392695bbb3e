"""PodGroups of three APIs, and which one a pod names."""

import pytest

from bus.events.constraints import GangTerms
from bus.events.pods import NATIVE, SIGS, VOLCANO
from bus.sources.catalogue import POD_GROUPS, PODS
from bus.sources.podgroups import LONGEST_GROUPS, MOST_NEEDED
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "g", "namespace": "ns", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "g", "namespace": "ns", "resource_version": "7"}
KOORDINATOR = "gang.scheduling.koordinator.sh/"


def said(source, spec, status=None, **metadata):
    found = {"metadata": METADATA | metadata, "spec": spec, "status": status or {}}
    return body(source.translate(record(found), POLICY))


@pytest.mark.parametrize("source", POD_GROUPS[:2], ids=["v1alpha2", "v1beta1"])
def test_a_native_pod_group_says_how_many_start_together(source):
    gang = said(source, {"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "Pod"})

    assert gang == SAID | {"kind": NATIVE, "least": 4}
    assert said(source, {"schedulingPolicy": {"basic": {}}}) == SAID | {"kind": NATIVE}


@pytest.mark.parametrize("mode", ["PodGroup", {"all": {}}], ids=["v1alpha2", "v1beta1"])
def test_a_native_pod_group_says_whether_it_goes_as_a_whole(mode):
    assert said(POD_GROUPS[0], {"disruptionMode": mode})["goes_whole"] is True
    for other in ("Pod", {"single": {}}, None, ["all"], 7):
        assert said(POD_GROUPS[0], {"disruptionMode": other}) == SAID | {"kind": NATIVE}


@pytest.mark.parametrize("source", POD_GROUPS[:2], ids=["v1alpha2", "v1beta1"])
def test_a_native_pod_group_says_of_which_label_its_pods_get_one_value(source):
    for said_key, kept in (("rack", "rack"), ("x" * 400, "x" * 318), ("", "")):
        constraints = {"schedulingConstraints": {"topology": [{"key": said_key}]}}

        assert said(source, constraints).get("topology", "") == kept
    assert said(source, {"schedulingConstraints": {"topology": []}}) == SAID | {"kind": NATIVE}
    assert said(source, {"schedulingConstraints": None}) == SAID | {"kind": NATIVE}


def test_the_pod_groups_of_koordinator_and_volcano():
    noted = {f"{KOORDINATOR}{key}": key for key in ("mode", "groups", "total-number")}
    sigs = said(POD_GROUPS[2], {"minMember": 3, "scheduleTimeoutSeconds": 9}, annotations=noted)
    volcano = said(POD_GROUPS[4], {"minMember": 2, "queue": "q"}, {"phase": "Inqueue"})

    assert sigs == SAID | {
        "kind": SIGS, "least": 3, "wait_seconds": 9, "mode": "mode", "total": "total-number", "groups": "groups",
    }  # fmt: skip
    assert volcano == SAID | {"kind": VOLCANO, "least": 2, "queue": "q", "phase": "Inqueue"}


def test_what_tenants_write_is_bounded():
    noted = {f"{KOORDINATOR}groups": "x" * LONGEST_GROUPS + "x", f"{KOORDINATOR}mode": "y" * 999}
    found = said(POD_GROUPS[2], {"minMember": 10**12}, annotations=noted)

    assert found == SAID | {"kind": SIGS, "least": MOST_NEEDED, "mode": "y" * 65, "is_cut": True}


def test_a_deleted_pod_group_has_vanished():
    event = POD_GROUPS[4].translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert (event.type, body(event)) == ("podgroup.vanished", SAID | {"kind": VOLCANO})


LIGHT = {f"{KOORDINATOR}name": "light", f"{KOORDINATOR}min-available": "2"}


@pytest.mark.parametrize(
    ("labels", "annotations", "spec", "expected"),
    [({}, {}, {}, None),
     ({}, LIGHT, {}, GangTerms("light", is_light=True, least="2")),
     ({"pod-group.scheduling.sigs.k8s.io": "a"}, LIGHT, {}, GangTerms("a")),
     ({"scheduling.x-k8s.io/pod-group": "b"}, {}, {}, GangTerms("b")),
     ({}, {"scheduling.k8s.io/group-name": "c"} | LIGHT, {}, GangTerms("c")),
     ({"pod-group.scheduling.sigs.k8s.io": "a"}, {}, {"schedulingGroup": {"podGroupName": "n"}}, GangTerms("n"))],
    ids=["none", "light", "label", "older label", "volcano", "field"],
)  # fmt: skip
def test_a_pod_names_its_gang(labels, annotations, spec, expected):
    metadata = METADATA | {"labels": labels, "annotations": annotations}
    found = body(PODS.translate(record({"metadata": metadata, "spec": spec}), POLICY))
    gang = found.get("constraints", {}).get("gang")

    assert gang == (msgspec_plain(expected) if expected else None)


def msgspec_plain(terms):
    return {"name": terms.name} | (
        {"isLight": True, "least": terms.least} if terms.is_light else {}
    )
