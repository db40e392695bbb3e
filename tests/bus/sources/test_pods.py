"""Pods: what of a record becomes the fact, and the rows of docs/wrong-input.md A that one record decides."""

import json

import msgspec
import pytest

from bus.charges import charged_bytes
from bus.errors import BursarError, MalformedJsonError, ObservationError
from bus.events.pods import Owner, PodObserved, PodsListed, PodVanished
from bus.kube.kinds import QUOTA_LABELS
from bus.kube.watch import lists
from bus.kube.watch.labels import LabelPolicy
from bus.sources import pods
from bus.user_names import UserNames
from tests.bus.sources.pod_records import METADATA, condition, ended, finished, observed, pod
from tests.bus.sources.records import POLICY, body, record, recorded

CANARY = "canary-5f1c"
SOONER, LATER = "2026-10-26T08:00:00Z", "2026-10-26T09:00:00Z"


def resources(thing):
    return msgspec.json.decode(observed(thing).resources)


def test_a_recorded_life_is_told_with_the_stamps_of_the_api_server():
    events = [pods.translate(seen, POLICY) for seen in recorded("pods")]
    lives = [PodVanished if event.type == "pod.vanished" else PodObserved for event in events]
    told = [life.read(event) for life, event in zip(lives, events, strict=True)]
    notebook = [one for one in told if one.name == "notebook-0"]
    trained = next(one for one in told if one.phase == "Succeeded")

    assert notebook[-1].phase in ("Running", "Succeeded")
    assert notebook[0].node is None and notebook[0].scheduled is None
    assert notebook[1].node == "node-0" and notebook[1].scheduled == notebook[1].created
    assert (notebook[-1].grace_seconds, lives[-1]) == (0, PodVanished)
    assert notebook[-1].deletion >= notebook[-1].finished[-1]
    assert trained.finished[0] > trained.scheduled
    assert (trained.owner.kind, trained.owner.name) == ("Job", "train")
    assert events[-1].id == f"pod.vanished/{notebook[0].uid}/{notebook[-1].resource_version}"
    assert events[-1].key == notebook[0].uid


def test_a_recorded_pod_is_charged_as_the_scheduler_counted_it():
    last = [pods.translate(seen, POLICY) for seen in recorded("pods")][-1]
    amounts = charged_bytes(bytes(PodVanished.read(last).resources))

    assert (amounts.cpu_millicores, amounts.memory_mib) == (4_100, 16 * 1024 + 64)
    assert amounts.gpu_milligpus == 1_000


def test_recorded_secrets_are_in_no_event():
    records = recorded("pods")
    events = [pods.translate(seen, POLICY) for seen in records]

    assert all(b"canary-recorded" in seen.object for seen in records)
    assert not any(b"canary-recorded" in msgspec.json.encode(event) for event in events)


def test_recorded_labels_and_annotations_are_kept_by_the_list():
    first = PodObserved.read(pods.translate(recorded("pods")[0], POLICY))

    assert first.labels == {
        "app": "notebook",
        "bursar.io/user": "ann",
        "notebook-name": "notebook",
    }
    assert first.annotations == {"bursar.io/note": "kept"}
    assert (first.team, first.user) == (None, "ann")


#: As KubeSpawner 7.1 writes them for the user Ada.Lovelace@example.org: the label has a slug.
HUB = {"hub.jupyter.org/username": "ada-lovelace-example---059b8523"}
HUB_NOTES = {"hub.jupyter.org/username": "Ada.Lovelace@example.org", "owner": "nobody"}

AGO = ended(None)["state"]


@pytest.mark.parametrize(
    ("labels", "annotations", "user"),
    [
        (HUB, HUB_NOTES, "Ada.Lovelace@example.org"),
        (HUB, {}, HUB["hub.jupyter.org/username"]),
        (HUB | {"bursar.io/user": "ann"}, HUB_NOTES, "ann"),
        ({}, {"owner": "nobody"}, None),
        ({"mail": "b@example.org"}, {}, None),
    ],
)
def test_the_user_is_the_first_of_the_ordered_labels_and_annotations(labels, annotations, user):
    found = observed(pod(labels=labels, annotations=annotations))

    assert found.user == user
    assert "hub.jupyter.org/username" not in found.labels | found.annotations


