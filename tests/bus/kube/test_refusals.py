"""What an API server's refusal of one object means to who asked."""

import json

import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
    UnknownRightsError,
)
from bus.kube.client.refusals import declined, resource_at

SAID = json.dumps({"kind": "Status", "message": "spec.hard: bad", "reason": "Invalid"}).encode()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RequestRefusedError),
        (401, UnknownRightsError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (405, RequestRefusedError),
        (408, ClusterUnavailableError),
        (409, ConflictError),
        (413, RequestRefusedError),
        (422, RequestRefusedError),
        (429, ClusterUnavailableError),
        (500, ClusterUnavailableError),
        (504, ClusterUnavailableError),
    ],
)
def test_each_status_has_its_reaction_and_the_servers_words(status, error):
    found = declined(status, SAID, request="patch pods", delay_seconds=7.0)

    assert (type(found), found.message) == (error, "spec.hard: bad")
    assert getattr(found, "delay_seconds", 7.0) == 7.0


def test_a_field_that_the_kind_does_not_have_is_refused_for_good():
    said = b"""{"kind": "Status", "code": 500, "message": "failed to create typed patch object (/q; bursar.io/v1alpha1,
 Kind=BizGroupResourceQuota): .status.forecast: field not declared in schema"}""".replace(
        b"\n", b""
    )
    found = declined(500, said, request="patch q", delay_seconds=0.0)

    assert isinstance(found, RequestRefusedError) and "not declared" in found.message


def test_a_wait_is_bounded():
    assert declined(429, b"", request="get pods", delay_seconds=1e6).delay_seconds == 300.0


@pytest.mark.parametrize("said", [b"", b"<html>", b"[]", b"\xff", b'{"message": 7}', b"{" * 9999])
def test_an_answer_that_is_no_status_is_told_as_it_is(said):
    found = declined(422, said, request="patch pods", delay_seconds=1.0)

    assert found.message == said[:4096].decode(errors="replace")


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/team", "namespaces"),
        ("/api/v1/namespaces/team/status", "namespaces/status"),
        ("/api/v1/namespaces/team/pods", "pods"),
        ("/api/v1/namespaces/team/pods/a/eviction", "pods/eviction"),
        ("/apis/apps/v1/namespaces/team/deployments/train", "deployments.apps"),
        ("/apis/bursar.io/v1alpha1/bizgroupresourcequotas/a/status",
         "bizgroupresourcequotas.bursar.io/status"),
    ],
)  # fmt: skip
def test_a_path_is_named_as_permissions_name_it(path, resource):
    assert resource_at(path) == resource


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (401, "Unauthorized", UnknownRightsError),
        (
            403,
            'pods is forbidden: User "system:serviceaccount:bursar:actor" cannot create resource "pods" in API group ""'
            ' in the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "bursar-jobs" not found',
            UnknownRightsError,
        ),
        (403, 'pods "a" is forbidden: exceeded quota: q, requested: pods=1', PermissionDeniedError),
        (403, 'admission webhook "w" denied the request: no', PermissionDeniedError),
    ],
    ids=["nobody known", "no right known", "a quota", "a webhook"],
)
def test_who_is_not_known_to_have_a_right_is_told_from_who_is_vetoed(status, message, error):
    said = json.dumps({"kind": "Status", "message": message}).encode()
    found = declined(status, said, request="create pods", delay_seconds=1.0)

    assert (error, message) == (type(found), found.message)
