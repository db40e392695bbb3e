"""What people are told of TrainJobs: amounts, and never the name of a runtime where an amount is meant."""

import json

import pytest

from bus.events.quotas import Queue
from bus.kube.kinds import QUEUE_ANNOTATION
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.admission.train_jobs import OF_TRAIN_JOB, Trainer, job_set, torch, train_job
from tests.reactors.cluster import QUOTA
from tests.simulation.loop import simulate


async def lived():
    """Of 10 cores ``runs`` has 4, in a JobSet of its name; ``waits`` wants 8."""
    async with Trainer() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 10_000}, queue=Queue(hold=True))
        await cluster.see_runtime(torch())
        await cluster.begin(train_job("runs"))
        await cluster.see_job_set(job_set("runs"))
        waits = train_job("waits", suspend=True, trainer={"numNodes": 4})
        waits["metadata"]["annotations"] = {QUEUE_ANNOTATION: "team"}
        assert (await cluster.review(waits, **OF_TRAIN_JOB)).allowed
        await cluster.see_train_job(waits)
        return cluster.transport.events


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("trainer"), simulate(lived()))


def said(capsys, *words):
    code = bursar(*words, "-o", "json")
    return code, json.loads(capsys.readouterr().out)


def test_a_job_that_waits_says_what_for(capsys, data):
    _, [row] = said(capsys, "queue", "show", "--data", data)
    _, steps = said(capsys, "why", "ns/waits", "--data", data)

    assert (row["name"], row["wanted"]["limits.cpu"]) == ("waits", 8000)
    assert "4 used + 8 asked > 10" in json.dumps(steps)


def test_what_a_job_counts_is_explained_once_with_the_job_set_of_its_name(capsys, data):
    _, rows = said(capsys, "quota", "explain", "ns/runs", "--data", data)

    assert len(rows) == len({json.dumps(row, sort_keys=True) for row in rows})
    assert not [row for row in rows if "trainer.runtime" in row["key"]]
    amounts = [(row["key"], row["amount"]) for row in rows if row["amount"]]
    assert amounts == [("limits.cpu", 4000), ("requests.cpu", 4000)]
    assert "not charged itself: TrainJob runs is" in json.dumps(rows)


@pytest.mark.parametrize(
    ("spec", "reason", "fits"),
    [
        ({"trainer": {"numNodes": 2}}, "fits", None),
        ({"trainer": {"numNodes": 9}}, "held", 3),
        ({}, "fits", None),
        ({"trainer": {"resourcesPerNode": {"limits": {"cpu": "8"}}}}, "held", None),
        ({"runtimeRef": {"name": "none"}}, "runtime-unseen", None),
        ({"podTemplateOverrides": [{}]}, "demand-unreadable", None),
    ],
)
def test_whether_a_job_would_be_admitted_is_said_before_and_with_how_many_nodes_it_would(
    capsys, data, tmp_path, spec, reason, fits
):
    made = train_job("new", **spec)
    made["metadata"]["labels"] = {QUOTA: "team"}
    made["spec"]["runtimeRef"].pop("kind", None)
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **made}))  # fmt: skip
    code, [row] = said(capsys, "quota", "check", file, "--data", data)

    assert (row["reason"], code == 0) == (reason, reason in ("fits", "held"))
    if fits:
        assert (row["replicas_path"], row["replicas_that_fit"]) == ("spec.trainer.numNodes", fits)
