"""Training jobs that Bursar runs, under a quota with a queue and a budget, on a real API server: each part of the way at once.

A job that does not fit makes no pod before its turn; while it runs its budget is committed up to its deadline; what its attempts
held is what its pods held.
"""

import json

import pytest

from tests.acceptance.admission_site import LABEL, Site, quota, workload
from tests.acceptance.jobs_scene import Scene
from tests.cluster.api import eventually
from tests.cluster.training import CRDS, job, path_of

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(240),
]  # fmt: skip

MANIFESTS = CRDS.parents[1]
#: Seconds that a job may run, and milli-cores that all of its pods hold.
DEADLINE_S, MILLI = 3600, 4000


@pytest.fixture
def site(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True)
    for path in (MANIFESTS / "training" / "jobs.yaml", CRDS):
        plane.kubectl("apply", "--server-side", "-f", str(path))
    site = Site(plane, tmp_path)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    plane.create_nodes(3)
    site.environment = {"BURSAR_JOBS__MODE": "on", "BURSAR_JOBS__POLICY__RUNS": "all"}
    site.start("up")
    site.until(site.registered)
    hard = {"limits.cpu": "6", "cash/limits.cpu": "100"}
    team = quota("team", hard, queue={"hold": True})
    site.until(lambda: "created" in site.apply(team))
    site.until(lambda: "status" in site.quota())
    yield site
    site.stop()


class Governed(Scene):
    """Jobs of two pods with two cores each, in the quota of a team."""

    def submits(self, name, kind, **fields):
        body = job(name, kind, marked=False, activeDeadlineSeconds=DEADLINE_S, **fields)
        body["metadata"]["labels"] = {LABEL: "team"}
        specs = next(one for key, one in body["spec"].items() if key.endswith("ReplicaSpecs"))
        for spec in specs.values():
            for container in spec["template"]["spec"]["containers"]:
                container["resources"] = {"limits": {"cpu": "2"}}
        self.api.request("POST", path_of(kind), body)

    def is_held(self, name, kind):
        return self.api.request("GET", f"{path_of(kind)}/{name}")["spec"]["runPolicy"].get(
            "suspend"
        )


def asked(site, *arguments):
    """The rows that a command of `bursar` prints."""
    done = site.ask(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_job_is_admitted_whole_waits_without_pods_commits_its_budget_and_is_booked_by_attempt(
    site,
):
    scene = Governed(site.plane)
    both = {"Master": (1, "OnFailure"), "Worker": (1, "OnFailure")}
    scene.submits("first", "PyTorchJob", replicas=both)
    # Charged whole as soon as it is there, whatever pods it has by now.
    assert "over-quota" in site.apply(workload("Deployment", "beside", 3))
    scene.runs("first-master-0-1", "first-worker-0-1")
    scene.submits("second", "TFJob", replicas={"Worker": (2, "ExitCode")})
    assert scene.is_held("second", "TFJob") is True
    (waits,) = eventually(lambda: asked(site, "queue", "show", "team"), seconds=30)
    assert (waits["name"], waits["deficits"][0]["used"]) == ("second", MILLI)

    def committed():
        (found,) = asked(site, "budget", "list")
        return 0 < found["committed"] <= MILLI * DEADLINE_S and found

    eventually(committed, seconds=60)
    assert not [name for name in scene.pods() if name.startswith("second")]
    scene.ends(0, "first-master-0-1", "first-worker-0-1")
    scene.waits_for("first", "PyTorchJob", "Succeeded")
    scene.runs("second-worker-0-1", "second-worker-1-1")
    assert {name for name, _ in scene.made if name.startswith("first")} == {
        "first-master-0-1", "first-worker-0-1",
    }  # fmt: skip

    scene.ends(137, "second-worker-1-1")
    scene.runs("second-worker-1-2")
    scene.ends(0, "second-worker-0-1", "second-worker-1-2")
    scene.waits_for("second", "TFJob", "Succeeded")

    check_books(site)


def check_books(site):
    """Each attempt is booked, and what a job held is what its pods held, to the integer."""

    def booked():
        rows = asked(site, "sql", "SELECT name, job, attempt, phase, end_at FROM v1_attempts")
        return len(rows) == 5 and all(one["end_at"] for one in rows) and rows

    rows = eventually(booked, seconds=60)
    assert sorted((one["name"], one["attempt"]) for one in rows) == [
        ("first-master-0-1", 1), ("first-worker-0-1", 1),
        ("second-worker-0-1", 1), ("second-worker-1-1", 1), ("second-worker-1-2", 2),
    ]  # fmt: skip
    sums = asked(
        site, "sql", "SELECT job, cpu_milli_s, attempts, restarts FROM v1_jobs ORDER BY job"
    )
    by_pod = asked(
        site, "sql",
        "SELECT a.job, COALESCE(SUM(s.cpu_milli_s), 0) AS cpu FROM v1_attempts a "
        "LEFT JOIN v1_held_segments s ON s.uid = a.uid GROUP BY 1 ORDER BY 1",
    )  # fmt: skip
    assert [(one["job"], one["cpu_milli_s"]) for one in sums] == [
        (one["job"], one["cpu"]) for one in by_pod
    ]
    assert [(one["attempts"], one["restarts"]) for one in sums] == [(2, 0), (3, 1)]
