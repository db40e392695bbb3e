"""No object is refused for its size: what does not decide a charge is left out of its fact, and the fact says so.

An API server takes objects of 1.5 MiB, and a message of the history 64 KiB. A tenant with `edit` chooses most of those
bytes: labels, annotations, the number of containers, the names of their resources, the text of an argument.
"""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.amounts import ContainerResources, PodResources
from bus.charges import charged, charged_bytes
from bus.events.namespaces import NamespaceObserved
from bus.events.nodes import NodeObserved
from bus.events.pods import PodObserved
from bus.events.quotas import QuotaObserved
from bus.events.workloads import WorkloadObserved
from bus.kube.kinds import QUOTA_LABELS, SELECTABLE, table
from bus.kube.watch.records import LARGEST_BODY
from bus.sources import namespaces, nodes, pods, quotas, workloads
from tests.bus.sources.records import POLICY, record

METADATA = {"uid": "u1", "name": "p", "namespace": "team-a", "resourceVersion": "7"}
#: One character, four bytes.
WIDE = "\N{GRINNING FACE}"
#: One character that JSON writes with two.
QUOTED = '"'


def observed(metadata=None, containers=(), statuses=(), **spec):
    """The fact of one pod, and the size of its event's body."""
    thing = {
        "metadata": METADATA | (metadata or {}),
        "spec": {"nodeName": "n1", "containers": list(containers), **spec},
        "status": {
            "phase": "Failed" if statuses else "Running",
            "containerStatuses": list(statuses),
        },
    }
    event = pods.translate(record(thing), POLICY)
    assert len(event.body) <= LARGEST_BODY
    return PodObserved.read(event)


def asks(number, **requests):
    return {"name": f"c{number}", "resources": {"requests": requests}}


def texts(count, value):
    return {f"bursar.io/{number:02}-{'k' * 60}": value for number in range(count)}


@pytest.mark.parametrize("character", ["x", WIDE, QUOTED], ids=["plain", "four bytes", "escaped"])
def test_annotations_hide_no_pod(character):
    """64 of 253 characters were allowed, and of four bytes each they were 85 KiB: the pod was never charged."""
    fact = observed({"annotations": texts(64, character * 253)}, [asks(1, cpu="3")])

    assert charged_bytes(bytes(fact.resources)).cpu_millicores == 3_000
    assert "annotations_cut" in fact.notes


def test_annotations_go_before_labels_and_what_bursar_reads_goes_last():
    read = {
        **dict.fromkeys(QUOTA_LABELS, "q"),
        POLICY.team: "blue",
        POLICY.user: "ann",
        "notebook-name": "nb",
    }
    longest = "x" * 63
    many = {f"app.kubernetes.io/{'a' * 60}{n:03}": longest for n in range(64)}
    wide = {f"{'p' * 240}.bursar.io/{n}": longest for n in range(64)}
    policy = msgspec.structs.replace(POLICY, label_prefixes=(*POLICY.label_prefixes, "ppp"))
    thing = {
        "metadata": METADATA
        | {
            "labels": many | wide | read,
            "annotations": texts(64, WIDE * 253) | {"bursar.io/probe": "jupyter"},
        },
        "spec": {},
    }

    first, second = (
        PodObserved.read(pods.translate(record(one), policy))
        for one in (thing, json.loads(json.dumps(thing, sort_keys=True)))
    )

    assert read.items() <= first.labels.items() and len(first.labels) == 64
    assert first.annotations.get("bursar.io/probe") == "jupyter"
    assert first.notes == ("labels_cut", "annotations_cut")
    assert (first.labels, first.annotations) == (second.labels, second.annotations)


def test_labels_by_which_quotas_select_namespaces_are_kept_whatever_the_settings():
    many = {f"{prefix}{n}": "1" for prefix in ("aaa/", "batch.kubernetes.io/") for n in range(64)}
    selected = {f"{prefix}tier": "gold" for prefix in SELECTABLE}
    more = msgspec.structs.replace(POLICY, label_prefixes=(*POLICY.label_prefixes, "aaa/"))

    for policy in (POLICY, more):
        thing = {"metadata": METADATA | {"labels": {**many, **selected}}}
        fact = NamespaceObserved.read(namespaces.translate(record(thing), policy))
        assert selected.items() <= fact.labels.items()


def test_1200_containers_hide_no_pod_and_their_resize_is_charged():
    """Each with a status that says what is allocated and actual, and with a finish of its own."""
    stated = {"cpu": "2m", "memory": "1Mi"}
    containers = [asks(n, cpu="1m", memory="1Mi", **{"nvidia.com/gpu": "0"}) for n in range(1200)]
    small = [{"name": f"c{n}", "allocatedResources": {"cpu": "1m"}} for n in range(1200)]
    resized = [
        one | {"resources": {"requests": stated}, "allocatedResources": stated} for one in small
    ]

    before, after = (
        observed(containers=containers),
        observed(containers=containers, statuses=resized),
    )

    assert [charged_bytes(bytes(one.resources)).cpu_millicores for one in (before, after)] == [
        1200,
        2400,
    ]
    assert "containers_folded" in before.notes and "containers_folded" in after.notes


