"""Lives of a job beside its operator, which is played by the plain walk: every step that it takes was decided before."""

import random

import pytest

from bus.events.workloads import ElasticPolicy, ReplicaCounts, ReplicaSpec, WorkloadCondition
from reactors.jobs.shape import KINDS, UNSEEN_US
from tests.factories import START, stamp
from tests.reactors.jobs.plainly import Plainly, PlainlyTrained
from tests.reactors.jobs.scene import Training4
from tests.thorough import tries

#: A pod's next phases, by chance: exit codes of a pod that fails, None = it was evicted.
ENDS = [("Succeeded", 0), ("Succeeded", 0), ("Failed", 137), ("Failed", None), ("Failed", 1)]
#: Pods that serve until somebody deletes them.
SERVING = ("PS",)
#: Seconds of a tick.
TICK_S = 10


class Beside(Training4):
    """A job whose operator and kubelets act, and a shadow that reads along. ``types``: how many pods and their policy."""

    def __init__(self, chance, kind="TFJob", types=None, **spec):
        self.types = types or {"Worker": (4, "Never")}
        replicas = {type: ReplicaSpec(*one) for type, one in self.types.items()}
        super().__init__(kind, replicas=replicas, **spec)
        self.chance = chance
        #: By type and index: attempt, phase, exit code.
        self.pods = {}
        self.known = {
            "conditions": [("Created", True)],
            "counts": {},
            "start": None,
            "completion": None,
        }
        self.attempts, self.is_gone = 0, False

    @property
    def is_over(self):
        return bool({("Succeeded", True), ("Failed", True)} & set(self.known["conditions"]))

    async def operate(self):
        """Passes of the operator until it does nothing more."""
        while not self.is_gone and await self.look():
            pass

    async def look(self):
        """One pass of the operator; whether it did anything."""
        spec = self.spec
        job = {
            "types": self.types, "deadline": spec.deadline_s, "backoff": spec.backoff_limit, "suspend": spec.suspend,
            "clean": spec.clean_pod_policy, "dynamic": False, "success": spec.success_policy,
            "kind": self.kind, "elastic": spec.elastic is not None, **self.known,
        }  # fmt: skip
        pods = [
            (type, n, phase, code, 0, False)
            for (type, n), (_, phase, code) in sorted(self.pods.items())
        ]
        walk = Plainly if self.kind == "TFJob" else PlainlyTrained
        now = int(self.at())
        one = walk(job, pods, now).run()
        for slot in one.creates:
            self.attempts += 1
            await self.move(slot, self.attempts, "Pending")
        for slot in dict.fromkeys(one.removes):
            attempt, phase, _ = self.pods.pop(slot)
            await self.lose_pod(slot[1], attempt, phase, slot[0].lower())
        new = {name: getattr(one, name) for name in self.known}
        is_new, self.known = new != self.known, new
        if is_new:
            await self.write()
        completion, ttl = self.known["completion"], spec.ttl_s
        if self.is_over and ttl is not None and completion is not None and now > completion + ttl:
            self.is_gone = True
            await self.lose_job()
        return is_new or bool(one.creates or one.removes)

    async def write(self):
        conditions = tuple(
            WorkloadCondition(name, str(held), self.reason(name, held))
            for name, held in self.known["conditions"]
        )
        counts = {type: ReplicaCounts(*one) for type, one in self.known["counts"].items()}
        await self.see_job(
            conditions=conditions, counts_of=counts, start=stamp(self.known["start"]),
            completion=stamp(self.known["completion"]),
        )  # fmt: skip

    def reason(self, name, held):
        """As the operator words it: what is False was ended by another step."""
        if held or name not in ("Suspended", "Running"):
            return f"{self.kind}{name}"
        if name == "Suspended":
            return f"{self.kind}Resumed"
        is_suspended = any(one[0] == "Suspended" for one in self.known["conditions"])
        return f"{self.kind}Suspended" if is_suspended else f"{self.kind}Running"

    async def see_job(self, *conditions, counts_of=None, **fields):
        if counts_of is not None:
            self.status["counts"] = counts_of
        await super().see_job(*conditions, **fields)

    async def move(self, slot, attempt, phase, code=None):
        self.pods[slot] = (attempt, phase, code)
        exits = {} if code is None else {KINDS[self.kind].container: code}
        await self.see_pod(slot[1], phase, attempt, slot[0].lower(), exits=exits)

    async def kubelet(self):
        """One pod goes on."""
        live = [
            slot
            for slot, (_, phase, _) in self.pods.items()
            if phase == "Pending" or (phase == "Running" and slot[0] not in SERVING)
        ]
        if not live:
            return False
        slot = self.chance.choice(sorted(live))
        attempt, phase, _ = self.pods[slot]
        end = ("Running", None) if phase == "Pending" else self.chance.choice(ENDS)
        await self.move(slot, attempt, *end)
        return True

    async def lives(self, turns=60):
        """Kubelets, the operator and time go on, until all that was decided must have been seen."""
        for _ in range(turns):
            await self.operate()
            await self.tick()
            await self.operate()
            if not await self.kubelet():
                break
        await self.operate()

    async def rests(self):
        """Until what the operator did not do counts as missed."""
        for _ in range(UNSEEN_US // 1_000_000 // TICK_S + 2):
            await self.tick()
            await self.operate()

    def differences(self):
        return [(one.step, one.what, one.result) for one in self.state.agreements.differences]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "PaddleJob", "JAXJob"])
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
@pytest.mark.parametrize("seed", range(5))
async def test_the_operator_takes_no_step_that_was_not_decided(policy, seed, kind):
    chance = random.Random(f"{policy}/{seed}")
    life = Beside(chance, kind, {"Worker": (4, policy)})
    await life.begin()
    await life.see_job("Created")
    await life.lives()
    found = {result for _, result in life.agreed}

    # The other kinds have no completion time where an exit code failed them.
    assert life.is_over
    assert (found, life.differences()) == ({"agreed"}, [])
    assert life.status["completion"] is None or START < life.status["completion"]