def test_the_order_of_labels_and_annotations_that_name_the_user_is_a_setting():
    policy = LabelPolicy(pod_users=("example.com/mail", "hub.jupyter.org/username"))
    both = pod(labels=HUB | {"example.com/mail": "ada"}, annotations=HUB_NOTES)

    assert observed(both, policy).user == "ada"
    assert observed(pod(labels=HUB, annotations=HUB_NOTES), LabelPolicy(pod_users=())).user is None


def test_every_label_that_names_a_user_stands_under_the_key():
    names = UserNames(b"k" * 32)
    policy = LabelPolicy(names=names, label_keys=frozenset(HUB))
    found = observed(pod(labels=HUB, annotations=HUB_NOTES), policy)

    assert found.user == names.sealed("Ada.Lovelace@example.org")
    assert found.labels == {key: names.sealed(name) for key, name in HUB.items()}


@pytest.mark.parametrize(
    ("thing", "want"),
    [
        (
            pod(status={"conditions": [condition("PodScheduled")]}),
            {"scheduled": "2026-10-26T07:55:28Z"},
        ),
        (pod(status={"conditions": [condition("PodScheduled", "False")]}), {}),
        (
            pod(status={"conditions": [condition("DisruptionTarget")]}),
            {"disrupted": "2026-10-26T07:55:28Z"},
        ),
        (
            pod(
                status={
                    "conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")]
                }
            ),
            {"disrupted": "2026-10-26T07:55:28Z", "disruption": "PreemptionByScheduler"},
        ),
        (
            pod(status={"conditions": [condition("DisruptionTarget", reason="anybody's words")]}),
            {"disrupted": "2026-10-26T07:55:28Z"},
        ),
        (pod({"nodeName": "n1"}), {"node": "n1"}),
        (pod({"nodeName": ""}), {}),
        (
            finished(
                ended("b"),
                ended("b", "other"),
                ended("a", "first"),
                containers=("main", "other"),
                init=("first",),
            ),
            {"phase": "Failed", "finished": ["b"], "ran": "regular"},
        ),
        (
            finished(ended("b"), ended(None, "other"), containers=("main", "other")),
            {"phase": "Failed", "ran": "regular"},
        ),
        (
            finished(ended("b"), containers=("main", "other")),
            {"phase": "Failed", "ran": "regular"},
        ),
        (
            finished(
                ended(LATER),
                {"name": "side", "state": {"running": {"startedAt": SOONER}}},
                init=("side",),
            ),
            {"phase": "Failed", "ran": "regular", "evidence": [SOONER, LATER]},
        ),
        (
            finished(ended("b"), ended("c", "side"), init=("side", "side-late")),
            {"phase": "Failed", "finished": ["b", "c"], "ran": "regular"},
        ),
        (
            finished(ended(SOONER, "first"), ended(LATER, "next", 1), init=("first", "next")),
            {
                "phase": "Failed",
                "init_finished": LATER,
                "ran": "init",
                "evidence": [SOONER, LATER],
            },
        ),
        (
            finished(ended("a", "first"), ended(None, "next", 137), init=("first", "next")),
            {"phase": "Failed", "ran": "init"},
        ),
        (
            finished(reason="OutOfnvidia.com/gpu", startTime="s"),
            {"phase": "Failed", "refusal": "OutOfnvidia.com/gpu", "acknowledged": "s"},
        ),
        (finished(reason="Evicted", startTime="s"), {"phase": "Failed", "acknowledged": "s"}),
        (
            finished({"name": "main", "state": {"waiting": {}}}, reason="NodeAffinity"),
            {"phase": "Failed"},
        ),
        (
            finished(conditions=[condition("Ready", "False")]),
            {"phase": "Failed", "evidence": ["2026-10-26T07:55:28Z"]},
        ),
        (
            pod({"nodeName": "n1"}, {"phase": "Running", "startTime": "s"}),
            {"phase": "Running", "node": "n1", "acknowledged": "s"},
        ),
        (
            pod({"nodeName": "n1"}, {"startTime": "s", "conditions": [condition("PodScheduled")]}),
            {"node": "n1", "scheduled": "2026-10-26T07:55:28Z"},
        ),
        (
            pod(
                status={
                    "phase": "Pending",
                    "containerStatuses": [{"name": "main", "restartCount": 1}],
                }
            ),
            {"phase": "Pending", "ran": "regular"},
        ),
        (finished(ended(None), reason="OutOfcpu"), {"phase": "Failed"}),
        (finished(ended(None) | {"restartCount": 1}), {"phase": "Failed", "ran": "regular"}),
        (finished(ended(None) | {"lastState": AGO}), {"phase": "Failed", "ran": "regular"}),
        (pod(status={"phase": "Running", "containerStatuses": [ended("b")]}), {"phase": "Running"}),
        (pod(status={"phase": "Zombie"}), {"phase": "Zombie"}),
        (
            pod(deletionTimestamp="2026-10-26T08:00:00Z", deletionGracePeriodSeconds=30),
            {"deletion": "2026-10-26T08:00:00Z", "grace_seconds": 30},
        ),
        (pod(creationTimestamp="10000-01-01T00:00:00Z"), {"created": "10000-01-01T00:00:00Z"}),
        (pod(creationTimestamp="9" * 50), {"created": "9" * 40}),
        (
            pod(status={"containerStatuses": None, "conditions": None, "phase": None}, labels=None),
            {},
        ),
        ({"metadata": METADATA, "spec": None, "status": None}, {}),
        (pod({"activeDeadlineSeconds": 600}), {"deadline_s": 600}),
        (pod(labels={"bursar.io/team": ""}), {"labels": {"bursar.io/team": ""}}),
    ],
    ids=[
        "scheduled is the condition's transition",
        "a condition that is false says nothing",
        "disrupted is the condition's transition",
        "a disruption has the reason that Kubernetes gives",
        "a disruption has no reason that Kubernetes does not give",
        "a bound pod has a node",
        "an empty node name is none",
        "finished has each end of containers once, and none of plain init containers",
        "a container that ended without a stamp proves no end",
        "a container without a status proves no end",
        "a sidecar that runs proves no end",
        "a sidecar that ended counts, one without a status does not",
        "a failed init container ends a pod whose containers never ran",
        "a failed init container without a stamp proves no end",
        "a refusal of the kubelet's admission is carried on, with its startTime",
        "another reason is not",
        "a pod with container statuses was not refused",
        "transitions of conditions are evidence of a finished pod",
        "startTime is carried on where PodScheduled is away",
        "startTime is left out beside PodScheduled",
        "a container that restarted ran",
        "a container of unknown end may never have run",
        "one that restarted ran",
        "one that ended before ran",
        "a container that ended does not end a running pod",
        "A18 an unknown phase is carried on",
        "A19 a deadline is carried on",
        "A23 an impossible stamp is carried on",
        "A23 an endless stamp is cut",
        "A20 null for lists",
        "no spec and no status",
        "an active deadline bounds the run",
        "an empty team names nobody",
    ],
)
def test_what_a_record_says_stands_in_the_fact(thing, want):
    plain = {"uid": "u1", "namespace": "team-a", "name": "p", "resource_version": "7"}
    actual = body(pods.translate(record(thing), POLICY))
    for amounts in ("resources", "limits"):
        actual.pop(amounts)

    assert plain | want == actual


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        (
            {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
            {},
            {"containers": [{"requests": {"cpu": "1"}}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "1"}}}]},
            {
                "containerStatuses": [
                    {
                        "name": "b",
                        "resources": {"requests": {"cpu": "2"}},
                        "allocatedResources": {"cpu": "3"},
                    }
                ]
            },
            {"containers": [{}, {"actual": {"cpu": "2"}, "allocated": {"cpu": "3"}}]},
        ),
        (
            {
                "initContainers": [{"name": "a", "restartPolicy": "Always"}],
                "overhead": {"cpu": "1m"},
            },
            {"initContainerStatuses": [{"name": "a", "resources": {}}]},
            {"init": [{"actual": {}, "restartable": True}], "overhead": {"cpu": "1m"}},
        ),
        (
            {"resources": {"requests": {"cpu": "1"}}},
            {
                "resources": {"requests": {"cpu": "2"}},
                "allocatedResources": {"cpu": "3"},
                "conditions": [condition("PodResizePending", reason="Infeasible")],
            },
            {
                "requests": {"cpu": "1"},
                "actual": {"cpu": "2"},
                "allocated": {"cpu": "3"},
                "infeasible": True,
            },
        ),
        (
            {"overhead": {"cpu": "0" * 100_000 + "1.5", "memory": "x" * 40}},
            {},
            {"overhead": {"cpu": "1500000000n", "memory": "x" * 31 + "?"}},
        ),
    ],
    ids=[
        "requests as they were written",
        "a status by the container's name, limits not at all",
        "a sidecar whose status has empty resources",
        "resources of the pod itself, and a resize that cannot be",
        "a quantity too long to be carried keeps its value, or stays unreadable",
    ],
)
def test_everything_that_decides_the_charge_is_carried(spec, status, want):
    assert want == resources(pod(spec, status))


