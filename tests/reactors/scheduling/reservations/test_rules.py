"""What a pod takes of a reservation, and what of its node."""

import pytest

from bus.events.constraints import LabelSelector
from bus.events.pods import OwnerObject, ReservationOwner
from reactors.scheduling.reservations.rules import Applicant, Reference, from_node, left, owns

RESERVED = {"cpu": 4, "gpu": 2}
ALLOCATED = {"cpu": 3}


def test_what_is_left_is_never_below_nothing():
    assert {"cpu": 0, "gpu": 2} == left(RESERVED, {"cpu": 9})


@pytest.mark.parametrize(
    ("policy", "restricted", "wanted", "taken"),
    [
        ("", (), {"cpu": 1, "gpu": 2}, {}),
        ("", (), {"cpu": 2}, None),
        ("", (), {"cpu": 1, "disk": 1}, None),
        ("Aligned", (), {"cpu": 3, "gpu": 1, "disk": 5}, {"cpu": 2, "disk": 5}),
        ("Restricted", (), {"cpu": 1, "disk": 5}, {"disk": 5}),
        ("Restricted", (), {"cpu": 2}, None),
        ("Restricted", ("gpu",), {"cpu": 3, "gpu": 2}, {"cpu": 2}),
        ("Restricted", ("gpu",), {"gpu": 3}, None),
        # A name that is not reserved restricts nothing, so all that is reserved is restricted.
        ("Restricted", ("disk",), {"cpu": 2}, None),
    ],
)
def test_a_policy_says_what_comes_from_the_node(policy, restricted, wanted, taken):
    assert taken == from_node(policy, restricted, wanted, RESERVED, ALLOCATED)


def test_a_selector_of_a_label_that_is_not_kept_means_nobody():
    owners = [ReservationOwner(label_selector=LabelSelector({"app": "web"}))]
    pod = Applicant("ns", "p", labels={"app": "web"})

    assert owns(owners, pod)
    assert not owns(owners, pod, frozenset({"app"}))


@pytest.mark.parametrize(
    ("named", "known", "expected"),
    [
        ({"uid": "rs", "api_version": "apps/v1"}, {"uid": "rs"}, True),
        ({"uid": "rs", "api_version": "apps/v1"}, {"uid": "other"}, False),
        ({"uid": "rs", "api_version": "apps/v1"}, {"uid": "rs", "api_version": "batch/v1"}, False),
        ({"name": "web", "api_version": "apps/v1"}, {"name": "web"}, False),
    ],
    ids=["of the uid", "of another uid", "of another version", "of the name alone"],
)
def test_a_controller_whose_version_is_not_recorded_is_meant_by_its_uid(named, known, expected):
    """Facts of pods hold kind, name and uid of the controller, and not its version."""
    owners = [ReservationOwner(controller=OwnerObject(**named))]

    assert expected == owns(owners, Applicant("ns", "p", references=(Reference(**known),)))
