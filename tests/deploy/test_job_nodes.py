"""A node whose jobs fail more than those of other nodes is named; a crash loop, few failures and few other jobs name none."""

import itertools
import json

import pytest

from bus.events.pods import Owner
from deploy.queries import job_nodes
from deploy.queries.job_nodes import DAYS, NodeFailures, compared, tail
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger

HOUR, DAY = 3600, 86_400
NUMBERS = itertools.count()


def job(name, node, *phases, begin=0, namespace="ns", **fields):
    """A job of one slot whose attempts end one after the other on a node; the phase Running goes on."""
    above = Owner("TFJob", name, f"job-{name}")
    for number, phase in enumerate(phases):
        start = begin + number * 100
        labels = {"job-name": name, "replica-type": "worker", "replica-index": "0"}
        given = {
            "name": f"{name}-worker-0-{number + 1}", "namespace": namespace, "owner": above, "node": node, "created": start,
            "labels": {f"training.kubeflow.org/{key}": value for key, value in labels.items()}, "cpu": "1",
        }  # fmt: skip
        uid = f"p{next(NUMBERS)}"
        yield f.pod_observed(uid, 1, start, phase="Running", **given)
        if phase != "Running":
            end = {"phase": phase, "finished": (start + 50,)}
            yield f.pod_observed(uid, 2, start + 50, **given, **end, **fields)
            yield f.pod_vanished(uid, 3, start + 60, **given, **end, **fields)


def fleet(nodes=9, jobs=5):
    """Jobs that end well, the same number on each of some nodes; and the ledger's moment."""
    for node in range(nodes):
        for number in range(jobs):
            yield from job(f"well-{node}-{number}", f"n{node}", "Succeeded")
    yield f.node_observed("n0", 99, 2 * HOUR)


def told(capsys, tmp_path, events, *arguments):
    data = make_ledger(tmp_path, list(events))
    assert bursar("jobs", "hours", "--by", "node", "--data", data, *arguments) == 0
    return capsys.readouterr().out


def rows(capsys, tmp_path, events, *arguments):
    return json.loads(told(capsys, tmp_path, events, "-o", "json", *arguments))


def bad_node(jobs=4, **fields):
    for number in range(jobs):
        yield from job(f"bad-{number}", "bad", "Failed", "Succeeded", **fields)


def test_a_node_whose_jobs_fail_more_than_on_the_others_is_named_and_stands_first(capsys, tmp_path):
    data = make_ledger(tmp_path, [*fleet(), *bad_node()])

    assert bursar("jobs", "hours", "--by", "node", "--data", data) == 0
    text = capsys.readouterr().out
    assert "node bad: 4 of 4 jobs failed on it in 30 days (of 1 namespace)" in text
    assert "on the other nodes 0 of 45" in text
    assert bursar("jobs", "hours", "--by", "node", "--data", data, "-o", "json") == 0
    first, *others = json.loads(capsys.readouterr().out)
    figures = ("node", "attempts", "failures", "jobs", "failed_jobs", "failed_ratio", "other_ratio")
    assert [first[name] for name in figures] == ["bad", 8, 4, 4, 4, 1.0, 0.0]
    assert (first["is_outlier"], any(one["is_outlier"] for one in others)) == (True, False)


def test_a_job_that_fails_again_and_again_on_one_node_does_not_name_it(capsys, tmp_path):
    loop = job("loop", "n3", *["Failed"] * 30, "Running")
    found = rows(capsys, tmp_path, [*fleet(), *loop])
    by_node = {row["node"]: row for row in found}

    assert (by_node["n3"]["failures"], by_node["n3"]["failed_jobs"]) == (30, 1)
    assert not any(row["is_outlier"] for row in found)


def test_jobs_that_fail_wherever_they_run_name_no_node(capsys, tmp_path):
    broken = [
        job(f"broken-{n}-{k}", f"n{n}", "Failed", "Failed") for n in range(9) for k in range(4)
    ]

    text = told(capsys, tmp_path, [*fleet(), *itertools.chain.from_iterable(broken)])

    assert "jobs failed on it" not in text


def test_failures_before_the_days_that_count_are_forgotten(capsys, tmp_path):
    later = [f.node_observed("n0", 100, (DAYS + 1) * DAY)]
    found = rows(capsys, tmp_path, [*fleet(), *bad_node(), *later])

    assert {row["failed_jobs"] for row in found} == {0}