def test_the_controller_is_the_owner():
    references = [
        {"kind": "Other", "name": "o", "uid": "x"},
        {"kind": "ReplicaSet", "name": "r", "uid": "y", "controller": True},
    ]

    assert observed(pod(ownerReferences=references)).owner == Owner("ReplicaSet", "r", "y")


def test_a26_an_owner_without_identity_is_none():
    references = [{"kind": "Job", "name": "j", "uid": "", "controller": True}]

    assert observed(pod(ownerReferences=references)).owner is None


def test_other_labels_may_name_team_and_user():
    policy = LabelPolicy(team="example.com/team", user="example.com/who")
    labels = {"example.com/team": "vision", "example.com/who": "ann", "bursar.io/team": "x"}
    found = observed(pod(labels=labels), policy)

    assert (found.team, found.user) == ("vision", "ann")


@pytest.mark.parametrize("prefix", ["topology.kubernetes.io/", "bursar.io/"])
def test_a17_labels_are_bounded_in_number_and_length_and_noted(prefix):
    """Labels below a prefix push out none that the settings name."""
    labels = {f"{prefix}{n:05}": "v" for n in range(50_000)} | {"app": "x" * 10_000}
    labels[prefix + "k" * 10_000] = "v"
    found = observed(pod(labels=labels, annotations={"bursar.io/a": "y" * 10_000}))

    assert (len(found.labels), len(found.labels["app"])) == (64, 63)
    assert max(map(len, found.labels)) <= 317
    assert (len(found.annotations["bursar.io/a"]), found.notes) == (
        253,
        ("labels_cut", "annotations_cut"),
    )


