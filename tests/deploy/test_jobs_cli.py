"""`bursar jobs` on a ledger of one TFJob that ran beside a shadow."""

import json

import pytest

from bus.errors import PermissionDeniedError
from bus.events.workloads import ReplicaSpec, Training, TrainingSpec
from deploy.cli.program.exits import Exit
from reactors.jobs.shape import JOB
from tests import factories as said
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.jobs.running import CORE, Running
from tests.reactors.jobs.running import job as running_job
from tests.reactors.jobs.scene import EXIT, Training4, begun
from tests.simulation.loop import simulate


async def lived():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137})
    await scene.lose_pod(1)
    await scene.see_pod(2)
    return list(scene.transport.events)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("jobs"), simulate(lived()))


def told(capsys, *arguments):
    assert bursar(*arguments, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_job_is_listed_with_the_steps_that_are_due(capsys, data):
    (row,) = told(capsys, "jobs", "list", "--data", data)

    assert (row["namespace"], row["name"], row["state"]) == ("ns", "train", "Running")
    assert (row["due"], row["replaced"]) == ("create 1, delete 1: out_of_range", 1)


def test_a_job_is_shown_pod_by_pod_with_its_variables(capsys, data):
    first, second, beyond = told(capsys, "jobs", "show", "ns/train", "--data", data)

    assert (first["phase"], second["step"]) == ("Running", "create")
    assert (beyond["name"], beyond["step"]) == ("train-worker-2", "delete: out_of_range")
    assert json.loads(first["environment"]["TF_CONFIG"])["task"] == {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("pods", "shown", "said"),
    [(600, 600, "variables are left out above 500 pods"), (2**31 - 1, 0, "more than 10,000")],
    ids=str,
)
def test_a_job_of_very_many_pods_is_shown_in_bounds(capsys, tmp_path, pods, shown, said):
    data = make_ledger(tmp_path, simulate(_large(pods)))
    rows = told(capsys, "jobs", "show", "ns/train", "--data", data)
    assert bursar("jobs", "show", "ns/train", "--data", data) == 0

    assert (len(rows), any(row["environment"] for row in rows)) == (shown, False)
    assert said in " ".join(capsys.readouterr().out.split())


async def _large(pods):
    scene = Training4(replicas={"Worker": ReplicaSpec(pods)})
    await scene.begin("off")
    await scene.see_job("Created")
    return list(scene.transport.events)


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        ({"metrics": [], "minReplicas": 1, "maxReplicas": 3}, (1, 3)),
        ({"metrics": [], "maxReplicas": 3}, (3, 3)),
        ({"metrics": []}, (2, 2)),
        ({"minReplicas": 1, "maxReplicas": 3}, None),
    ],
    ids=str,
)
def test_the_autoscaler_of_a_job_that_bursar_runs_is_named_as_not_made(
    capsys, tmp_path, policy, bounds
):
    data = make_ledger(tmp_path, simulate(_elastic(policy)))
    assert bursar("jobs", "show", "ns/train", "--data", data) == 0
    shown = " ".join(capsys.readouterr().out.split())

    wanted = bounds and "minReplicas {}, maxReplicas {}".format(*bounds)
    assert ("makes no HorizontalPodAutoscaler" in shown) == (wanted is not None)
    assert (wanted or "") in shown


@pytest.mark.parametrize("marked", [True, False])
def test_the_autoscaler_of_a_job_that_its_operator_runs_is_left_to_that(capsys, tmp_path, marked):
    data = make_ledger(tmp_path, simulate(_elastic({"metrics": []}, marked=marked)))
    assert bursar("jobs", "show", "ns/train", "--data", data) == 0

    assert ("HorizontalPodAutoscaler" in capsys.readouterr().out) == marked


async def _elastic(policy, marked=True):
    world = Running()
    await world.begin()
    body = running_job(kind="PyTorchJob", marked=marked)
    body["spec"]["elasticPolicy"] = policy
    await world.submit(body)
    return list(world.transport.events)


def test_an_unknown_job_is_named(capsys, data):
    assert bursar("jobs", "show", "ns/other", "--data", data) == Exit.FAILED
    assert "ns/other" in capsys.readouterr().err


def test_two_jobs_of_one_name_are_told_apart_by_their_uids(capsys, tmp_path):
    data = make_ledger(tmp_path, simulate(_namesakes()))

    assert bursar("jobs", "show", "ns/train", "--data", data) == Exit.USAGE
    assert "TFJob j in c, TFJob k in c" in " ".join(capsys.readouterr().err.split())
    assert [row["name"] for row in told(capsys, "jobs", "show", "k", "--data", data)] == [
        "train-worker-0"
    ]


async def _namesakes():
    scene = Training4()
    await scene.see_job("Created")
    other = Training(TrainingSpec({"Worker": ReplicaSpec(1)}))
    await scene.say(
        said.workload_observed(
            "k", 1, 0, kind="TFJob", namespace="ns", name="train", training=other
        )
    )
    return list(scene.transport.events)


def test_a_job_that_bursar_runs_is_shown_attempt_by_attempt(capsys, tmp_path):
    data = make_ledger(tmp_path, simulate(_run()))
    (row,) = told(capsys, "jobs", "list", "--data", data)
    rows = told(capsys, "jobs", "show", "ns/train", "--data", data)

    assert (row["run_by"], row["due"]) == ("bursar", "create 1")
    assert [one["name"] for one in rows] == ["train-worker-0-1", "train-worker-1-2"]
    assert rows[1]["step"].startswith("create, refused: ") and "exceeded quota" in rows[1]["step"]


