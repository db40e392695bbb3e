"""Each kind of training job by its own rules: variables, who decides about success, and what holds where nothing is said."""

import pytest

from bus.events.workloads import ReplicaSpec, TrainingSpec
from reactors.jobs.effectors.bodies import job_in
from reactors.jobs.passes import reconciled
from reactors.jobs.rendezvous import environment
from reactors.jobs.shape import KINDS, PREFIX, Job, Rules, SeenJob, SeenPod, Slot
from tests.reactors.jobs.running import Running, job
from tests.reactors.jobs.scene import UID, Training4

METADATA = {"metadata": {"name": "train", "namespace": "ns", "uid": "j", "resourceVersion": "1"}}
BOTH = {"Master": 1, "Worker": 2}
ONE = {"Worker": 2}
PADDLE = {"PYTHONUNBUFFERED": "0", "PADDLE_JOB_ID": "train"}
#: Kind, replicas, slot, and its variables.
VARIABLES = {
    "an XGBoost master": ("XGBoostJob", BOTH, ("Master", 0), {
        "PYTHONUNBUFFERED": "0", "MASTER_ADDR": "train-master-0", "MASTER_PORT": "9999", "WORLD_SIZE": "3", "RANK": "0",
        "WORKER_PORT": "9999", "WORKER_ADDRS": "train-worker-0,train-worker-1"}),
    "an XGBoost worker's rank follows the masters": ("XGBoostJob", BOTH, ("Worker", 1), {
        "PYTHONUNBUFFERED": "0", "MASTER_ADDR": "train-master-0", "MASTER_PORT": "9999", "WORLD_SIZE": "3", "RANK": "2",
        "WORKER_PORT": "9999", "WORKER_ADDRS": "train-worker-0,train-worker-1"}),
    "a Paddle worker 0 that is the meeting point": ("PaddleJob", ONE, ("Worker", 0), PADDLE | {
        "PADDLE_NNODES": "2", "PADDLE_MASTER": "$(POD_IP_DUMMY):36543"}),
    "another Paddle worker": ("PaddleJob", ONE, ("Worker", 1), PADDLE | {
        "PADDLE_NNODES": "2", "PADDLE_MASTER": "train-worker-0:36543"}),
    "a Paddle worker 0 beside a master": ("PaddleJob", BOTH, ("Worker", 0), PADDLE | {
        "PADDLE_NNODES": "3", "PADDLE_MASTER": "train-master-0:36543", "PADDLE_TRAINER_NUM": "1"}),
    "a Paddle master": ("PaddleJob", BOTH, ("Master", 0), PADDLE | {
        "PADDLE_NNODES": "3", "PADDLE_MASTER": "$(POD_IP_DUMMY):36543", "PADDLE_SERVER_NUM": "1"}),
    "a JAX worker": ("JAXJob", ONE, ("Worker", 1), {
        "PYTHONUNBUFFERED": "1", "COORDINATOR_ADDRESS": "train-worker-0", "COORDINATOR_PORT": "6666", "NUM_PROCESSES": "2",
        "PROCESS_ID": "1"}),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "types", "slot", "wanted"), VARIABLES.values(), ids=VARIABLES)
def test_a_pod_finds_the_others_by_its_variables(kind, types, slot, wanted):
    replicas = {type: ReplicaSpec(count) for type, count in types.items()}
    one = Job("u", kind, "ns", "train", TrainingSpec(replicas))

    assert environment(one, Slot(*slot, "p")) == wanted


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_with_replica_types_in_another_case_runs_to_its_end(kind):
    world = Running()
    await world.begin()
    await world.submit(job(kind=kind, replicas={"wORKER": (2, "Never")}))
    await world.turns(2)
    (container,) = world.api.of("pods")["train-worker-1-1"]["spec"]["containers"]
    wanted = environment(
        Job("u", kind, "ns", "train", TrainingSpec({"Worker": ReplicaSpec(2)})),
        Slot("Worker", 1, ""),
    )

    assert {one["name"]: one["value"] for one in container["env"]} == wanted
    world.is_over = True
    await world.turns(5)
    assert world.conditions(kind=kind)[-1] == "Succeeded"


@pytest.mark.parametrize("kind", [one for one in KINDS if not KINDS[one].is_strict])
def test_a_job_with_replica_types_in_another_case_ends_by_the_operators_rules(kind):
    found = job(kind=kind, replicas={"wORKER": (1, "")}, marked=False)
    one = job_in(kind, found | METADATA)
    done = SeenPod("train-worker-0", "p", "worker", "0", "Succeeded", exit_code=0)

    assert reconciled(one, SeenJob((done,)), 0, Rules()).status.is_true("Succeeded")


async def test_a_recorded_job_of_an_earlier_version_has_the_names_of_its_kind():
    world = Training4(replicas={"worker": ReplicaSpec(2), "PS": ReplicaSpec(1)})
    await world.begin()
    await world.see_job()

    assert list(world.state.jobs[UID].job.spec.replicas) == ["PS", "Worker"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_of_each_kind_runs_to_its_end(kind):
    world = Running({"worker-1-1": 137})
    await world.begin()
    leader = {"Master": (1, "ExitCode")} if "Master" in KINDS[kind].types else {}
    await world.submit(job(kind=kind, replicas={**leader, "Worker": (2, "ExitCode")}))
    await world.turns(4)
    assert "train-worker-1-2" in world.api.of("pods")

    world.is_over = True
    await world.turns(5)
    assert world.conditions(kind=kind)[-1] == "Succeeded"


async def test_a_pod_names_its_own_address_where_others_meet_at_it():
    world = Running()
    await world.begin()
    await world.submit(job(kind="PaddleJob"))
    await world.work()
    (container,) = world.api.of("pods")["train-worker-0-1"]["spec"]["containers"]
    names = [one["name"] for one in container["env"]]

    assert names.index("POD_IP_DUMMY") < names.index("PADDLE_MASTER")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_status_names_the_pods_of_each_type_where_the_kind_is_scaled(kind):
    """As the operator writes it, of PyTorchJob, PaddleJob and JAXJob."""
    world = Running()
    await world.begin()
    await world.submit(job(kind=kind))
    await world.turns(2)
    (found,) = (one for one in world.api.objects.values() if one["kind"] == kind)
    labels = world.api.of("pods")["train-worker-0-1"]["metadata"]["labels"]
    names = ("job-name", "operator-name", "replica-type")
    wanted = ",".join(f"{PREFIX}{name}={labels[PREFIX + name]}" for name in names)

    selector = found["status"]["replicaStatuses"]["Worker"].get("selector")
    assert selector == (wanted if kind in ("PyTorchJob", "PaddleJob", "JAXJob") else None)
