"""From a pod in a real cluster to a row in the ledger, by `bursar up` as its users start it, and through its death."""

import contextlib
import signal
import time

import pytest

from tests.acceptance.bookkeeping import second
from tests.acceptance.up_process import AS_OF_S, Up
from tests.cluster.api import MERGE, eventually

pytestmark = [pytest.mark.kube, pytest.mark.nats, pytest.mark.timeout(240)]


@pytest.fixture
def up(plane, tmp_path):
    """`bursar up`, running; whatever is left of it is killed in the end."""
    up = Up(plane, tmp_path)
    up.start()
    yield up
    with contextlib.suppress(ProcessLookupError):
        up.end(signal.SIGKILL)


def create(plane, namespace, name):
    """A new pod of the vision team that asks for a quarter of a core."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "250m"}}}
    metadata = {"name": name, "labels": {"bursar.io/team": "vision"}}
    pod = {"metadata": metadata, "spec": {"containers": [container]}}
    plane.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def bound(plane, namespace):
    """Name to the second of binding, by the API server, of every pod that runs."""
    items = plane.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        item["metadata"]["name"]: second(condition["lastTransitionTime"])
        for item in items
        for condition in item["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and item["status"]["phase"] == "Running"
    }


def held(account):
    """What a row says was held, in short."""
    return [(h.start_s, h.end_s, h.cpu_milli, h.team) for h in account.holdings]


def test_a_pod_is_a_row_with_its_team_within_seconds(plane, namespace, up):
    eventually(lambda: up.is_whole())
    began = time.monotonic()
    create(plane, namespace, "p")
    eventually(lambda: "p" in (rows := up.rows(namespace)) and rows["p"].holdings, every=0.02)
    lag = time.monotonic() - began
    print(f"\na row {lag:.2f} s after the pod was asked for")
    start_s = eventually(lambda: bound(plane, namespace))["p"]
    account = up.rows(namespace)["p"]

    assert [(start_s, AS_OF_S, 250, "vision")] == held(account)
    assert (True, ()) == (account.is_open, account.flags)
    assert lag < 10
    assert 0 == up.end(signal.SIGTERM)


def test_killed_and_started_again_it_goes_on_with_nothing_lost_or_doubled(plane, namespace, up):
    names = [f"p{number}" for number in range(60)]
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name in names[:20]:
        create(plane, namespace, name)
    starts = eventually(lambda: len(found := bound(plane, namespace)) == 20 and found)
    gone = names[:5]
    time.sleep(2)
    for name in gone:
        touch = {"metadata": {"annotations": {"touched": "yes"}}}
        plane.api.request("PATCH", f"{path}/{name}", touch, content_type=MERGE)
    for name in names[20:40]:
        create(plane, namespace, name)
    # In the middle of what it has to say.
    eventually(lambda: len(up.rows(namespace)) > 30, every=0.01)
    up.end(signal.SIGKILL)
    deleted_s = {}
    for name in gone:
        plane.api.request("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        deleted_s[name] = int(time.time())
    for name in names[40:]:
        create(plane, namespace, name)
    up.start()
    starts |= eventually(lambda: len(found := bound(plane, namespace)) == 55 and found)
    eventually(lambda: runs(up.rows(namespace)) == starts.keys() - gone and up.is_whole())
    rows = up.rows(namespace)

    assert sorted(names) == sorted(rows)
    kept = {name: [(starts[name], AS_OF_S, 250, "vision")] for name in names[5:]}
    assert kept == {name: held(rows[name]) for name in kept}
    # Where the end was not seen, the true one lies in the time that is said to be unknown.
    for name in gone:
        [(start_s, end_s, *amounts)] = held(rows[name])
        assert (starts[name], [250, "vision"]) == (start_s, amounts)
        assert end_s <= deleted_s[name] <= end_s + rows[name].unknown_s
        assert ("vanished",) == rows[name].flags


def runs(rows):
    """The names of what holds and has not ended."""
    return {name for name, one in rows.items() if one.is_open and one.holdings}
