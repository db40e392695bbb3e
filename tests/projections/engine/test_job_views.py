"""Hours of training jobs by attempt and by job: to the integer those of their pods, and what restarts cost, with cause and node."""

import pytest

from bus.events.decisions import DeleteReplica
from bus.events.pods import Owner
from projections import reports
from tests import factories as f
from tests.projections.attempts import decided, lived, pod
from tests.projections.engine.archives import fill, sequenced


@pytest.fixture
def ask(store):
    fill(store, sequenced(list(lived())))

    def asked(query):
        with store.engine.connect() as connection:
            return [dict(row._mapping) for row in connection.exec_driver_sql(query)]

    return asked


def test_an_attempt_that_was_begun_again_is_lost_with_its_cause_and_node(ask):
    columns = "slot, attempt, is_lost, cause, node, core_hours, gpu_hours"
    found = ask(f"SELECT {columns} FROM v1_attempts ORDER BY slot, attempt")

    assert [tuple(row.values()) for row in found][:3] == [
        ("0", 1, 1, "exit 137", "a", 1.0, 2.0), ("0", 2, 0, "", "b", 1.0, 2.0), ("1", 1, 1, "evicted", "c", 0.5, 1.0),
    ]  # fmt: skip
    assert [(row["slot"], row["cause"]) for row in found][4:] == [("2", "deleted"), ("2", ""), ("3", "")]  # fmt: skip


def test_hours_of_attempts_and_of_jobs_are_those_of_the_pods_to_the_integer(ask):
    sums = "SUM(cpu_milli_s) AS cpu, SUM(gpu_milli_s) AS gpu, SUM(memory_mib_s) AS memory"
    (pods,) = ask(f"SELECT {sums} FROM v1_held_segments WHERE uid <> 'other'")
    (attempts,) = ask(f"SELECT {sums} FROM v1_attempts")
    (jobs,) = ask(f"SELECT {sums} FROM v1_jobs")

    assert dict(pods) == dict(attempts) == dict(jobs)


def test_a_report_of_attempts_has_what_the_view_has(ask, store):
    columns = "SUM(cpu_milli_s) AS cpu, SUM(gpu_milli_s) AS gpu"
    viewed = ask(f"SELECT job, attempt, cause, {columns} FROM v1_attempts GROUP BY 1, 2, 3")
    question = reports.Question(by=("job", "attempt", "cause"), as_of_s=f.START_S + 9_000)
    with store.engine.connect() as connection:
        rows = reports.report(connection, question)
    told = {one.key: (one.sums.cpu_milli_s, one.sums.gpu_milli_s) for one in rows if one.key[0]}

    assert told == {
        (one["job"], one["attempt"], one["cause"] or None): (one["cpu"], one["gpu"])
        for one in viewed
    }


def test_a_job_says_what_its_restarts_cost(ask):
    columns = "job, job_uid, slots, attempts, restarts, lost_cpu_milli_s, lost_gpu_hours"
    (job,) = ask(f"SELECT {columns} FROM v1_jobs")

    assert tuple(job.values()) == ("train", "j", 4, 7, 3, 6_000_000, 2 * 6000 / 3600)


