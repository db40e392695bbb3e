"""Seconds in the ledger equal the containers' own records, for every way in which a pod ends on a real node.

Source: docs/accounting.md. Expected seconds are read from the API server's stamps and the kubelet's, by a watch of the test's own.
"""

import itertools

import pytest

from tests.acceptance.bookkeeping import second
from tests.node.pods import disruption, has_ended, phase
from tests.node.scenarios import play

pytestmark = [
    pytest.mark.node, pytest.mark.kube, pytest.mark.nats, pytest.mark.slow, pytest.mark.waits,
    pytest.mark.timeout(900),
]  # fmt: skip


@pytest.fixture(scope="module")
def played(node, tmp_path_factory):
    return play(node, tmp_path_factory.mktemp("ends"))


def held(row):
    """(from, to) of what a pod held, whatever was cut in between."""
    parts = [(one.start_s, one.end_s) for one in row.holdings]
    assert all(one[1] == two[0] for one, two in itertools.pairwise(parts)), parts
    return (parts[0][0], parts[-1][1]) if parts else ()


def interval(start_s, end_s):
    return (start_s, end_s) if end_s > start_s else ()


def short(row):
    """A row without unknown time and flags, where it is right in every respect."""
    return held(row), row.unknown_s, row.is_open, row.flags


def exact(start_s, end_s):
    return interval(start_s, end_s), 0, False, ()


def written(version):
    """When the kubelet wrote the last status."""
    fields = version["metadata"]["managedFields"]
    return max(second(one["time"]) for one in fields if one.get("subresource") == "status")


FINISHED = {
    "ok": "Succeeded", "fail": "Failed", "two": "Failed", "no-command": "Failed", "oom": "Failed", "polite": "Succeeded",
    "deaf": "Failed", "evicted": "Succeeded", "outlived": "Succeeded", "deleted-meanwhile": "Succeeded",
    "preempted": "Succeeded", "resized": "Succeeded", "crash": "Failed",
}  # fmt: skip
#: The kubelet may report these as ended before their containers' records, or without any.
ENDED_EARLY = ("deadline", "disk", "pressed", "pressed-at-once", "absent")


@pytest.mark.parametrize("name", FINISHED)
def test_a_pod_that_finished_is_held_until_its_last_container_ended(played, name):
    record = played.record

    assert FINISHED[name] == phase(record.last(name))
    assert exact(record.bound(name), record.finished(name)) == short(played.live[name])


def test_a_sidecar_that_outlives_the_main_container_holds_the_pod(played):
    record = played.record
    main_s = record.finished("init")
    side_s = record.finished("init", "side", kind="initContainerStatuses")

    assert exact(record.bound("init"), max(main_s, side_s)) == short(played.live["init"])


def test_a_pod_whose_init_container_failed_is_held_until_that(played):
    end_s = played.record.finished("init-failed", kind="initContainerStatuses")

    assert exact(played.record.bound("init-failed"), end_s) == short(played.live["init-failed"])


@pytest.mark.parametrize("name", ["too-big", "refused-unseen"])
def test_a_pod_that_the_kubelet_refuses_is_held_until_its_refusal(played, name):
    [refused_s] = {
        second(version["status"]["startTime"])
        for version in played.record.versions(name)
        if phase(version) == "Failed"
    }
    expected = exact(played.record.created(name), refused_s)

    assert expected == short(played.live[name])
    # Where the kubelet started again before, it wrote a condition that is later than the end.
    assert expected[:3] == short(played.away[name])[:3]


@pytest.mark.parametrize("name", ENDED_EARLY)
def test_a_pod_that_the_kubelet_ends_before_its_containers_records_ends_by_what_it_said_first(
    played, name
):
    record = played.record
    end_s, flags = first_end(next(filter(has_ended, record.versions(name))))

    assert (interval(record.bound(name), end_s), 0, False, flags) == short(played.live[name])


def first_end(version):
    """The end by the first report of it: the containers' records, the kubelet's own condition, or when it was written."""
    ended = [
        one["state"].get("terminated", {}) for one in version["status"].get("containerStatuses", [])
    ]
    stamps = [one.get("finishedAt") for one in ended]
    if stamps and all(stamps):
        return max(map(second, stamps)), ()
    for one in version["status"].get("conditions", []):
        if (one["type"], one.get("reason")) == ("DisruptionTarget", "TerminationByKubelet"):
            return second(one["lastTransitionTime"]), ()
    return written(version), ("end_observed",)