@pytest.mark.parametrize(
    ("disruption", "failures"),
    [
        ("DeletionByPodGC", 4), ("DeletionByTaintManager", 4), ("DeletionByDeviceTaintManager", 4), ("TerminationByKubelet", 4),
        ("PreemptionByScheduler", 0), ("EvictionByEvictionAPI", 0), ("", 4),
    ],
)  # fmt: skip
def test_what_somebody_wished_is_no_failure_of_the_node(capsys, tmp_path, disruption, failures):
    found = rows(capsys, tmp_path, [*fleet(), *bad_node(disruption=disruption)])

    assert next(row for row in found if row["node"] == "bad")["failures"] == failures


def test_of_one_namespace_its_jobs_alone_are_counted(capsys, tmp_path):
    data = make_ledger(tmp_path, [*fleet(), *bad_node(namespace="other")])
    command = ("jobs", "hours", "--by", "node", "--data", data, "-o", "json")

    assert bursar(*command, "-n", "ns") == 0
    assert {row["failed_jobs"] for row in json.loads(capsys.readouterr().out)} == {0}
    assert bursar(*command, "-n", "other") == 0
    (row,) = json.loads(capsys.readouterr().out)
    # There is no other node to be compared with.
    assert (row["failed_jobs"], row["other_ratio"], row["is_outlier"]) == (4, None, False)


def test_a_job_on_such_a_node_is_told_so(capsys, tmp_path):
    goes_on = job("long", "bad", "Running")
    elsewhere = job("lucky", "n1", "Running")
    data = make_ledger(tmp_path, [*fleet(), *bad_node(), *goes_on, *elsewhere])

    def steps(name):
        assert bursar("why", name, "--data", data, "--cluster", f.CLUSTER, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)
        return [(one["reason"], one["numbers"]) for one in found if one["step"] == "node"]

    assert steps("ns/lucky-worker-0-1") == []
    ((reason, said),) = steps("ns/long-worker-0-1")
    assert (reason, said.partition(":")[0]) == ("fails_more", "bad")
    assert "4 of 5 jobs failed on it" in said


def node(name, jobs, failed, cluster="c"):
    return NodeFailures(cluster, name, jobs, failed, jobs, failed, 1)


@pytest.mark.parametrize(
    ("jobs", "failed", "others", "named"),
    [
        # Fewer failures than that are never named, however well it is elsewhere.
        (2, 2, (1000, 0), False), (3, 3, (1000, 0), True),
        # Few jobs elsewhere prove nothing.
        (3, 3, (3, 0), False), (20, 20, (1, 0), False),
        # Less than twice the share of the others, and what chance explains.
        (1000, 300, (1000, 200), False), (1000, 500, (1000, 200), True), (10, 3, (100, 10), False),
    ],
)  # fmt: skip
def test_what_makes_a_node_worth_a_note(jobs, failed, others, named):
    one, _ = compared([node("a", jobs, failed), node("b", *others)])

    assert one.is_outlier == named


def test_of_many_nodes_that_are_alike_one_that_was_unlucky_is_not_named():
    """Beside one large node five of ten are more than chance; of a thousand nodes some have as many."""
    alone, _ = compared([node("a", 10, 5), node("b", 9_990, 799)])
    among, *_ = compared([node("a", 10, 5), *(node(f"n{n}", 10, int(n < 799)) for n in range(999))])

    assert (alone.other_jobs, alone.other_failed_jobs) == (
        among.other_jobs,
        among.other_failed_jobs,
    )
    assert (alone.is_outlier, among.is_outlier) == (True, False)


def test_nodes_of_another_cluster_are_not_the_others():
    one, _ = compared([node("a", 9, 9), node("b", 1000, 0, cluster="d")])

    assert (one.other_ratio, one.is_outlier) == (None, False)


@pytest.mark.parametrize(
    ("least", "drawn", "failed", "total"),
    [(0, 5, 4, 9), (3, 5, 4, 9), (2, 4, 30, 40), (5, 5, 5, 5), (1, 9, 3, 9)],
)
def test_the_tail_is_the_share_of_all_ways_to_meet_so_many(least, drawn, failed, total):
    ways = [set(range(failed)) & set(one) for one in itertools.combinations(range(total), drawn)]

    assert tail(least, drawn, failed, total) == pytest.approx(
        sum(len(one) >= least for one in ways) / len(ways)
    )


def test_of_very_many_jobs_the_tail_is_still_a_chance():
    assert 0 <= tail(600, 100_000, 5_000, 1_000_000) < 1e-4
    assert tail(400, 100_000, 5_000, 1_000_000) == pytest.approx(1)


def test_no_job_at_all_names_nothing():
    assert job_nodes.notes(compared([])) == []