@pytest.mark.parametrize(
    ("reason", "phase", "cause", "is_failed"),
    [
        ("DeletionByPodGC", "Failed", "node lost", 1),
        ("DeletionByPodGC", "Running", "node lost", 1),
        ("DeletionByTaintManager", "Running", "node tainted", 1),
        ("DeletionByDeviceTaintManager", "Running", "device tainted", 1),
        ("TerminationByKubelet", "Failed", "ended by kubelet", 1),
        ("PreemptionByScheduler", "Failed", "preempted", 0),
        ("EvictionByEvictionAPI", "Running", "evicted", 0),
        # It ended well before others could end it.
        ("DeletionByTaintManager", "Succeeded", "node tainted", 0),
        ("", "Failed", "exit 137", 1),
        ("", "Running", "deleted", 0),
    ],
)
@pytest.mark.parametrize("is_last_without", [False, True])
def test_who_else_ended_an_attempt_is_its_cause(
    store, reason, phase, cause, is_failed, is_last_without
):
    """Also where its container says a code, and where the pod's last state does not say it any more."""
    events = list(pod("w01", 0, 1, 0, 3600, phase))
    if reason:
        said = list(pod("w01", 0, 1, 0, 3600, phase, disruption=reason, disrupted=3600))
        events[1:] = said[1:2] + events[2:] if is_last_without else said[1:]
    if cause == "exit 137":
        numbers = {"exit_code": 137}
        events.append(
            decided(
                DeleteReplica, "w01", "failed_retryable", job="j", type="worker", numbers=numbers
            )
        )
    fill(store, sequenced([*events, *pod("w02", 0, 2, 3700, 7300, node="b")]))
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT uid, cause, is_failed FROM v1_attempts").all()

    assert dict((uid, rest) for uid, *rest in found) == {"w01": [cause, is_failed], "w02": ["", 0]}


def _named(kind, uid, namespace="ns"):
    """Two pods in one slot by their labels, with an owner of one's own choice."""
    for index in range(2):
        name = f"{uid}{index}"
        labels = {"job-name": "train", "replica-type": "worker", "replica-index": "0"}
        yield f.pod_observed(
            name, 1, index, name=name, namespace=namespace, cpu="1", owner=Owner(kind, "train", uid),
            labels={f"training.kubeflow.org/{name}": value for name, value in labels.items()},
        )  # fmt: skip


@pytest.mark.parametrize("end", [0, 1])
def test_attempts_that_began_in_one_second_are_in_the_order_of_their_ends_and_names(store, end):
    """Stamps of pods are whole seconds, and uids come in any order."""
    again = [*pod("w01", 0, 10, 0, 1), *pod("w03", 0, 9, 0, end, "Failed")]
    fill(store, sequenced([*again, *pod("w02", 1, 1, 0, None), *pod("w04", 1, 2, 0, 0, "Failed")]))
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT uid, attempt, is_lost FROM v1_attempts").all()

    assert set(map(tuple, rows)) == {("w03", 1, 1), ("w01", 2, 0), ("w04", 1, 1), ("w02", 2, 0)}


def test_pods_that_only_carry_the_labels_of_a_job_are_none_of_its_attempts(store):
    """Of a Deployment with those labels, and of another namespace with the uid of another's job as its owner."""
    seen = {"kind": "TFJob", "name": "train", "namespace": "ns"}
    events = [
        f.workload_observed("j", 1, 0, **seen),
        *pod("w01", 0, 1, 0, 3600),
        *_named("ReplicaSet", "r"),
        *_named("TFJob", "j", "another"),
        f.workload_observed("q", 1, 0, **seen | {"kind": "ReplicaSet"}),
        *_named("TFJob", "q"),
    ]
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        attempts = connection.exec_driver_sql("SELECT uid FROM v1_attempts").scalars().all()
    assert attempts == ["w01"]


def test_a_job_is_one_row_whatever_its_pods_say_of_its_name(store):
    events = [*pod("w01", 0, 1, 0, 3600), *_named("TFJob", "j", "another")]
    events += [
        f.pod_observed(
            "w11", 1, 0, owner=Owner("TFJob", "train", "j"), cpu="1",
            labels={"training.kubeflow.org/job-name": "b", "training.kubeflow.org/replica-type": "worker"},
        )
    ]  # fmt: skip
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT job_uid, attempts FROM v1_jobs").all()
        slots = connection.exec_driver_sql("SELECT uid, is_lost FROM v1_attempts").all()
    assert [tuple(row) for row in rows] == [("j", 4)]
    assert dict(map(tuple, slots)) == {"w01": 0, "w11": 0, "j0": 1, "j1": 0}