def test_no_number_of_other_labels_pushes_out_those_that_name_a_quota():
    quota = {key: "v" for key in QUOTA_LABELS}
    found = observed(pod(labels={f"app.kubernetes.io/{n:05}": "v" for n in range(100)} | quota))

    assert quota.items() <= found.labels.items()
    assert 64 == len(found.labels)


def test_a16_a_large_object_becomes_a_small_fact():
    event = pods.translate(record(pod(annotations={"x": "y" * 1_500_000})), POLICY)

    assert len(event.body) < 8 * 1024


def test_a16_a_pod_of_thousands_of_resources_is_told_by_what_it_asks_for_as_a_whole():
    containers = [
        {
            "name": str(n),
            "resources": {"requests": {f"example.com/{n}-{m}": "1" for m in range(10)}},
        }
        for n in range(500)
    ]

    found = observed(pod({"containers": containers}))

    assert found.notes == ("containers_folded", "resources_cut")


RAW = json.dumps(pod()).encode()


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (RAW[:-10], MalformedJsonError),
        (b"", MalformedJsonError),
        (b"not JSON", MalformedJsonError),
        (b"[]", ObservationError),
        (b"null", ObservationError),
        (json.dumps(pod(uid=None)).encode(), ObservationError),
        (json.dumps(pod(uid="")).encode(), ObservationError),
        (json.dumps(pod(uid=7)).encode(), ObservationError),
        (json.dumps(pod(uid="u" * 10_240)).encode(), ObservationError),
        (json.dumps(pod(uid="a/b")).encode(), ObservationError),
        (json.dumps(pod(uid="a\nb")).encode(), ObservationError),
        (json.dumps(pod(resourceVersion="")).encode(), ObservationError),
        (json.dumps(pod(name="x" * 254)).encode(), ObservationError),
        (json.dumps(pod(namespace=None)).encode(), ObservationError),
        (RAW.replace(b'"uid": "u1"', b'"uid": "u1", "uid": "u2"'), MalformedJsonError),
        (RAW.replace(b'"status": {}', b'"status": {"phase": "a", "phase": "b"}'), MalformedJsonError),
        (RAW.replace(b'"status": {}', b'"status": {"phase": NaN}'), MalformedJsonError),
        (RAW.replace(b'"status": {}', b'"status": {"phase": 1e400}'), MalformedJsonError),
        (RAW.replace(b'"status": {}', b'"status":' + b"[" * 5000 + b"]" * 5000), MalformedJsonError),
        (RAW.replace(b"team-a", b"team-\xff"), MalformedJsonError),
        (RAW.replace(b"team-a", b"team-\\ud800"), MalformedJsonError),
        (RAW + b" " * 13_000_000, MalformedJsonError),
        (json.dumps(pod(labels={"a": 1})).encode(), ObservationError),
        (json.dumps(pod({"nodeName": "n" * 300})).encode(), ObservationError),
    ],
    ids=[
        "A1 cut in the middle",
        "A1 nothing at all",
        "A1 no JSON",
        "an array",
        "null",
        "A10 no uid",
        "A10 an empty uid",
        "A10 a uid that is no text",
        "A10 a uid of 10 KB",
        "A10 a uid with a slash",
        "A10 a uid with a line end",
        "A11 an empty version",
        "a name too long for one",
        "no namespace",
        "A28 two uids",
        "A28 two equal keys",
        "NaN",
        "a number beyond a double",
        "5,000 levels",
        "invalid UTF-8",
        "half a character",
        "thirteen megabytes",
        "a label that is no text",
        "a node name too long for one",
    ],
)  # fmt: skip
def test_what_cannot_be_booked_surely_is_parked(raw, error):
    with pytest.raises(error) as caught:
        pods.translate(record(raw), POLICY)

    assert isinstance(caught.value, BursarError)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    "version", ["x7", "007", "9" * 40], ids=["no number", "zeros", "40 digits"]
)
def test_a11_a_version_is_carried_as_it_is(version):
    assert observed(pod(resourceVersion=version)).resource_version == version