#: Jobs of several types, and of kinds and policies beside those above.
WIDER = {
    "chief": ("TFJob", {"Chief": (1, "OnFailure"), "PS": (2, "Never"), "Worker": (3, "OnFailure")}, {}),
    "chief by exit code": ("TFJob", {"Chief": (1, "ExitCode"), "PS": (1, "OnFailure"), "Worker": (2, "ExitCode")}, {}),
    "master and evaluator": ("TFJob", {"Master": (1, "Never"), "Evaluator": (1, "OnFailure"), "Worker": (2, "OnFailure")}, {}),
    "all workers": ("TFJob", {"PS": (1, "OnFailure"), "Worker": (3, "OnFailure")}, {"success_policy": "AllWorkers"}),
    "pytorch master": ("PyTorchJob", {"Master": (1, "OnFailure"), "Worker": (3, "OnFailure")}, {}),
    "elastic": ("PyTorchJob", {"Worker": (4, "OnFailure")}, {"elastic": ElasticPolicy()}),
    "elastic by exit code": ("PyTorchJob", {"Worker": (4, "ExitCode")}, {"elastic": ElasticPolicy()}),
    "xgboost": ("XGBoostJob", {"Master": (1, "ExitCode"), "Worker": (2, "ExitCode")}, {}),
    "xgboost that fails": ("XGBoostJob", {"Master": (1, "Never"), "Worker": (2, "Never")}, {}),
    "paddle master": ("PaddleJob", {"Master": (1, "OnFailure"), "Worker": (2, "OnFailure")}, {}),
    "jax": ("JAXJob", {"Worker": (3, "ExitCode")}, {}),
}  # fmt: skip
#: What else a run policy may say.
POLICIES = {
    "nothing": {}, "cleans all": {"clean_pod_policy": "All"}, "cleans what runs": {"clean_pod_policy": "Running"},
    "deadline": {"deadline_s": 35}, "backs off": {"backoff_limit": 0}, "ends itself": {"ttl_s": 20},
    "deadline and ttl": {"deadline_s": 35, "ttl_s": 20, "clean_pod_policy": "All"},
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("name", sorted(WIDER))
@pytest.mark.parametrize("seed", range(tries(1, 10)))
async def test_no_step_of_wider_lives_was_not_decided_and_none_that_was_is_missed(
    name, policy, seed
):
    kind, types, spec = WIDER[name]
    life = Beside(random.Random(f"{name}/{policy}/{seed}"), kind, types, **spec, **POLICIES[policy])
    await life.begin()
    await life.see_job("Created")
    await life.lives()
    await life.rests()

    assert ({result for _, result in life.agreed}, life.differences()) == ({"agreed"}, [])
    assert life.agreed.get(("delete_job", "agreed"), 0) == life.is_gone


@pytest.mark.parametrize("name", ["chief", "elastic"])
async def test_an_operator_that_leaves_out_what_it_should_delete_is_found_out(name):
    """So the lives above could fail."""
    kind, types, spec = WIDER[name]
    life = Beside(random.Random(name), kind, types, **spec, clean_pod_policy="All")
    await life.begin()
    await life.see_job("Created")
    for slot in [(type, n) for type, (count, _) in types.items() for n in range(count)]:
        await life.move(slot, 1, "Running")
    await life.operate()
    await life.see_job("Created", "Succeeded", completion=stamp(int(life.at())))
    for _ in range(UNSEEN_US // 1_000_000 // TICK_S + 2):
        await life.tick()

    assert life.agreed["delete", "missed"] == len(life.pods)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(WIDER))
@pytest.mark.parametrize("seed", range(tries(1, 10)))
async def test_a_job_that_is_suspended_and_resumed_beside_its_operator(name, seed):
    kind, types, spec = WIDER[name]
    life = Beside(random.Random(f"{name}/{seed}"), kind, types, **spec)
    await life.begin()
    await life.see_job("Created")
    await life.lives(turns=4)
    for suspend in (True, False):
        if life.is_over:
            break
        await life.see_job(spec={"suspend": suspend})
        await life.operate()
        await life.tick()
        assert bool(life.pods) != suspend
    await life.lives()
    await life.rests()

    assert ({result for _, result in life.agreed}, life.differences()) == ({"agreed"}, [])
