"""Reservations: room of a node that is kept for pods that come later."""

import msgspec
import pytest

from bus.errors import ObservationError
from bus.sources.catalogue import RESERVATIONS
from bus.sources.reservations import LARGEST_FACT
from projections.cluster.reservations import go_duration_us
from tests.bus.sources.records import POLICY, body, record
from tests.reactors.scheduling.worlds import World

METADATA = {"uid": "u", "name": "r", "resourceVersion": "7"}
CONTAINER = {"name": "c", "env": [{"name": "PASSWORD", "value": "hidden"}]}
ASKS = {"resources": {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "8"}}}
TEMPLATE = {"spec": {"containers": [CONTAINER | ASKS], "nodeSelector": {"zone": "a"}}}


def event(spec, status=None, change="MODIFIED", **metadata):
    found = {"metadata": METADATA | metadata, "spec": spec, "status": status or {}}
    return RESERVATIONS.translate(record(found, change), POLICY)


def row(spec, status=None, **metadata):
    return World(event(spec, status, **metadata)).state.reservations["u"]


def test_a_reservation_asks_for_what_its_template_asks_for():
    found = row({"template": TEMPLATE, "owners": [{}], "ttl": "1h30m"})

    assert {"cpu": 4_000, "memory": 8 * 2**30} == found.reserved
    assert {"zone": "a"} == found.constraints.node_selector
    assert (5_400 * 10**6, "default", "Reservation") == (
        found.ttl_us,
        found.pod_namespace,
        found.kind,
    )
    assert "hidden" not in str(body(event({"template": TEMPLATE})))


def test_quantities_of_a_template_may_be_numbers():
    """The API server knows no types in it, so nobody makes them texts."""
    asks = {"resources": {"requests": {"cpu": 4, "nvidia.com/gpu": 1, "memory": 2.5e9}}}
    found = row({"template": {"spec": {"containers": [CONTAINER | asks], "overhead": {"cpu": 1}}}})

    assert (found.reserved["cpu"], found.reserved["nvidia.com/gpu"]) == (5_000, 1)
    assert found.reserved["memory"] == 2_500_000_000


def test_a_template_that_is_none_is_refused_and_a_deep_one_costs_nothing():
    deep = {"a": 1}
    for _ in range(20):
        deep = {"a": [deep]}

    assert row({"template": TEMPLATE | {"x": deep}}).reserved["cpu"] == 4_000
    for odd in ({"spec": {"containers": 5}}, {"spec": {"containers": [{"resources": {"requests": {"cpu": [1]}}}]}}):  # fmt: skip
        with pytest.raises(ObservationError, match=r"spec\.template"):
            row({"template": odd})


def test_on_a_node_it_has_what_its_status_says():
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "3500m", "memory": "x"}}
    found = row({"template": TEMPLATE}, status)

    assert {"cpu": 3_500, "memory": 0} == found.reserved


def test_selectors_of_owners_name_the_labels_that_are_not_kept():
    selector = {"matchLabels": {"app": "web", "secret-sauce": "x"}}
    found = row({"template": TEMPLATE, "owners": [{"labelSelector": selector}]})

    assert ("secret-sauce",) == found.unkept_labels


def test_what_tenants_write_is_bounded():
    owner = {"controller": {"name": "x" * 9_000}}
    labels = {f"app.kubernetes.io/{n:03}": "<" * 60 for n in range(200)}
    claims = {f"example.com/{n}": "1" for n in range(3_000)}
    template = {
        "spec": {"containers": [{"resources": {"requests": claims}}], "nodeName": "n" * 999}
    }
    status = {"allocatable": claims, "message": "x", "phase": "p" * 999}
    status["conditions"] = [{"type": "t" * 99, "message": "m" * 9_999}] * 99
    spec = {"template": template, "owners": [owner], "ttl": "9" * 999, "expires": "never"}
    found = event(spec, status, labels=labels)

    assert len(found.body) <= LARGEST_FACT
    assert body(found)["owners_cut"]
    assert row(spec, status, labels=labels).expires_us is None


def test_a_deleted_reservation_has_vanished():
    found = event({}, change="DELETED")

    assert "reservation.vanished" == found.type
    assert {"uid": "u", "name": "r", "resource_version": "7"} == body(found)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h0m0s", 86_400),
        ("0s", 0),
        ("0", 0),
        ("1.5s", 1.5),
        ("-1s", -1),
        ("", None),
        ("1d", None),
    ],
)
def test_a_duration_is_read_as_go_writes_it(text, seconds):
    assert (None if seconds is None else seconds * 10**6) == go_duration_us(text)


def test_a_huge_duration_stays_a_number_of_64_bits():
    assert go_duration_us("999999999999h") < 2**63
    assert msgspec.json.encode(go_duration_us("999999999999h"))
