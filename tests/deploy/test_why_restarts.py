"""`bursar why` of a training job: what a restart would lose now, and when its steps will be done at the rate that it says."""

import json

import pytest

from bus.clock import SECOND_US
from bus.events.pods import Owner
from deploy.cli.explaining.restarts import left, steps_in
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger

HOUR = 3600


def job(at, steps, version=1):
    notes = {} if steps is None else {"bursar.io/steps": steps}
    return f.workload_observed("j", version, at, kind="TFJob", name="train", annotations=notes)


def pod(index, begin, version=1, at=None, **more):
    labels = {"job-name": "train", "replica-type": "worker", "replica-index": str(index)}
    return f.pod_observed(
        f"w{index}", version, begin if at is None else at, name=f"train-worker-{index}-1", created=begin, node="a",
        owner=Owner("TFJob", "train", "j"), cpu="2", gpu=4,
        labels={f"training.kubeflow.org/{k}": v for k, v in labels.items()}, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two pods of a job run, one has ended, and its steps were said five times; a pod of no job runs beside."""
    said = [(0, "800/1000"), (600, "900/1000"), (1200, "0/1000"), (4800, "100/1000"), (4900, "?")]
    events = [job(at, steps, version) for version, (at, steps) in enumerate(said, 1)]
    events += [pod(0, 0), pod(1, HOUR), pod(2, 0)]
    events += [pod(2, 0, 2, HOUR, phase="Succeeded", finished=(HOUR,))]
    events += [f.pod_observed("p", 1, 0, name="web", node="a", cpu="1")]
    above, owner = Owner("TrainJob", "tune", "t"), Owner("JobSet", "tune", "s")
    events += [
        f.workload_observed("s", 1, 0, kind="JobSet", name="tune", owner=above),
        f.workload_observed("k", 1, 0, kind="Job", name="tune-node-0", owner=owner),
        f.pod_observed("n", 1, 0, name="tune-node-0-0", node="a", cpu="3", owner=Owner("Job", "tune-node-0", "k")),
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("restarts")
    return make_ledger(folder, [*events, f.node_observed("a", 99, 2 * HOUR)])


def told(capsys, data, name):
    assert bursar("why", name, "--data", data, "--cluster", f.CLUSTER, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["step"]: row["numbers"] for row in rows if row["step"] in ("restart", "progress")}


def test_a_restart_loses_what_all_pods_held_until_now(capsys, data):
    cost = told(capsys, data, "ns/train")["restart"]

    assert "its 2 pods held" in cost and ": 6.0 core-hours, 12.0 GPU-hours;" in cost
    assert cost.endswith("train-worker-0-1: 4.0 core-hours, 8.0 GPU-hours")


def test_of_one_pod_it_is_what_that_pod_held(capsys, data):
    found = told(capsys, data, "ns/train-worker-1-1")

    assert list(found) == ["restart"]
    assert found["restart"].endswith(": 2.0 core-hours, 4.0 GPU-hours")


@pytest.mark.parametrize("name", ["ns/tune", "ns/tune-node-0-0"])
def test_a_train_job_is_its_jobset(capsys, data, name):
    assert told(capsys, data, name)["restart"].endswith(": 6.0 core-hours")


def test_a_pod_of_no_training_job_has_no_restart(capsys, data):
    assert told(capsys, data, "ns/web") == {}


def test_the_end_follows_from_the_rate_since_the_steps_began_anew(capsys, data):
    found = told(capsys, data, "ns/train")["progress"]

    assert found.startswith("100 of 1,000 steps; done at ")
    assert "at 100 steps an hour" in found


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], ""),
        ([(0, 5, 10)], "5 of 10 steps; how long the others take is known once it says more"),
        ([(0, 5, 10), (HOUR, 5, 10)], "5 of 10 steps; how long the others take is known once it says more"),
        ([(HOUR, 5, 10), (HOUR, 6, 10)], "6 of 10 steps; how long the others take is known once it says more"),
        ([(HOUR, 5, 10), (0, 6, 10)], "6 of 10 steps; how long the others take is known once it says more"),
        ([(0, 1, 10), (HOUR, 10, 10)], "10 of 10 steps"),
    ],
)  # fmt: skip
def test_what_says_too_little_is_not_guessed(reports, expected):
    assert left([(at * SECOND_US, *steps) for at, *steps in reports], HOUR) == expected


def test_the_slowest_of_jobs_takes_years():
    most = 10**12 - 1

    assert left([(0, 0, most), (HOUR * SECOND_US, 1, most)], HOUR).endswith("years")


@pytest.mark.parametrize(
    "text", ["", "1", "1/", "/1", "2/1", "0/0", "-1/2", "1/2/3", "1e9/2e9", "NaN/1", "٣/٤", "1/2\n", "9" * 300 + "/1", "1 /2"]
)  # fmt: skip
def test_steps_that_cannot_be_read_are_none(text):
    assert steps_in({"bursar.io/steps": text}) is None