def test_pods_of_an_mpi_job_without_an_index_are_in_slots_by_their_names(store):
    events = []
    for number, name in enumerate(("launcher", "worker-0", "worker-1", "worker-1")):
        labels = {f"training.kubeflow.org/{key}": "train" for key in ("job-name", "replica-type")}
        events.append(
            f.pod_observed(
                f"p{number}", 1, number, name=f"train-{name}", created=number, labels=labels,
                owner=Owner("MPIJob", "train", "m"),
            )
        )  # fmt: skip
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT uid, attempt, is_lost FROM v1_attempts").all()

    assert sorted(map(tuple, found)) == [("p0", 1, 0), ("p1", 1, 0), ("p2", 1, 1), ("p3", 2, 0)]


def _of_set(uid, job, completion, begin, end, phase="Succeeded"):
    """A pod of the JobSet ``train``, in its replicated job ``node``."""
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "0"}
    if completion is not None:
        labels["batch.kubernetes.io/job-completion-index"] = completion
    given = {
        "name": f"train-node-0-{uid}", "labels": labels, "owner": Owner("Job", "train-node-0", job), "created": begin,
        "node": "a", "cpu": "1", "gpu": 2,
    }  # fmt: skip
    yield f.pod_observed(uid, 1, begin, phase="Running", **given)
    yield f.pod_observed(uid, 2, end, phase=phase, finished=(end,), **given)
    yield f.pod_vanished(uid, 3, end, phase=phase, finished=(end,), **given)


def _train_job(namespace="ns"):
    """A JobSet that a TrainJob made, and its Job, which was made anew once."""
    above = Owner("TrainJob", "train", "t")
    seen = {"kind": "JobSet", "name": "train", "namespace": namespace, "owner": above}
    yield f.workload_observed("s", 1, 0, **seen)
    for job in ("j1", "j2"):
        owner = Owner("JobSet", "train", "s")
        yield f.workload_observed(job, 1, 0, kind="Job", name="train-node-0", owner=owner)


def test_a_train_job_is_accounted_by_its_jobset_and_what_its_restart_lost_too(store):
    events = [
        *_train_job(),
        *_of_set("p1", "j1", "0", 0, 3600, "Failed"),
        *_of_set("p2", "j1", "1", 0, 3600, "Running"),
        *_of_set("p3", "j2", "0", 3700, 7300),
        *_of_set("p4", "j2", "1", 3700, 7300),
        f.pod_observed("other", 1, 0, owner=Owner("Job", "train-node-0", "j1"), cpu="7"),
    ]
    fill(store, sequenced(events))
    columns = "uid, workload, job, job_uid, replica, slot, attempt, cause"
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT {columns} FROM v1_attempts ORDER BY uid").all()
        (job,) = connection.exec_driver_sql(
            "SELECT slots, restarts, gpu_hours, lost_gpu_hours FROM v1_jobs"
        )

    named = ("TrainJob/train", "train", "s", "node")
    assert [tuple(row) for row in found] == [
        ("p1", *named, "0-0", 1, "failed"), ("p2", *named, "0-1", 1, "deleted"),
        ("p3", *named, "0-0", 2, ""), ("p4", *named, "0-1", 2, ""),
    ]  # fmt: skip
    assert tuple(job) == (2, 2, 8.0, 4.0)


def test_pods_of_a_jobset_without_an_index_are_attempts_at_slots_of_their_own(store):
    events = [*_train_job(), *_of_set("p1", "j1", None, 0, 60), *_of_set("p2", "j1", None, 0, 60)]
    fill(store, sequenced(events))
    with store.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT slot, is_lost FROM v1_attempts").all()

    assert sorted(map(tuple, found)) == [("0-train-node-0-p1", 0), ("0-train-node-0-p2", 0)]


def test_a_jobset_of_another_namespace_has_no_attempts_here(store):
    fill(store, sequenced([*_train_job("another"), *_of_set("p1", "j1", "0", 0, 60)]))
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT uid FROM v1_attempts").all() == []