def test_an_unknown_change_is_parked():
    with pytest.raises(ObservationError, match="unknown"):
        pods.translate(record(pod(), "FOO"), POLICY)


def test_a_character_nul_in_a_variable_hides_no_pod():
    spec = {"containers": [{"name": "a", "env": [{"name": "X", "value": "\0"}]}]}

    assert observed(pod(spec, annotations={"bursar.io/x": "a\0b", "y": "\\u0000"})).uid == "u1"


@pytest.mark.parametrize(
    "thing",
    [
        pod({"containers": [{"name": "a", "env": [{"name": "X", "value": CANARY}]}]}),
        pod({"containers": [{"name": "a", "args": [CANARY], "command": [CANARY]}]}),
        pod({"initContainers": [{"name": "a", "envFrom": [{"secretRef": {"name": CANARY}}]}]}),
        pod({"ephemeralContainers": [{"name": CANARY}], "imagePullSecrets": [{"name": CANARY}]}),
        pod({"volumes": [{"name": "v", "secret": {"secretName": CANARY}}]}),
        pod({CANARY: CANARY}, {CANARY: CANARY}, **{CANARY: CANARY}),
        pod(annotations={"kubectl.kubernetes.io/last-applied-configuration": CANARY, CANARY: ""}),
        pod(labels={CANARY: CANARY, "example.com/token": CANARY}),
        pod(managedFields=[{"manager": CANARY}], finalizers=[CANARY], selfLink=CANARY),
        pod(status={"message": CANARY, "reason": CANARY, "conditions": [{"message": CANARY}]}),
        pod(
            status={
                "containerStatuses": [{"name": "a", "state": {"terminated": {"message": CANARY}}}]
            }
        ),
        pod({"containers": [{"name": CANARY, "image": CANARY}]}),
    ],
)
def test_p32_what_is_not_listed_leaves_in_no_event(thing):
    for change in ("ADDED", "DELETED"):
        assert CANARY.encode() not in msgspec.json.encode(
            pods.translate(record(thing, change), POLICY)
        )


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(pod(uid=CANARY + "\n")).encode(),
        json.dumps(pod(labels={CANARY: {CANARY: 1}})).encode(),
        json.dumps(pod(**{CANARY: CANARY})).encode()[:-9],
        json.dumps(pod(name=CANARY * 40)).encode(),
        json.dumps(pod({"nodeName": CANARY * 40})).encode(),
    ],
)
def test_p32_an_error_repeats_no_content(raw):
    with pytest.raises(BursarError) as caught:
        pods.translate(record(raw), POLICY)

    assert CANARY not in str(caught.value)


