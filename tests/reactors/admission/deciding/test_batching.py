"""Desks of several processes at one history: whatever happens between them, no instant over-admits."""

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import pytest

from bus import crashpoints
from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.errors import BusUnavailableError, PublishUnknownError, WrongExpectationError
from bus.events import admissions
from bus.events.admissions import AdmissionDecided
from bus.jetstream import JetStream
from bus.memory import MemoryTransport
from bus.streams import history
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.deciding.batching import MAX_BATCH, DecisionBatcher
from reactors.admission.deciding.decide import decide
from reactors.engine.journals import JOURNAL, Journals
from tests.quota_trees import CPU, observed, request

TREE, HARD = "biz/q", 20
FACTS = {fact.wire_type: fact for fact in JOURNAL}


class Line:
    """A bus with a distance: answers take a moment, races are counted, and a test may cut it."""

    def __init__(self, transport, seed=0):
        self.transport = transport
        self.races = self.batches = 0
        self.expects = True
        #: What happens to the next publish: before it is stored, or after.
        self.before = self.after = None
        self._random = random.Random(seed)

    async def publish(self, events, *, expect=None):
        await asyncio.sleep(self._random.choice([0, 0, 0.001]))
        if self.before is not None:
            error, self.before = self.before, None
            raise error
        try:
            found = await self.transport.publish(events, expect=expect if self.expects else None)
        except WrongExpectationError:
            self.races += 1
            raise
        self.batches += 1
        if self.after is not None:
            error, self.after = self.after, None
            raise error
        return found

    def read(self, **how):
        return self.transport.read(**how)


class Office:
    """One process: journals that follow the history, and a desk."""

    def __init__(self, line):
        self.line = line
        self.journals = Journals(line, SystemClock(), cluster="c", source="test")
        self.desk = DecisionBatcher(self.journals, SystemClock(), TREE)

    async def ask(self, uid, demand, review=""):
        def question(draft, now_us):
            return decide(draft, request(uid, demand, review=review or uid), now_us)

        return await self.desk.ask(question, review or uid)

    @property
    def tree(self):
        return self.journals.tree(TREE)


@asynccontextmanager
async def office(transport, seed=0):
    """A process that has read the history."""
    found = Office(Line(transport, seed))
    reader = asyncio.create_task(found.journals.follow())
    try:
        if last := (await transport.head()).last_sequence:
            await asyncio.wait_for(found.journals.reached(last), 5)
        yield found
    finally:
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader


async def opened(transport):
    """The transport with a history that begins with one quota."""
    fact = observed(Tree(TREE), "q", HARD)
    event = fact.event(cluster="c", key=TREE, id="first", source="test", time_us=1)
    await transport.publish([event])
    return transport


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.nats)])
async def bus(request, tmp_path):
    if request.param == "memory":
        yield await opened(MemoryTransport())
        return
    async with EmbeddedServer(tmp_path) as server:
        transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
        yield await opened(transport)
        await transport.close()


@pytest.fixture
async def memory():
    return await opened(MemoryTransport())


@pytest.fixture
def crash():
    """Raise at a label, once."""

    class KilledError(Exception):
        pass

    def at(label):
        def hook(reached):
            if reached == label:
                crashpoints.install(None)
                raise KilledError(label)

        crashpoints.install(hook)
        return KilledError

    yield at
    crashpoints.install(None)


async def entries(transport):
    """The journal as it is stored."""
    batches = [batch async for batch in transport.read(after=0, live=False)]
    found = [one for batch in batches for event in batch for one in admissions.entries(event)]
    return [(FACTS[event.type].read(event), event) for event in found]


async def most_held(transport):
    """The largest sum of what was admitted, over every prefix of the history."""
    held, most = {}, 0
    for fact, _ in await entries(transport):
        if isinstance(fact, AdmissionDecided) and fact.verdict == "admitted":
            held[fact.uid] = fact.charge[CPU]
            most = max(most, sum(held.values()))
    return most


async def replayed(transport):
    """The tree that a new process reads."""
    tree = Tree(TREE)
    for fact, event in await entries(transport):
        tree.apply(fact, event.sequence, event.time_us)
    return tree


def held(tree):
    return {uid: grant.charge for uid, grant in tree.nodes["q"].grants.items()}


