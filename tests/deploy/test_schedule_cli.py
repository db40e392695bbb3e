"""`bursar schedule check` on a small ledger: nothing is bound, everything is said."""

import json

import msgspec
import pytest
import yaml

from bus.events.pods import SIGS, PodGroupObserved
from deploy.cli.program.exits import Exit
from reactors.scheduling.queueing.messages import IN_SYSTEM
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "10"}
EVENTS = [
    f.namespace_observed("ns"),
    f.node_observed("a", 1, allocatable=SMALL),
    f.node_observed("b", 2, allocatable=SMALL),
    f.node_observed("c", 3, allocatable={**SMALL, "cpu": "64"}, unschedulable=True),
    f.pod_observed("held", 4, node="a", cpu="3", memory="1Gi"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("schedule"), EVENTS)


def pod(name, cpu, **spec):
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "resources": resources}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def checked(capsys, data, tmp_path):
    """What is said of pods, as JSON."""

    def run(*pods, code=0):
        path = tmp_path / "pods.yaml"
        path.write_text(yaml.safe_dump_all(pods))
        assert code == bursar("schedule", "check", path, "--data", data, "-o", "json")
        return json.loads(capsys.readouterr().out)

    return run


def test_a_pod_gets_the_best_node_and_every_plugin_is_heard(checked):
    (found,) = checked(pod("p", "1"))

    assert (found["pod"], found["node"], found["feasible"], found["nodes"]) == (
        "default/p",
        "b",
        2,
        3,
    )
    assert found["refused"] == {"NodeUnschedulable": {"node(s) were unschedulable": 1}}
    assert [one["node"] for one in found["top"]] == ["b", "a"]
    assert found["top"][0]["score"] == sum(found["top"][0]["scores"].values())


def test_the_pods_of_a_file_count_one_after_the_other(checked):
    found = checked(pod("p", "3"), pod("q", "3"), code=Exit.NOT_ADMITTED)

    assert [one["node"] for one in found] == ["b", None]
    assert found[1]["message"] == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert found[1]["changes"] == ["request 1 of cpu, not 3 (node a)", "uncordon node c (node c)"]


def test_who_would_have_to_go_is_said(checked, capsys, data, tmp_path):
    manifest = pod("p", "4", priority=7)
    filling = pod("q", "4", priority=9)
    first, second = checked(filling, manifest, code=Exit.NOT_ADMITTED)
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump_all([filling, manifest]))
    bursar("schedule", "check", path, "--data", data)

    assert (first["node"], first["preemption"]) == ("b", None)
    assert second["preemption"] == {
        "node": "a",
        "victims": ["ns/held"],
        "violating": 0,
        "message": "",
    }
    assert "default/p would find room on a without ns/held" in capsys.readouterr().out


def test_room_that_is_made_for_a_pod_is_taken_from_those_that_follow(checked):
    pods = [pod(name, "4", priority=priority) for name, priority in (("p", 9), ("q", 8), ("r", 7))]
    found = checked(*pods, code=Exit.NOT_ADMITTED)

    assert [one["node"] for one in found] == ["b", None, None]
    assert found[1]["preemption"]["victims"] == ["ns/held"]
    assert found[2]["preemption"]["node"] is None


def test_devices_of_a_class_are_left_to_kube_scheduler(checked):
    resource = "deviceclass.resource.kubernetes.io/fast"
    container = {"name": "main", "resources": {"limits": {"cpu": "1", resource: "1"}}}
    (found,) = checked(pod("p", "1", containers=[container]), code=Exit.NOT_ADMITTED)

    assert "DeviceClass fast serves it" in found["message"]
    assert "Insufficient" not in found["message"]
    assert found["changes"][0].startswith("let the pod name kube-scheduler")


def test_a_pod_of_a_system_namespace_that_names_bursar_waits(checked):
    manifest = pod("p", "1", schedulerName="bursar")
    manifest["metadata"]["namespace"] = "kube-system"
    (found,) = checked(manifest, code=Exit.NOT_ADMITTED)

    assert (found["pod"], found["message"]) == ("kube-system/p", IN_SYSTEM)


def test_limits_are_requests_where_none_are_written(checked):
    manifest = pod("p", "1")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 5}}
    (found,) = checked(manifest, code=Exit.NOT_ADMITTED)

    assert found["refused"]["NodeResourcesFit"] == {"Insufficient cpu": 2}


def test_people_see_a_table(capsys, data, tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod("p", "5")))
    code = bursar("schedule", "check", path, "--data", data)
    shown = capsys.readouterr()

    assert code == Exit.NOT_ADMITTED
    assert "0/3 nodes are available" in shown.out
    assert "1 of 1 pods would find no node" in shown.err


def waiting(uid, version, cpu, **constraints):
    terms = msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar", **constraints}))
    return f.pod_observed(uid, version, node=None, cpu=cpu, memory="1Gi", constraints=terms)


