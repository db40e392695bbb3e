"""Binding a pod: what each answer of the API server means, and that a lost one is looked up."""

import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
    UnknownRightsError,
)
from reactors.scheduling.framework.bind import Outcomes, Placement, bind

PLACEMENT = Placement("ns", "p", "u", "n1", "d" * 32, ("0", "1"))
LOST = ClusterUnavailableError(reason="ServerDisconnectedError", delay_seconds=1.0)
BUSY = ClusterUnavailableError(status=429, delay_seconds=7.0)
NO_RIGHT = UnknownRightsError(
    message='pods "p" is forbidden: User "u" cannot create resource "pods/binding" in API group ""'
)
VETO = PermissionDeniedError(message='admission webhook "x" denied the request: no')
TAKEN = ConflictError(message="taken")


class Cluster:
    """Answers a binding and then a read, each by what it was given; errors are raised."""

    def __init__(self, bound, pod):
        self.bound, self.pod, self.asked = bound, pod, []

    async def bind(self, *of, **fields):
        self.asked.append((of, fields))
        if self.bound is not None:
            raise self.bound

    async def get(self, path):
        self.asked.append(path)
        if isinstance(self.pod, Exception):
            raise self.pod
        return self.pod


def pod(node="", uid="u", **metadata):
    return {"metadata": {"uid": uid, **metadata}, "spec": {"nodeName": node} if node else {}}


@pytest.mark.parametrize(
    ("bound", "seen", "outcome"),
    [
        pytest.param(None, None, "bound", id="created"),
        pytest.param(TAKEN, pod("n1"), "bound", id="on our node already"),
        pytest.param(TAKEN, pod("n2"), "elsewhere", id="bound by somebody else"),
        pytest.param(TAKEN, pod(uid="other"), "gone", id="a namesake"),
        pytest.param(TAKEN, pod(deletionTimestamp="now"), "gone", id="about to end"),
        pytest.param(TAKEN, pod(), "refused", id="has gates"),
        pytest.param(TAKEN, NotFoundError(), "gone", id="ended meanwhile"),
        pytest.param(NotFoundError(), None, "gone", id="ended"),
        pytest.param(VETO, None, "refused", id="a webhook's veto"),
        pytest.param(NO_RIGHT, None, "denied", id="no right"),
        pytest.param(UnknownRightsError(status=401), None, "denied", id="unknown to the API server"),
        pytest.param(RequestRefusedError(), None, "refused", id="never acceptable"),
        pytest.param(BUSY, None, "later", id="too much to do"),
        pytest.param(LOST, pod(), "later", id="lost and not done"),
        pytest.param(LOST, pod("n1"), "bound", id="lost and done"),
        pytest.param(LOST, pod("n2"), "elsewhere", id="lost, and bound by somebody else"),
        pytest.param(LOST, LOST, "later", id="nobody can say"),
        pytest.param(LOST, {"kind": "Status"}, "later", id="a proxy's answer"),
        pytest.param(LOST, PermissionDeniedError(permission="x"), "denied", id="may not look"),
        pytest.param(MalformedJsonError(), pod("n1"), "bound", id="an answer that is no JSON"),
    ],
)  # fmt: skip
async def test_what_an_answer_means(bound, seen, outcome):
    cluster = Cluster(bound, seen)

    assert outcome == (await bind(cluster, PLACEMENT)).outcome
    assert [isinstance(one, str) for one in cluster.asked] == (
        [False] if seen is None else [False, True]
    )


async def test_a_binding_names_the_decision_and_the_devices():
    cluster = Cluster(None, None)
    await bind(cluster, PLACEMENT, {"example.org/part": "1", "bursar.io/decision": "another"})

    annotations = {
        "example.org/part": "1",
        "bursar.io/decision": "d" * 32,
        "bursar.io/devices": "0,1",
    }
    assert cluster.asked == [(("ns", "p"), {"uid": "u", "node": "n1", "annotations": annotations})]


async def test_the_wait_that_the_api_server_asks_for_is_honoured():
    found = await bind(Cluster(BUSY, None), PLACEMENT)

    assert found == Outcomes("later", str(BUSY), 7.0)
