"""Lives of a job beside its operator, which is played by the plain walk: every step that it takes was decided before."""

import random

import pytest

from bus.events.workloads import Condition, ReplicaCounts, ReplicaSpec
from reactors.jobs.shape import KINDS
from tests.factories import START, stamp
from tests.reactors.jobs.plainly import Plainly, PlainlyTrained
from tests.reactors.jobs.scene import Training4

#: A pod's next phases, by chance: exit codes of a pod that fails, None = it was evicted.
ENDS = [("Succeeded", 0), ("Succeeded", 0), ("Failed", 137), ("Failed", None), ("Failed", 1)]


class Beside(Training4):
    """A job whose operator and kubelets act, and a shadow that reads along."""

    def __init__(self, policy, workers, chance, kind):
        super().__init__(kind, replicas={"Worker": ReplicaSpec(workers, policy)})
        self.chance, self.workers, self.policy = chance, workers, policy
        #: By index: attempt, phase, exit code.
        self.pods = {}
        self.known = {
            "conditions": [("Created", True)],
            "counts": {},
            "start": None,
            "completion": None,
        }
        self.attempts = 0

    async def operate(self):
        """One pass of the operator; whether it did anything."""
        job = {
            "types": {"Worker": (self.workers, self.policy)}, "deadline": None, "backoff": None,
            "suspend": False, "clean": "", "dynamic": False, "success": "", **self.known,
        }  # fmt: skip
        pods = [
            ("Worker", n, phase, code, 0, False)
            for n, (_, phase, code) in sorted(self.pods.items())
        ]
        job |= {"kind": self.kind, "elastic": False}
        walk = Plainly if self.kind == "TFJob" else PlainlyTrained
        one = walk(job, pods, int(self.at())).run()
        for _, index in one.creates:
            self.attempts += 1
            await self.move(index, self.attempts, "Pending")
        for _, index in one.removes:
            attempt, phase, _ = self.pods.pop(index)
            await self.lose_pod(index, attempt, phase)
        new = {name: getattr(one, name) for name in self.known}
        is_new, self.known = new != self.known, new
        if is_new:
            await self.write()
        return is_new or bool(one.creates or one.removes)

    async def write(self):
        conditions = tuple(
            Condition(name, str(held), f"{self.kind}{name}")
            for name, held in self.known["conditions"]
        )
        counts = {type: ReplicaCounts(*one) for type, one in self.known["counts"].items()}
        await self.see_job(
            conditions=conditions, counts_of=counts, start=stamp(self.known["start"]),
            completion=stamp(self.known["completion"]),
        )  # fmt: skip

    async def see_job(self, *conditions, counts_of=None, **fields):
        if counts_of is not None:
            self.status["counts"] = counts_of
        await super().see_job(*conditions, **fields)

    async def move(self, index, attempt, phase, code=None):
        self.pods[index] = (attempt, phase, code)
        exits = {} if code is None else {KINDS[self.kind].container: code}
        await self.see_pod(index, phase, attempt, exits=exits)

    async def kubelet(self):
        """One pod goes on."""
        live = [n for n, (_, phase, _) in self.pods.items() if phase in ("Pending", "Running")]
        if not live:
            return False
        index = self.chance.choice(sorted(live))
        attempt, phase, _ = self.pods[index]
        end = ("Running", None) if phase == "Pending" else self.chance.choice(ENDS)
        await self.move(index, attempt, *end)
        return True


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "PaddleJob", "JAXJob"])
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
@pytest.mark.parametrize("seed", range(5))
async def test_the_operator_takes_no_step_that_was_not_decided(policy, seed, kind):
    life = Beside(policy, workers=4, chance=random.Random(f"{policy}/{seed}"), kind=kind)
    await life.begin()
    await life.see_job("Created")
    for _ in range(60):
        while await life.operate():
            pass
        await life.tick()
        if not await life.kubelet():
            break
    found = {result for _, result in life.agreed}

    # The other kinds have no completion time where an exit code failed them.
    assert {("Succeeded", True), ("Failed", True)} & set(life.known["conditions"])
    assert (found, list(life.state.agreements.differences)) == ({"agreed"}, [])
    assert life.status["completion"] is None or START < life.status["completion"]