def test_the_queue_says_who_waits_in_which_order_and_why(capsys, tmp_path):
    events = [
        *EVENTS,
        waiting("large", 10, "5"),
        waiting("gated", 11, "1", schedulingGates=["budget"]),
        waiting("small", 12, "1"),
        f.pod_observed("other", 13, node=None, cpu="1"),
    ]
    assert bursar("schedule", "queue", "--data", make_ledger(tmp_path, events), "-o", "json") == 0
    small, gated, large = json.loads(capsys.readouterr().out)

    assert (small["pod"], small["state"], small["node"]) == ("ns/small", "fits", "b")
    assert (gated["state"], gated["reason"]) == ("gated", "waiting for scheduling gates: [budget]")
    assert (large["state"], large["help"]) == ("unschedulable", ["a node", "a pod that ends"])
    assert large["reason"].startswith(
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Ins"
    )


def ganged(number, cpu="1", least=3):
    gang = {"name": "g", "isLight": True, "least": str(least)}
    return [waiting(f"g{at}", 20 + at, cpu, gang=gang) for at in range(number)]


def test_the_queue_says_which_pods_are_a_gang(capsys, tmp_path):
    data = make_ledger(tmp_path, [*EVENTS, *ganged(3, "2"), waiting("p", 40, "1")])
    assert bursar("schedule", "queue", "--data", data, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)

    assert [(one["pod"], one["gang"], one["state"]) for one in found] == [
        ("ns/p", None, "fits"), *((f"ns/g{n}", "ns/g", "unschedulable") for n in range(3)),
    ]  # fmt: skip
    assert "not all of the 3 pods that gang ns/g needs find a node" in found[1]["reason"]


@pytest.mark.parametrize("name", ["gang/ns/g", "gang/g"])
def test_why_tells_how_far_a_gang_is(capsys, tmp_path, name):
    data = make_ledger(tmp_path, [*EVENTS, *ganged(2)])
    assert bursar("why", name, "--cluster", "c", "--data", data, "-o", "json") == 0
    (told, *_) = json.loads(capsys.readouterr().out)

    assert (told["step"], told["about"]) == ("incomplete", "gang ns/g")
    assert told["reason"] == "gang ns/g needs 3 pods, and fewer are there"
    assert (
        told["numbers"]
        == "3 start together, in one pass; 2 pods: 0 on nodes, 0 to be bound; phase Pending"
    )


@pytest.mark.parametrize(
    ("ended", "phase"), [((), "Scheduled"), ("ab", "Finished"), ("a", "Scheduled")],
    ids=["on nodes", "ended", "half"],
)  # fmt: skip
def test_why_tells_the_phase_of_a_gang_also_when_all_of_it_has_ended(
    capsys, tmp_path, ended, phase
):
    gang = {"name": "g", "isLight": False}
    group = PodGroupObserved(
        kind=SIGS, uid="group", namespace="ns", name="g", resource_version="9", least=2
    )
    said = [f.said(group, key="group", id="group/9", at=9)]
    for at, uid in enumerate("ab"):
        raw = msgspec.Raw(msgspec.json.encode({"gang": gang}))
        said.append(
            f.pod_observed(
                uid, 20 + at, 20 + at, node="a", namespace="ns", constraints=raw,
                phase="Succeeded" if uid in ended else "Pending",
            )
        )  # fmt: skip
    data = make_ledger(tmp_path, [*EVENTS, *said])
    assert bursar("why", "gang/ns/g", "--cluster", "c", "--data", data, "-o", "json") == 0
    (told, *_) = json.loads(capsys.readouterr().out)

    assert told["numbers"].endswith(f"phase {phase}")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (waiting("p", 10, "1"), ("fits", "", "2 of 3 nodes fit: b scores ")),
        (waiting("p", 10, "5"), ("unschedulable", "0/3 nodes are available: ", "or request 4 of cpu, not 5 (node b)")),
    ],
    ids=["fits", "unschedulable"],
)  # fmt: skip
def test_why_tells_where_a_waiting_pod_would_go(capsys, tmp_path, pod, expected):
    data = make_ledger(tmp_path, [*EVENTS, pod])
    assert bursar("why", "ns/p", "--cluster", "c", "--data", data, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    step, reason, part = expected

    assert found["step"] == step
    assert found["reason"].startswith(reason)
    assert part in found["numbers"]


def test_why_tells_who_would_have_to_go(capsys, tmp_path):
    filling = [f.pod_observed(f"low{n}", 20 + n, node="b", cpu="1") for n in range(4)]
    terms = msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar"}))
    asks = f.pod_observed("p", 30, node=None, cpu="4", priority=5, constraints=terms)
    data = make_ledger(tmp_path, [*EVENTS, *filling, asks])
    assert bursar("why", "ns/p", "--cluster", "c", "--data", data, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)

    assert found["numbers"].endswith("; or evict ns/held (node a)")


def test_why_says_nothing_of_placing_pods_of_other_schedulers(tmp_path, capsys):
    data = make_ledger(tmp_path, [*EVENTS, f.pod_observed("p", 10, node=None)])

    assert bursar("why", "ns/p", "--cluster", "c", "--data", data, "-o", "json") == 0
    assert [step["step"] for step in json.loads(capsys.readouterr().out)] == ["created"]


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}, "only pods are placed, no Service"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}, "object 1 has no name"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 3}}, "pod p: "),
    ],
)  # fmt: skip
def test_what_is_no_pod_is_refused_by_name(capsys, data, tmp_path, manifest, problem):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(manifest))

    assert bursar("schedule", "check", path, "--data", data) == Exit.USAGE
    assert problem in capsys.readouterr().err