def test_1200_finishes_keep_the_latest():
    ends = [
        {"name": f"c{n}", "state": {"terminated": {"finishedAt": f"2026-10-26T08:{n // 60:02}:{n % 60:02}Z"}}}
        for n in range(1200)
    ]  # fmt: skip

    fact = observed(containers=[asks(n) for n in range(1200)], statuses=ends)

    assert max(fact.finished) == "2026-10-26T08:19:59Z"
    assert "finished_cut" in fact.notes


def test_names_of_resources_hide_no_pod():
    """What is charged goes first: cores, memory and cards stay where others do not fit."""
    absurd = {f"{'r' * 200}{n}.io/x": "1" for n in range(2000)}

    fact = observed(containers=[asks(1, **absurd, cpu="3", **{"nvidia.com/gpu": "2"})])
    amounts = charged_bytes(bytes(fact.resources))

    assert (amounts.cpu_millicores, amounts.gpu_milligpus) == (3_000, 2_000)
    assert "resources_cut" in fact.notes


def test_an_argument_of_one_mebibyte_hides_no_pod():
    """A `<` counts sixfold in an API server's JSON: 9 MiB of one object are a legal pod."""
    raw = json.dumps(
        {"metadata": METADATA, "spec": {"nodeName": "n1", "containers": [{**asks(1, cpu="3"), "args": ["@"]}]}}
    ).replace("@", "\\u003c" * (3 << 19))  # fmt: skip

    fact = PodObserved.read(pods.translate(record(raw.encode()), POLICY))

    assert charged_bytes(bytes(fact.resources)).cpu_millicores == 3_000


amounts_ = st.dictionaries(
    st.sampled_from(
        ("cpu", "memory", "nvidia.com/gpu", "a.io/gpu-core", "a.io/nic", "hugepages-2Mi")
    ),
    st.sampled_from(("0", "1", "7", "100m", "1Gi", "2Ti", "9E", "9223372036854775807", "1n", "no")),
    max_size=4,
)
parts_ = st.builds(
    ContainerResources, amounts_, st.none() | amounts_, st.none() | amounts_, st.booleans()
)
pods_ = st.builds(
    PodResources, st.lists(parts_, max_size=4).map(tuple), st.lists(parts_, max_size=4).map(tuple),
    amounts_, amounts_, st.none() | amounts_, st.none() | amounts_, st.booleans(),
)  # fmt: skip


@given(pods_)
def test_folded_containers_are_charged_as_the_containers_were(resources):
    folded, is_cut = pods.folded(resources)

    assert (charged(resources), False) == (charged(folded), is_cut)


texts_ = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=300)


@given(
    st.dictionaries(texts_, texts_, max_size=90),
    st.dictionaries(texts_, texts_, max_size=90),
    st.integers(0, 300),
)
def test_any_labels_and_annotations_fit_beside_any_containers(labels, annotations, count):
    policy = msgspec.structs.replace(POLICY, label_prefixes=("",), annotation_prefixes=("",))
    thing = {
        "metadata": METADATA | {"labels": labels, "annotations": annotations},
        "spec": {"containers": [asks(n, cpu="1", **{"x.io/y": "1"}) for n in range(count)]},
    }

    event = pods.translate(record(thing), policy)

    assert len(event.body) <= LARGEST_BODY
    assert charged_bytes(bytes(PodObserved.read(event).resources)).cpu_millicores == count * 1000


MANY = {f"{'r' * 60}.{'s' * 60}.{'t' * 60}.{'u' * 60}.x{n}/{'y' * 60}": "1" for n in range(1000)}
LABELS = {f"app.kubernetes.io/{'a' * 290}{n:03}": "x" * 63 for n in range(64)}


def test_no_node_and_no_namespace_is_refused_for_its_size():
    metadata = METADATA | {"labels": LABELS}
    offers = {"cpu": "96", "nvidia.com/gpu": "8", **MANY}

    node = NodeObserved.read(
        nodes.translate(record({"metadata": metadata, "status": {"allocatable": offers}}), POLICY)
    )
    space = NamespaceObserved.read(namespaces.translate(record({"metadata": metadata}), POLICY))

    assert node.allocatable["cpu"] == "96" and 0 < len(space.labels) < 64


def test_a_workload_too_large_to_be_told_is_there_with_an_unreadable_demand():
    """64 names for each of its pod sets, requests and limits, in all and of one replica."""
    asked = dict(list(MANY.items())[:64])
    main = asks(1) | {"resources": {"requests": asked, "limits": asked}}
    deployment = {
        "metadata": METADATA | {"labels": LABELS},
        "spec": {"template": {"spec": {"containers": [main]}}},
    }

    fact = WorkloadObserved.read(
        workloads.translate(record(deployment), POLICY, kind=table.DEPLOYMENT)
    )

    assert (fact.name, fact.demand, fact.notes) == ("p", None, ("demand_unreadable",))


def test_a_quota_too_large_to_be_told_is_there_with_its_problem():
    spec = {"min": MANY, "max": MANY}

    fact = QuotaObserved.read(
        quotas.translate(record({"metadata": METADATA, "spec": spec}), POLICY, kind="ElasticQuota")
    )

    assert (fact.name, fact.max) == ("p", {}) and "larger than" in fact.problem