def test_a_pod_that_was_removed_by_force_is_held_until_then(played):
    """Its container may run on: the API server knows no more of it."""
    record = played.record

    assert "Running" == phase(record.last("forced"))
    assert exact(record.bound("forced"), record.removed("forced")) == short(played.live["forced"])


def test_the_request_to_go_ends_nothing(played):
    """Each of these has DisruptionTarget; what it held ends with its containers, as the tests above have it."""
    record = played.record
    reasons = {name: disruption(record.last(name)) for name in ("evicted", "preempted", "pressed")}

    assert {
        "evicted": "EvictionByEvictionAPI",
        "preempted": "TerminationByKubelet",
        "pressed": "TerminationByKubelet",
    } == reasons


def test_a_resize_cuts_when_the_container_has_its_new_amounts(played):
    record, row = played.record, played.live["resized"]
    before, after = row.holdings

    assert [50, 100] == [before.cpu_milli, after.cpu_milli]
    assert (record.bound("resized"), before.end_s) == (before.start_s, after.start_s)
    assert (record.finished("resized"), ()) == (after.end_s, row.flags)


def test_a_container_that_was_lost_while_the_kubelet_was_down_is_held_until_its_end_was_observed(
    played,
):
    """Not until the end of its init container, which is the only end that a container recorded."""
    record, row = played.record, played.live["lost"]
    [main] = record.last("lost")["status"]["containerStatuses"]
    start_s, end_s = held(row)

    assert ("ContainerStatusUnknown", None) == (
        main["state"]["terminated"]["reason"],
        main["state"]["terminated"]["finishedAt"],
    )
    assert (record.created("lost"), ("end_observed",)) == (start_s, row.flags)
    assert (0, True) == (row.unknown_s, end_s >= int(played.moments["kubelet"]))
    assert end_s == written(next(filter(has_ended, record.versions("lost"))))
    assert end_s > record.finished("lost", kind="initContainerStatuses")


def test_the_same_read_by_a_list_is_held_until_the_last_proof_and_unknown_from_there(played):
    row = played.away["lost"]
    start_s, end_s = held(row)

    assert played.record.created("lost") == start_s
    assert "end_observed" in row.flags
    assert (
        held(played.live["lost"])[1] <= end_s + row.unknown_s <= written(played.record.last("lost"))
    )


def test_a_static_pod_is_held_from_its_mirrors_creation_to_its_removal_through_restarts(played):
    """A mirror that is deleted comes back as another pod, while its container runs on."""
    record = played.record
    runs = {}
    for version in record.versions(played.static):
        runs.setdefault(version["metadata"]["uid"], []).append(version)
    expected = []
    for versions in runs.values():
        first, last = versions[0]["metadata"], versions[-1]["metadata"]
        assert last["deletionGracePeriodSeconds"] == 0
        span = second(first["creationTimestamp"]), second(last["deletionTimestamp"])
        expected.append(exact(*span))

    assert 2 == len(expected)
    assert expected == [short(row) for row in sorted(played.live[played.static], key=held)]


# While nobody followed.

ENDED_UNSEEN = ("outlived", "both-unseen")


@pytest.mark.parametrize("name", ENDED_UNSEEN)
def test_an_end_while_bursar_was_away_is_exact_where_the_pod_is_still_there(played, name):
    record = played.record
    expected = exact(record.bound(name), record.finished(name))

    assert [expected, expected] == [short(played.live[name]), short(played.away[name])]


@pytest.mark.parametrize("name", ["gone-unseen", "deleted-meanwhile"])
def test_a_pod_that_went_while_bursar_was_away_ends_within_its_unknown_time(played, name):
    record, row = played.record, played.away[name]
    start_s, end_s = held(row)

    assert exact(record.bound(name), record.finished(name)) == short(played.live[name])
    assert (record.bound(name), ("vanished",)) == (start_s, row.flags)
    assert end_s <= record.finished(name) <= end_s + row.unknown_s


def test_both_ledgers_agree_on_every_end_that_both_could_read(played):
    names = {*FINISHED, *ENDED_EARLY, "init", "init-failed", "forced"} - {"deleted-meanwhile"}

    assert {n: short(played.live[n]) for n in names} == {n: short(played.away[n]) for n in names}