async def _run():
    """A worker was killed, and a quota is in the way of the next one."""
    world = Running({"worker-1-1": 137})
    await world.begin()
    await world.submit(running_job())
    await world.turns(1)
    world.api.refuses = PermissionDeniedError(message="exceeded quota: team")
    await world.turns(4)
    return list(world.transport.events)


def test_what_a_job_takes_lets_go_and_may_not_take_is_shown(capsys, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "refused").mkdir()
    data = make_ledger(tmp_path / "taken", simulate(_claimed()))
    (row,) = told(capsys, "jobs", "list", "--data", data)
    taken = {one["name"]: one["step"] for one in told(capsys, "jobs", "show", "ns/train", "--data", data)}  # fmt: skip
    data = make_ledger(tmp_path / "refused", simulate(_claimed(is_refused=True)))
    rows = told(capsys, "jobs", "show", "ns/train", "--data", data)

    assert row["due"] == "create 1, adopt 1, release 1"
    assert taken == {"old": "adopt", "train-worker-1-2": "create", "train-worker-1-1": "release"}
    refused = {one["name"]: one["step"] for one in rows}["old"]
    assert refused.startswith("adopt, refused: ") and "no right to" in refused


async def _claimed(*, is_refused=False):
    """One worker lost its labels, and the other one's place can be filled by what is there."""
    world = Running()
    await world.begin()
    await world.submit(running_job())
    await world.turns(3)
    first, second = (world.api.objects[f"{CORE}/pods/train-worker-{n}-1"] for n in (0, 1))
    metadata = {"name": "old", "namespace": "ns", "labels": first["metadata"]["labels"]}
    world.api.put(f"{CORE}/pods/old", first | {"metadata": metadata})
    world.api.drop(f"{CORE}/pods/train-worker-0-1")
    if not is_refused:
        labels = second["metadata"]["labels"] | {JOB: "mine"}
        moved = second | {"metadata": second["metadata"] | {"labels": labels}}
        world.api.put(f"{CORE}/pods/train-worker-1-1", moved)
    if is_refused:

        async def merge(path, body):
            raise PermissionDeniedError(message="no right to")

        world.api.merge = merge
    await world.watch()
    if is_refused:
        await world.turns(2)
    return list(world.transport.events)


def test_a_service_whose_name_another_has_is_shown_as_refused(capsys, tmp_path):
    data = make_ledger(tmp_path, simulate(_taken()))
    (row,) = told(capsys, "jobs", "list", "--data", data)
    rows = told(capsys, "jobs", "show", "ns/train", "--data", data)

    assert row["due"] == "service 1"
    assert rows[0]["step"].startswith("service, refused: the service train-worker-0 belongs to")
    assert rows[1]["step"] == ""


async def _taken():
    """Somebody deletes a service, and gives its name to another."""
    world = Running()
    await world.begin()
    await world.submit(running_job())
    await world.turns(2)
    path = f"{CORE}/services/train-worker-0"
    world.api.drop(path)
    world.api.put(path, {"metadata": {"name": "train-worker-0", "namespace": "ns"}})
    await world.watch()
    await world.turns(2)
    return list(world.transport.events)


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("job", [("train", 3, 1)]), ("replica", [("worker", 3, 1)]), ("cause", [("exit 137", 1, 1)]),
        ("attempt", [("exit 137", 1, 1), ("", 1, 0), ("", 1, 0)]), ("node", [("n", 3, 1)]),
    ],
)  # fmt: skip
def test_hours_are_summed_by_what_is_asked(capsys, lost, by, wanted):
    rows = told(capsys, "jobs", "hours", "--by", by, "--data", lost)
    key = {"attempt": "cause"}.get(by, by)

    assert [(row[key], row["attempts"], row["restarts"]) for row in rows] == wanted
    assert sum(row["lost_cpu_milli_s"] for row in rows) == 10_000


def test_hours_are_shown_in_hours(capsys, lost):
    assert bursar("jobs", "hours", "-n", "ns", "--data", lost) == 0
    assert "LOST-CORE-H" in capsys.readouterr().out


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("hours"), simulate(_lost()))


async def _lost():
    """A worker ran for ten seconds and was killed, and another took its place."""
    world = Running({"worker-1-1": 137})
    await world.begin()
    await world.submit(running_job())
    await world.turns(4)
    return list(world.transport.events)


def test_agreement_counts_steps_and_names_those_that_differ(capsys, data):
    rows = {row["step"]: row for row in told(capsys, "jobs", "agreement", "--data", data)}
    differing = told(capsys, "jobs", "agreement", "--differences", "--data", data)

    assert (rows["create"]["agreed"], rows["create"]["unforeseen"]) == (2, 1)
    assert [(one["what"], one["result"]) for one in differing] == [("train-worker-2", "unforeseen")]


def test_why_has_the_steps_of_a_job(capsys, data):
    steps = told(capsys, "why", "ns/train", "--cluster", "c", "--data", data)
    found = [(one["step"], one["reason"]) for one in steps]

    assert found[:2] == [("create_replica", "replica_missing")] * 2
    assert ("delete_replica", "failed_retryable") in found
    assert "train-worker-0; index 0, in shadow" in steps[0]["numbers"]
    (restarting,) = [one["numbers"] for one in steps if one["reason"] == "restarting"]
    assert "; events Normal ExitedWithCode, Warning TFJobRestarting, in shadow" in restarting


def test_nothing_is_listed_where_there_is_no_job(capsys, tmp_path):
    data = make_ledger(tmp_path, simulate(_alone()))

    assert told(capsys, "jobs", "list", "--data", data) == []
    assert told(capsys, "jobs", "agreement", "--data", data) == []


async def _alone():
    scene = Training4()
    await scene.begin()
    return list(scene.transport.events)
