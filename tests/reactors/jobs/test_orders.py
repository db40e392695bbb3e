"""Whatever order, delay, repetition and loss a watch has, the pods at the end are those of a watch that has none of it."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactors.engine.verify import rederive
from reactors.jobs.reactor import reactor
from reactors.jobs.shape import INDEX, TYPE
from tests.factories import CLUSTER, objects_listed
from tests.reactors.jobs.running import CORE, FOLDERS, GROUP, Running, job
from tests.simulation.loop import simulate
from tests.thorough import tries

#: By kind, its replica types: how many and their restart policy.
JOBS = {
    "TFJob": {"Chief": (1, "ExitCode"), "PS": (1, "Always"), "Worker": (2, "ExitCode")},
    "PyTorchJob": {"Master": (1, "OnFailure"), "Worker": (2, "ExitCode")},
    "XGBoostJob": {"Master": (1, "ExitCode"), "Worker": (2, "ExitCode")},
    "PaddleJob": {"Master": (1, "OnFailure"), "Worker": (2, "OnFailure")},
    "JAXJob": {"Worker": (3, "ExitCode")},
}
FATES = ("seen", "seen", "doubled", "late", "lost")
#: Turns with such a watch, before and after the containers end, and turns after which nothing moves any more.
TURNS, CALM = 6, 8
BYSTANDERS = 12


class Disturbed(Running):
    """``chance`` None: a watch as it should be. What it loses, complete lists show; what is late may come after those."""

    def __init__(self, ends, kind, chance=None):
        super().__init__(ends)
        self.kind, self.chance = kind, chance
        self.late, self.fates = [], Counter()

    async def watch(self):
        if self.chance is not None:
            changes, found = [*self.late, *self.api.changes], []
            self.late = []
            for change in changes:
                fate = self.chance.choice(FATES)
                self.fates[fate] += 1
                if fate == "late":
                    self.late.append(change)
                elif fate != "lost":
                    found += [change] * (2 if fate == "doubled" else 1)
            self.chance.shuffle(found)
            self.api.changes = found
        await super().watch()

    async def calm(self):
        """Complete lists of all kinds; then what was late; from here on nothing is lost."""
        chance, self.chance = self.chance, None
        late, self.late = self.late, []
        await self.relist_jobs()
        await self.relist()
        await self.relist_services()
        self.api.changes = late
        await self.turns(CALM)
        self.chance = chance

    async def relist_jobs(self):
        self.clock.after(1)
        there = self.api.of(FOLDERS[self.kind])
        self.api.changes = [
            ("LISTED", f"{GROUP}/{FOLDERS[self.kind]}/{name}", one) for name, one in there.items()
        ]
        await self.watch()
        uids = [one["metadata"]["uid"] for one in there.values()]
        await self.say(*objects_listed(self.kind, uids, next(self.api._versions), self.at()))

    def pods(self):
        """By name: slot, phase."""
        return {
            name: (one["metadata"]["labels"][TYPE], one["metadata"]["labels"][INDEX], one["status"]["phase"])
            for name, one in self.api.of("pods").items()
            if not name.startswith("web-")
        }  # fmt: skip

    def known(self):
        """The pods of the job as the reactor's state has them."""
        state = self.runner.replica.states["jobs"]
        (uid,) = state.jobs
        return {one.name: (one.type, one.index, one.phase) for one in state.seen(uid).pods}


async def lived(kind, ends, clean, suspends, chance=None):
    """A job's life: its pods fail by script, it is suspended and resumed, and ends."""
    world = Disturbed(ends, kind, chance)
    await world.begin()
    # Bystanders: a list that lacks half of all pods would hold every step, as it should.
    for number in range(BYSTANDERS):
        web = {"metadata": {"name": f"web-{number}", "namespace": "ns"}, "spec": {"containers": []}}
        world.api.put(f"{CORE}/pods/web-{number}", web | {"status": {"phase": "Succeeded"}})
    await world.calm()
    body = job(kind=kind, replicas=JOBS[kind], cleanPodPolicy=clean)
    await world.submit(body)
    found = []
    await world.turns(TURNS)
    await world.calm()
    found.append((world.pods(), world.known()))
    path = f"{GROUP}/{FOLDERS[kind]}/train"
    for suspend in (True, False) if suspends else ():
        there = await world.api.get(path)
        there["spec"]["runPolicy"]["suspend"] = suspend
        world.api.put(path, there)
        await world.turns(TURNS)
        await world.calm()
        found.append((world.pods(), world.known()))
    world.is_over = True
    await world.turns(TURNS)
    await world.calm()
    found.append((world.pods(), world.known()))
    return world, found


@st.composite
def lives(draw):
    """A kind, and either some pods that are killed or one whose program fails, which ends the job."""
    kind = draw(st.sampled_from(sorted(JOBS)))
    slots = [f"{type.lower()}-{n}-1" for type, (count, _) in JOBS[kind].items() for n in range(count)]  # fmt: skip
    ends = dict.fromkeys(draw(st.lists(st.sampled_from(slots), unique=True, max_size=2)), 137)
    fails = [name for name in slots if name.startswith("worker")] if kind != "PaddleJob" else []
    if not ends and fails and draw(st.booleans()):
        ends = {draw(st.sampled_from(fails)): 1}
    return kind, ends, draw(st.sampled_from(("None", "All"))), not ends and draw(st.booleans())


@settings(max_examples=tries(15, 500), deadline=None)
@given(lives(), st.integers(0, 2**32))
def test_every_order_of_events_ends_in_the_same_pods(life, seed):
    plain, wanted = simulate(lived(*life))
    world, found = simulate(lived(*life, random.Random(seed)))

    assert [pods for pods, _ in found] == [pods for pods, _ in wanted]
    assert [known for _, known in found] == [pods for pods, _ in found]
    assert world.conditions(kind=world.kind) == plain.conditions(kind=plain.kind)
    # No name is made twice, but what somebody deletes in between.
    assert max(world.api.made.values()) <= (2 if life[3] else 1)


@pytest.mark.parametrize("kind", sorted(JOBS))
def test_a_watch_without_order_is_survived_by_each_kind_and_derived_again(kind):
    """Each fate was met, so the property above is about something."""
    chance = random.Random(kind)
    world, found = simulate(lived(kind, {"worker-1-1": 137}, "None", False, chance))
    checked = rederive(lambda: iter(world.transport.events), [reactor], CLUSTER)

    assert found[0][0]["train-worker-1-2"] == ("worker", "1", "Running")
    assert {phase for *_, phase in found[-1][0].values()} == {"Succeeded"}
    assert min(world.fates[fate] for fate in FATES) > 0
    assert (checked.mismatches, checked.passed_over) == ((), 0)
