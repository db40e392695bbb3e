"""The effective request of a pod, rule by rule of docs/accounting.md.

Wanted values are those of `PodRequests` of k8s.io/component-helpers v0.36.3 with status resources
and in-place pod-level scaling on; 40,000 random pods agreed with it when this was written.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.amounts import NANO, ContainerResources, PodResources, effective_request
from bus.errors import QuantityError


def box(cpu, actual=None, allocated=None, sidecar=False):
    """A container that asks for `cpu` only; the other two as its status has them."""
    as_map = [None if one is None else {"cpu": one} for one in (cpu, actual, allocated)]
    return ContainerResources(as_map[0], as_map[1], as_map[2], sidecar)


def pod(*containers, init=(), **rest):
    return PodResources(containers=containers, init_containers=tuple(init), **rest)


def sidecar(cpu, **status):
    return box(cpu, sidecar=True, **status)


CPU = [
    (pod(), None, "a pod without containers asks for nothing"),
    (pod(box("1"), box("500m")), 1500, "rule 1: containers are added"),
    (pod(box("0")), 0, "a zero stays as a zero"),
    (pod(box("1", actual="2")), 2000, "rule 1: shrinking, the node still gives more"),
    (pod(box("3", actual="2")), 3000, "rule 1: growing, the spec asks for more"),
    (pod(box("1", "1", allocated="4")), 4000, "rule 1: the node has reserved more"),
    (pod(box("1", allocated="4")), 1000, "rule 1: reserved counts only beside a status"),
    (pod(box("9", "2", "1"), infeasible=True), 2000, "rule 1: an infeasible spec is dropped"),
    (pod(box("9"), infeasible=True), 9000, "rule 1: but not where the status has no resources"),
    (pod(box("1"), init=[box("3"), box("2")]), 3000, "rule 2: the largest plain step"),
    (pod(box("4"), init=[box("3")]), 4000, "rule 2: or the sum, if that is larger"),
    (pod(box("1"), init=[sidecar("2")]), 3000, "rule 2: a sidecar adds to the sum"),
    (
        pod(box("1"), init=[box("3"), sidecar("2"), box("4"), sidecar("1")]),
        6000,
        "rule 2: a plain step needs itself and the sidecars before it",
    ),
    (
        pod(box("1"), init=[sidecar("1"), sidecar("1"), box("1")]),
        3000,
        "rule 2: sidecars together with containers equal to the last step",
    ),
    (pod(box("1"), init=[sidecar("1", actual="5")]), 6000, "rule 2: a sidecar's status counts"),
    (pod(box("1"), init=[box("2", actual="9")]), 2000, "rule 2: a plain one's status does not"),
    (
        pod(box("1"), init=[sidecar("9", actual="2")], infeasible=True),
        3000,
        "rule 2: an infeasible sidecar's spec is dropped",
    ),
    (pod(box("1"), requests={"cpu": "5"}), 5000, "rule 3: the pod level replaces"),
    (pod(box("8"), requests={"cpu": "5"}), 5000, "rule 3: also by less than the containers"),
    (pod(box("8"), requests={"memory": "5"}), 8000, "rule 3: only what it sets"),
    (
        pod(box("1"), requests={"cpu": "5"}, actual={"cpu": "6"}, allocated={"cpu": "7"}),
        7000,
        "rule 3: with a status, the largest of spec, actual and allocated",
    ),
    (
        pod(box("1"), requests={"cpu": "5"}, allocated={"cpu": "7"}),
        5000,
        "rule 3: without status.resources, allocated does not count",
    ),
    (
        pod(box("1"), requests={"cpu": "9"}, actual={"cpu": "6"}, infeasible=True),
        6000,
        "rule 3: an infeasible spec of the pod is dropped",
    ),
    (
        pod(box("1"), requests={"cpu": "9"}, actual={}, infeasible=True),
        0,
        "rule 3: an infeasible spec without any status value counts as zero, as upstream",
    ),
    (pod(box("1"), actual={"cpu": "6"}), 1000, "rule 3: a status without a spec sets nothing"),
    (pod(box("1"), overhead={"cpu": "250m"}), 1250, "rule 4: overhead is added"),
    (
        pod(box("1"), requests={"cpu": "5"}, overhead={"cpu": "1"}),
        6000,
        "rule 4: also to the pod level",
    ),
    (pod(overhead={"cpu": "1"}), 1000, "rule 4: also where nothing was asked"),
    (pod(box("+1")), 1000, "a spelling that the API server keeps is read"),
]


@pytest.mark.parametrize(("resources", "want"), [r[:2] for r in CPU], ids=[r[2] for r in CPU])
def test_cpu_of_a_pod_as_the_scheduler_counts_it(resources, want):
    expected = {} if want is None else {"cpu": want * NANO // 1000}
    request = effective_request(resources)

    assert {name: nano for name, nano in request.items() if name == "cpu"} == expected


def test_each_resource_goes_its_own_way():
    """Cpu is decided by the sum, memory by an init step, the card by one container."""
    resources = PodResources(
        containers=(
            ContainerResources({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}),
            ContainerResources({"cpu": "1"}),
        ),
        init_containers=(ContainerResources({"cpu": "1", "memory": "4Gi"}),),
        overhead={"memory": "1Mi"},
    )

    assert effective_request(resources) == {
        "cpu": 3 * NANO,
        "memory": (4 * 2**30 + 2**20) * NANO,
        "nvidia.com/gpu": NANO,
    }


def test_the_pod_level_sets_cpu_memory_and_hugepages_and_nothing_else():
    asked = {"cpu": "1", "memory": "2", "hugepages-2Mi": "3", "nvidia.com/gpu": "4"}

    assert effective_request(PodResources(requests=asked)) == {
        "cpu": NANO,
        "memory": 2 * NANO,
        "hugepages-2Mi": 3 * NANO,
    }


def test_a_name_in_the_infeasible_spec_alone_is_not_asked_for():
    container = ContainerResources({"cpu": "1", "memory": "1"}, actual={"cpu": "2"})

    assert effective_request(pod(container, infeasible=True)) == {"cpu": 2 * NANO}


@pytest.mark.parametrize(
    "resources",
    [
        pod(box("-1")),
        pod(box("1", actual="x")),
        pod(box("1", "1", allocated="NaN")),
        pod(init=[box("")]),
        pod(requests={"cpu": "1 "}),
        pod(overhead={"cpu": "1e19"}),
    ],
    ids=["container", "actual", "allocated", "init", "pod level", "overhead"],
)
def test_an_unreadable_quantity_anywhere_is_an_error(resources):
    with pytest.raises(QuantityError):
        effective_request(resources)


def test_the_wire_shape_is_short_and_readable():
    resources = pod(
        box("1", actual="2", allocated="2"), init=[sidecar("3")], overhead={"cpu": "1m"}
    )

    assert msgspec.json.encode(resources).decode() == (
        '{"containers":[{"requests":{"cpu":"1"},"actual":{"cpu":"2"},"allocated":{"cpu":"2"}}],'
        '"init":[{"requests":{"cpu":"3"},"restartable":true}],"overhead":{"cpu":"1m"}}'
    )


maps = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]),
    st.sampled_from(["0", "1", "3n", "250m", "0.1", "2Gi", "+7", "5."]),
)
boxes = st.builds(
    ContainerResources, maps, st.none() | maps, st.none() | maps, restartable=st.booleans()
)
lists = st.lists(boxes, max_size=4).map(tuple)
pods = st.builds(
    PodResources, lists, lists, maps, maps, st.none() | maps, st.none() | maps, st.booleans()
)


@given(pods)
def test_what_is_absent_and_what_is_empty_survive_the_wire(resources):
    raw = msgspec.json.encode(resources)

    assert msgspec.json.decode(raw, type=PodResources) == resources


@given(lists, lists)
def test_the_order_of_containers_never_matters_that_of_plain_init_containers_neither(one, two):
    plain = tuple(box for box in two if not box.restartable)

    assert effective_request(PodResources(one, plain)) == effective_request(
        PodResources(one[::-1], plain[::-1])
    )


@given(pods, maps)
def test_overhead_is_added_exactly(resources, overhead):
    bare = effective_request(msgspec.structs.replace(resources, overhead={}))
    more = effective_request(PodResources(overhead=overhead))
    both = effective_request(msgspec.structs.replace(resources, overhead=overhead))

    assert both == {name: bare.get(name, 0) + more.get(name, 0) for name in {*bare, *more}}