def listed(uids, **options):
    place = {"resource_version": "9", "time_us": 5, "cluster": "default", "source": "kube/pods"}
    return [PodsListed.read(event) for event in lists.listed(PodsListed, uids, **place, **options)]


def test_a_list_is_cut_into_ranges_without_gap_or_overlap():
    parts = listed(["c", "a", "e", "b", "d", "a"], per_part=2)

    assert [(one.first, one.until, one.uids) for one in parts] == [
        ("", "c", ("a", "b")),
        ("c", "e", ("c", "d")),
        ("e", "", ("e",)),
    ]
    assert [(one.part, one.parts) for one in parts] == [(1, 3), (2, 3), (3, 3)]


def test_an_empty_list_says_that_there_is_nobody():
    assert [(one.first, one.until, one.uids) for one in listed([])] == [("", "", ())]


def test_no_part_is_larger_than_a_message_may_be():
    place = {"resource_version": "9", "time_us": 5, "cluster": "default", "source": "kube/pods"}
    uids = [f"{n:04}" + "\N{SNOWMAN}" * 124 for n in range(2000)]
    events = lists.listed(PodsListed, uids, **place)

    assert max(len(event.body) for event in events) < 64 * 1024
    assert sum(len(PodsListed.read(event).uids) for event in events) == 2000
    assert len({event.id for event in events}) == len(events) > 2


def test_two_lists_of_one_version_are_two_events():
    place = {"resource_version": "", "cluster": "default", "source": "kube/pods"}

    assert (
        lists.listed(PodsListed, [], time_us=1, **place)[0].id
        != lists.listed(PodsListed, [], time_us=2, **place)[0].id
    )


def test_limits_are_said_whole_beside_the_requests():
    """What a quota bounds may be the limits, which an owner's template may not say any more while the pod lives."""
    main = {"name": "main", "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "5"}}}
    gpu = {
        "name": "gpu",
        "resources": {"limits": {"cpu": "250m", "memory": "1Gi", "x.io/gpu": "1"}},
    }
    setup = {"name": "setup", "resources": {"limits": {"cpu": "7", "memory": "1Mi"}}}
    spec = {"containers": [main, gpu], "initContainers": [setup]}

    assert observed(pod(spec)).limits == {"cpu": 7000, "memory": 2**30}
    assert observed(pod({"containers": [{"name": "free"}]})).limits == {}
    assert observed(pod(spec | {"resources": {"limits": {"cpu": "3"}}})).limits["cpu"] == 3000


def test_limits_of_a_pod_that_is_being_made_smaller_are_those_that_hold_until_then():
    main = {"name": "main", "resources": {"limits": {"cpu": "1"}}}
    actual = {"name": "main", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}}
    smaller = pod({"containers": [main]}, {"containerStatuses": [actual]})

    assert observed(smaller).limits == {"cpu": 4000}


def test_limits_that_cannot_be_read_are_not_said_and_hide_no_pod():
    main = {"name": "main", "resources": {"limits": {"cpu": "much"}}}

    assert observed(pod({"containers": [main]})).limits is None
