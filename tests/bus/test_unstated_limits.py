"""Which containers state no limit, and of what: they may use the whole node."""

import pytest

from bus.kube import kinds
from bus.kube.kinds import table
from tests.bus.containers import resources


def lacking(*containers, kind=table.POD, **spec):
    return kinds.asked(kind, {"spec": {"containers": list(containers), **spec}}).unstated


def named(name, requests=None, limits=None, **container):
    return {"name": name, **resources(requests, limits, **container)}


ALL = {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}
UNSTATED = {
    "all is stated": ([named("a", limits=ALL)], {}, {}),
    "each container has to state it, init containers and sidecars too": (
        [named("a", limits=ALL), named("b", ALL, ALL | {"cpu": "0"})],
        {"initContainers": [named("i", ALL, {**ALL, "cpu": None}, restartPolicy="Always")]},
        {"limits.cpu": ("i", "b")}),
    "what states no request either": (
        [named("a", limits={"memory": "1", "ephemeral-storage": "1"})], {},
        {"limits.cpu": ("a",), "requests.cpu": ("a",)}),
    "a limit of the pod is one of each container": (
        [named("a", ALL, {"ephemeral-storage": "1"})],
        {"resources": {"limits": {"cpu": "2", "memory": "1"}}}, {}),
    "a card that is requested and not limited": (
        [named("a", ALL | {"x.io/gpu": "1"}, ALL)], {}, {"limits.x.io/gpu": ("a",)}),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "spec", "want"), UNSTATED.values(), ids=UNSTATED)
def test_the_containers_that_state_no_limit_are_named(containers, spec, want):
    assert want == lacking(*containers, **spec)


def test_what_is_told_of_containers_without_limits_is_bounded():
    cards = {f"x.io/card{n}": "1" for n in range(40)}
    found = lacking(*(named(f"{n:03}" * 99, ALL | cards) for n in range(50)))

    assert len(found) <= 16
    assert {len(names) for names in found.values()} == {8}
    assert {len(name) for names in found.values() for name in names} == {63}