async def storm(offices, asks=120, seed=0):
    """Random asks at random desks, some of them twice; (ask, answer) of each."""
    chance = random.Random(seed)
    wanted = [
        (chance.choice(offices), f"u{chance.randrange(asks // 2)}", chance.randint(1, 5), f"r{n}")
        for n in range(asks)
    ]
    wanted += [chance.choice(wanted) for _ in range(asks // 6)]
    tasks = []
    for desk, uid, demand, review in wanted:
        tasks.append(asyncio.create_task(desk.ask(uid, demand, review)))
        if chance.random() < 0.5:
            await asyncio.sleep(0.0005)
    answers = await asyncio.gather(*tasks)
    return [
        (uid, demand, answer) for (_, uid, demand, _), answer in zip(wanted, answers, strict=True)
    ]


async def test_two_processes_never_over_admit_at_any_prefix_of_the_history(bus):
    """Row D11 and P13: one loses each race, reads on and decides again."""
    async with office(bus, 1) as one, office(bus, 2) as other:
        await storm([one, other])
        await asyncio.wait_for(one.journals.reached((await bus.head()).last_sequence), 5)
        await asyncio.wait_for(other.journals.reached((await bus.head()).last_sequence), 5)

        assert one.line.races + other.line.races > 0
        assert await most_held(bus) <= HARD
        assert held(one.tree) == held(other.tree) == held(await replayed(bus))
        assert sum(charge[CPU] for charge in held(one.tree).values()) == one.tree.nodes["q"].used(
            CPU
        )


async def test_without_the_expectation_two_processes_over_admit(memory):
    """Negative control of the test above."""
    async with office(memory, 1) as one, office(memory, 2) as other:
        one.line.expects = other.line.expects = False
        # What the loser decided is no entry of the journal: its own process finds that out too late.
        await asyncio.gather(one.ask("v", 15), other.ask("w", 15), return_exceptions=True)

        assert await most_held(memory) > HARD


async def test_with_the_expectation_one_of_two_processes_is_refused(memory):
    async with office(memory, 1) as one, office(memory, 2) as other:
        answers = await asyncio.gather(one.ask("v", 15), other.ask("w", 15))

        assert ["admitted", "refused"] == sorted(answer.verdict for answer in answers)
        assert one.line.races + other.line.races == 1


async def test_the_answers_are_those_of_the_journal(bus):
    """An answer is given when it is stored, never before."""
    async with office(bus, 3) as one, office(bus, 4) as other:
        answers = await storm([one, other], asks=60)

    stored = {fact.number: fact for fact, _ in await entries(bus)}
    for uid, demand, answer in answers:
        assert stored[answer.number] == answer
        assert (uid, demand) == (answer.uid, answer.demand[CPU])
    assert list(stored) == list(range(1, len(stored) + 1))


async def test_what_waits_together_is_appended_together(memory):
    async with office(memory) as one:
        await asyncio.gather(*(one.ask(f"u{n}", 1) for n in range(50)))

        # The first goes alone, or with those that came in the same moment.
        assert one.line.batches <= 2


async def test_an_append_holds_a_bounded_number_of_decisions(memory):
    async with office(memory) as one:
        await asyncio.gather(*(one.ask(f"u{n}", 1) for n in range(MAX_BATCH + 1)))

        assert one.line.batches == 2


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_publish_of_unknown_outcome_admits_nobody_twice(memory, is_stored):
    """Who waits is told; whether it was stored, the history says. Nothing may be assumed."""
    async with office(memory) as one:
        moment = "after" if is_stored else "before"
        setattr(one.line, moment, PublishUnknownError())
        with pytest.raises(PublishUnknownError):
            await one.ask("lost", 15)
        after = await one.ask("v", 15)

        assert after.verdict == ("refused" if is_stored else "admitted")
        assert await most_held(memory) == 15
        assert held(one.tree) == held(await replayed(memory))
        again = await one.ask("lost", 15, review="again")
        assert again.verdict == ("admitted" if is_stored else "refused")


async def test_a_cancelled_ask_harms_no_other(memory):
    async with office(memory) as one:
        tasks = [asyncio.create_task(one.ask(f"u{n}", 4)) for n in range(6)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[3].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        last = await one.ask("last", 20)

        given = [answer for answer in answers if isinstance(answer, AdmissionDecided)]
        assert (4, "refused") == (len(given), last.verdict)
        assert await most_held(memory) <= HARD
        assert held(one.tree) == held(await replayed(memory))


async def test_an_ask_that_is_cancelled_in_the_queue_is_not_decided(memory):
    async with office(memory) as one:
        first = asyncio.create_task(one.ask("first", 1))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(one.ask("waiting", 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await first
        await one.ask("last", 1)

        assert {"first", "last"} == set(held(one.tree))


async def test_a_loser_whose_reader_is_behind_says_so(memory):
    """What was decided on an old view is never answered."""
    async with office(memory) as one:
        blind = Office(Line(memory))
        blind.journals.apply([memory.events[0]])
        await one.ask("v", 15)

        with pytest.raises(BusUnavailableError):
            await blind.ask("w", 15)

        assert await most_held(memory) == 15


@pytest.mark.parametrize("label", ["journal.before_append", "journal.after_append"])
async def test_a_crash_around_an_append_loses_nothing_and_doubles_nothing(bus, crash, label):
    async with office(bus) as one:
        await one.ask("v", 5)
        killed = crash(label)
        with pytest.raises(killed):
            await one.ask("w", 5)
    async with office(bus) as restarted:
        before = held(restarted.tree)
        answer = await restarted.ask("w", 5, review="again")

        assert ("w" in before) == (label == "journal.after_append")
        assert answer.verdict == "admitted"
        assert {"v": {CPU: 5}, "w": {CPU: 5}} == held(restarted.tree) == held(await replayed(bus))


async def test_a_question_that_fails_is_told_to_who_asked(memory):
    def broken(draft: TreeOverlay, now_us: int):
        raise ZeroDivisionError

    async with office(memory) as one:
        with pytest.raises(ZeroDivisionError):
            await one.desk.ask(broken, "r")

        assert (await one.ask("v", 1)).verdict == "admitted"
