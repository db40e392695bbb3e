"""The storm: clients at a simulated API server, webhook processes that are killed and paused, a bus that is killed.

Also what is checked on the history afterwards, by sums of its own. :mod:`tests.acceptance.cluster_storm` has the same
storm at a real API server.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.errors import RetryableError
from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    entries,
)
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import METADATA, MODEL
from projections.engine.replay import compare, rebuild
from projections.engine.store import Store, engine
from projections.engine.tables import events, parked
from projections.quota_trees import Tree
from reactors.rederive.journals import rederive
from tests.acceptance.apiserver import GIB, ApiServer, Source, Stored
from tests.acceptance.webhook_process import CLUSTER, FastClock, WebhookProcess, described
from tests.benchmarks.reviews import Client, Target

_JOURNAL = {fact.wire_type: fact for fact in JOURNAL}


def quotas():
    """Four levels below one root, 30 leaves, some of everything kept for what stands at a quota that has children."""
    found = {}

    def hard(cores, typed):
        return {
            "limits.cpu": 1000 * cores,
            "limits.cpu.A4": 1000 * typed,
            "requests.memory": cores * GIB * 2,
        }

    found["root"] = ("", hard(1000, 400))
    for area in range(3):
        found[f"area-{area}"] = ("root", hard(320, 120))
        for team in range(3):
            name = f"team-{area}-{team}"
            found[name] = (f"area-{area}", hard(100, 36))
            for leaf in range(4 if team == 0 else 3):
                found[f"leaf-{area}-{team}-{leaf}"] = (name, hard(22, 8))
    return found


@dataclass
class Plan:
    """What happens, and how often: counts, and seconds between the faults of one sort."""

    requests: int
    clients: int = 64
    seed: int = 1
    careless: bool = False
    kill_seconds: float = 0.5
    bus_seconds: float = 6.0
    keeper_seconds: float = 8.0
    #: Keep a ledger beside it, which is killed too; 0 = none.
    ledger_seconds: float = 0.0
    settle_seconds: float = 60.0
    #: How fast the clock of all processes runs. Faster than that the API server's deadline, 60 s, is shorter than a
    #: restart takes.
    speed: int = 30


@dataclass
class Storm:
    """One storm over one history in `folder`."""

    folder: object
    plan: Plan
    faults: Counter = field(default_factory=Counter)
    #: (review, last sequence of the stream when it had been answered), of some that were allowed.
    answered: list = field(default_factory=list)
    quotas: dict = field(default_factory=quotas)

    @asynccontextmanager
    async def running(self):
        """Bus, cluster, keeper and three webhooks; nothing is asked yet."""
        self.clock = FastClock(SystemClock().now_us(), self.plan.speed)
        self.random = random.Random(self.plan.seed)
        self.left = self.plan.requests
        self._idle = defaultdict(list)
        async with EmbeddedServer(self.folder) as self.bus:
            self.door = await JetStream.connect(
                self.bus.url, history(), credentials=self.bus.credentials, connect_seconds=30
            )
            try:
                async with self._cluster() as placed, self._processes(placed):
                    await self._begin()
                    yield self
            finally:
                await self.door.close()

    @asynccontextmanager
    async def _processes(self, placed):
        """Keeper, webhooks and ledger, killed in the end; none is started yet."""
        self.keeper = WebhookProcess(self.folder, "keeper", self.clock, keeps=True, **placed)
        careless = self.plan.careless
        self.webhooks = [
            WebhookProcess(self.folder, f"webhook-{n}", self.clock, careless=careless, **placed)
            for n in range(3)
        ]
        self.ledger = Ledger(self.folder) if self.plan.ledger_seconds else None
        try:
            yield
        finally:
            if self.ledger:
                await self.ledger.kill()
            for process in (self.keeper, *self.webhooks):
                process.kill()

    @asynccontextmanager
    async def _cluster(self):
        """The API server, and what is said of it; gives what its processes have to know of it."""
        self.server = ApiServer(self.clock, self.ask, random.Random(self.plan.seed))
        source = Source(self.server, self.door, self.clock)
        await source.say_quotas(self.quotas)
        saying = asyncio.create_task(source.run())
        try:
            yield {"relist": source.relist}
        finally:
            saying.cancel()
            with suppress(asyncio.CancelledError):
                await saying

    async def _declare(self):
        """Make the quotas, where the cluster has none yet."""

    async def _begin(self):
        if self.ledger:
            await self.ledger.start()
        for process in (self.keeper, *self.webhooks):
            process.start()
        for process in (self.keeper, *self.webhooks):
            await process.ready()
        await self._declare()
        async with asyncio.timeout(30):
            while len(_quotas(await self.told(self.webhooks[0]))) < len(self.quotas):
                await asyncio.sleep(0.05)

    async def blow(self):
        """All requests, under all faults; returns when the last request was answered."""
        faults = [
            self._every(self.plan.kill_seconds, self._hurt_a_webhook),
            self._every(self.plan.bus_seconds, self._kill_bus),
            self._every(self.plan.keeper_seconds, self._kill_keeper),
        ]
        if self.ledger:
            faults.append(self._every(self.plan.ledger_seconds, self._kill_ledger))
        busy = [asyncio.create_task(one) for one in (*faults, *self._others())]
        try:
            await self._clients()
        finally:
            for task in busy:
                task.cancel()
            ended = await asyncio.gather(*busy, return_exceptions=True)
        for outcome in ended:
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome

    async def settle(self):
        """Wait until every process says that what is charged is what there is; what they say."""
        for process in (self.keeper, *self.webhooks):
            process.kill()
            process.start()
        for process in (self.keeper, *self.webhooks):
            await process.ready()
        stored = {(o.quota, o.uid): o.amounts for o in self.server.objects.values()}
        wanted = {place: amounts for place, amounts in stored.items() if amounts}
        last = []
        with suppress(TimeoutError):
            async with asyncio.timeout(self.plan.settle_seconds):
                while True:
                    head = (await self.door.head()).last_sequence
                    last = [await self.told(one) for one in (self.keeper, *self.webhooks)]
                    if all(
                        told["sequence"] == head and self._held(told, stored) == wanted
                        for told in last
                    ):
                        break
                    await asyncio.sleep(0.3)
        held = [self._held(told, stored) for told in last]
        return wanted, held, [told["trees"] for told in last]

    def _held(self, told, stored):
        """(quota, uid) to what is held there, for an object without pods only where it does not belong."""
        return {
            (name, uid): {k: n for k, n in grant["charge"].items() if k in self.quotas["root"][1]}
            for name, quota in _quotas(told).items()
            for uid, grant in quota["grants"].items()
            if grant["charge"] or (name, uid) not in stored
        }

    # clients

    async def _clients(self):
        """All requests of all clients."""
        await asyncio.gather(*(self._client(n) for n in range(self.plan.clients)))
        await self.server.landed()

    def _others(self):
        """Who else writes meanwhile."""
        return [self._churn()]

    async def ask(self, body):
        """One review at one of the webhooks that run: True, False, or None where nobody answered."""
        self.left -= 1
        for _ in range(200):
            open_now = [one for one in self.webhooks if one.port]
            if open_now:
                break
            await asyncio.sleep(0.02)
        else:
            return None
        answer = await self._post(self.random.choice(open_now).port, "/admit", body)
        if answer is None or answer[0] != 200:
            return None
        allowed = b'"allowed":true' in answer[1]
        if allowed and not self.random.randrange(20):
            request = msgspec.json.decode(body)["request"]
            if request["operation"] == "CREATE" and not request["dryRun"]:
                with suppress(RetryableError):
                    last = (await self.door.head()).last_sequence
                    self.answered.append((request["uid"], last))
        return allowed

    async def _post(self, port, path, body):
        place = (port, path)
        idle = self._idle[place]
        client = idle.pop() if idle else Client(Target(f"http://127.0.0.1:{port}{path}"))
        try:
            async with asyncio.timeout(3):
                answer = await client.post(body)
        except (OSError, TimeoutError):
            client.close()
            return None
        if answer is not None:
            idle.append(client)
        return answer

    async def told(self, process):
        """What a process knows of the trees."""
        while (answer := await self._post(process.port, "/trees", b"")) is None:
            await process.ready()
        return msgspec.json.decode(answer[1])

    async def _client(self, number):
        mine = random.Random(f"{self.plan.seed}/{number}")
        names = list(self.quotas)
        made = 0
        while self.left > 0:
            chance, times = mine.random(), mine.choice((1, 1, 1, 1, 2, 3))
            if chance < 0.7:
                made += 1
                item = Stored(
                    f"object-{number}-{made}", mine.choice(names), mine.randint(1, 5),
                    mine.randint(1, 2), mine.randint(1, 4), mine.choice(("", "", "A4")),
                )  # fmt: skip
                await self.server.create(item, times=times, dry_run=mine.random() < 0.2)
            elif uid := self._any(mine):
                if chance < 0.9:
                    how = mine.choice(("", "", "scale"))
                    await self.server.update(uid, mine.randint(0, 6), times=times, subresource=how)
                else:
                    await self.server.delete(uid)

    def _any(self, mine):
        objects = self.server.objects
        return mine.choice(list(objects)) if objects else None

    async def _churn(self):
        """Controllers write statuses, and objects come to their end after some seconds."""
        while True:
            await asyncio.sleep(0.05)
            for _ in range(len(self.server.objects) // 40):
                self.server.remove(self._any(self.random))
                self.server.touch(self._any(self.random))

    # faults

    async def _every(self, seconds, fault):
        while True:
            await asyncio.sleep(seconds * (0.5 + self.random.random()))
            await fault()

    async def _hurt_a_webhook(self):
        victim = self.random.choice(self.webhooks)
        if not victim.port:
            return
        if self.random.random() < 0.2:
            self.faults["webhook paused"] += 1
            os.kill(victim.pid, signal.SIGSTOP)
            await asyncio.sleep(2 * self.random.random())
            os.kill(victim.pid, signal.SIGCONT)
            return
        self.faults["webhook killed"] += 1
        await self._again(victim)

    async def _kill_keeper(self):
        self.faults["keeper killed"] += 1
        await self._again(self.keeper)

    async def _kill_ledger(self):
        self.faults["ledger killed"] += 1
        await self.ledger.kill()
        await self.ledger.start()

    async def _again(self, process):
        process.kill()
        process.start()
        # A bus that is killed meanwhile may end it; then it is started anew.
        for _ in range(5):
            with suppress(TimeoutError):
                return await process.ready(seconds=30)
            process.kill()
            process.start()

    async def _kill_bus(self):
        if pid := self.bus.pid:
            self.faults["bus killed"] += 1
            os.kill(pid, signal.SIGKILL)


def _quotas(told):
    """Quotas by name, as a process knows them."""
    return told["trees"].get("biz/root", {"quotas": {}})["quotas"]


class Ledger:
    """A process that keeps the ledger of the same history."""

    def __init__(self, folder):
        self._folder = folder
        self.store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
        METADATA.create_all(self.store.engine)
        self._process = None

    async def start(self):
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.acceptance.ledger_process", str(self._folder), "500"
        )

    async def kill(self):
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def reached(self, sequence, seconds=120):
        """Wait until it has folded the history up to there; sequences it has archived, and parked."""
        async with asyncio.timeout(seconds):
            while self.store.checkpoint(MODEL.version).sequence < sequence:
                await asyncio.sleep(0.2)
        archived = self.store.select(sa.select(events.c.sequence).order_by(events.c.sequence))
        return [row[0] for row in archived], self.store.select(sa.select(parked))

    def rebuilt(self):
        """How its rows compare to those that are folded from its archive anew."""
        with rebuild(MODEL, self.store) as again:
            return compare(self.store, again)


# what the history says


@dataclass
class Findings:
    """What was found in one history of journals."""

    #: (sequence, quota, key, used, hard) wherever an entry raised what is held, and it was more than is allowed.
    over: list = field(default_factory=list)
    #: The same of what exists whatever is allowed: what was adopted, or is an orphan's part.
    forced: list = field(default_factory=list)
    #: (sequence, tree, number) that does not follow the one before.
    gaps: list = field(default_factory=list)
    verdicts: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    #: Uid of the review to the sequence of its first decision.
    decided: dict = field(default_factory=dict)
    #: (quota, uid) to all that was ever admitted for it.
    charges: dict = field(default_factory=lambda: defaultdict(list))
    events: int = 0


class Sweep:
    """Sums up one history by rules of its own, entry by entry."""

    def __init__(self):
        self.findings = Findings()
        self._hard, self._parents = {}, {}
        self._charges = {}
        self._used = defaultdict(Counter)
        self._numbers = Counter()

    def take(self, event):
        self.findings.events += 1
        fact = _JOURNAL.get(event.type)
        if fact is None:
            return
        fact, found = fact.read(event), self.findings
        if fact.number != self._numbers[event.key] + 1:
            found.gaps.append((event.sequence, event.key, fact.number))
        self._numbers[event.key] = fact.number
        before = {quota: self._used[quota].copy() for quota in self._touched(fact)}
        is_forced = isinstance(fact, AdmissionDecided) and (
            fact.verdict == "adopted" or fact.reason == "orphaned"
        )
        self._apply(fact, event.sequence)
        for quota, was in before.items():
            used = self._used[quota]
            for key, hard in self._hard.get(quota, {}).items():
                if used[key] > max(hard, was[key]):
                    one = (event.sequence, quota, key, used[key], hard)
                    (found.forced if is_forced else found.over).append(one)

    def _touched(self, fact):
        """The quotas in which an entry may raise what is held."""
        if isinstance(fact, QuotaDeclared):
            return (fact.quota, fact.parent)
        return (fact.quota,) if isinstance(fact, AdmissionDecided) else ()

    def _apply(self, fact, sequence):
        found = self.findings
        if isinstance(fact, QuotaDeclared):
            if fact.verdict == "refused":
                return
            # Declared when it is asked for, and again when it is seen.
            self._used[fact.parent].subtract(self._hard.get(fact.quota, {}))
            self._hard[fact.quota] = fact.spec.hard
            self._used[fact.parent].update(fact.spec.hard)
            return
        if isinstance(fact, AdmissionDecided):
            found.verdicts[fact.verdict] += 1
            found.reasons[fact.reason] += 1
            if fact.verdict == "refused":
                return
            found.decided.setdefault(fact.request, sequence)
            found.charges[fact.quota, fact.uid].append(fact.charge)
            self._charge((fact.quota, fact.uid), fact.charge)
            if fact.left is not None:
                self._charge((fact.quota, fact.left.uid), fact.left.charge)
            return
        assert isinstance(fact, AdmissionReleased)
        for release in fact.releases:
            found.reasons[release.reason] += 1
            self._charge((release.quota, release.uid), release.charge)

    def _charge(self, holder, charge):
        used = self._used[holder[0]]
        used.subtract(self._charges.pop(holder, {}))
        used.update(charge)
        self._charges[holder] = charge


async def swept(storm):
    """Findings, and the trees that one gets who reads the history from the beginning."""
    sweep, trees = Sweep(), {}
    async for batch in storm.door.read(after=0, live=False):
        for event in (one for whole in batch for one in entries(whole)):
            sweep.take(event)
            if (fact := _JOURNAL.get(event.type)) and not storm.plan.careless:
                tree = trees.setdefault(event.key, Tree(event.key))
                tree.apply(fact.read(event), event.sequence, event.time_us)
    return sweep.findings, msgspec.json.decode(msgspec.json.encode(described(trees.values())))


async def derived_again(storm):
    """What comes of deriving the journals again from the history, whichever process decided."""
    told = [e async for part in storm.door.read(after=0, live=False) for e in part]
    return await asyncio.to_thread(
        rederive, lambda: told, cluster=CLUSTER, transport=storm.door, clock=SystemClock()
    )


def held_too_much(server, quotas):
    """(place in the API server's log, quota, key, held, hard) wherever it stored more than is allowed."""
    held, used, found = {}, defaultdict(Counter), []
    for parent, hard in quotas.values():
        used[parent].update(hard)
    for place, (uid, quota, amounts) in enumerate(server.log):
        before, less = held.pop(uid, (quota, {}))
        used[before].subtract(less)
        if amounts:
            held[uid] = quota, amounts
            used[quota].update(amounts)
        found += [
            (place, quota, key, used[quota][key], hard)
            for key, hard in quotas[quota][1].items()
            if used[quota][key] > hard
        ]
    return found


async def blown(storm):
    """The storm when it has come to rest, with its findings and all that its processes say."""
    async with storm.running():
        await storm.blow()
        storm.settled = await storm.settle() if not storm.plan.careless else None
        if storm.ledger:
            storm.head = (await storm.door.head()).last_sequence
            storm.booked = await storm.ledger.reached(storm.head)
            storm.rebuilt = await asyncio.to_thread(storm.ledger.rebuilt)
            storm.ledger.store.close()
        storm.findings, storm.replayed = await swept(storm)
        storm.derived = await derived_again(storm)
        storm.stored_over = held_too_much(storm.server, storm.quotas)
    return storm


def held_true(storm):
    """Everything that must hold after any storm, whatever API server it was at."""
    found, (wanted, held, told) = storm.findings, storm.settled
    print(
        f"{found.events} events, {dict(found.verdicts)}, {dict(found.reasons)}, "
        f"{dict(storm.faults)}"
    )
    # The first of each is enough to begin with: they can be thousands.
    assert found.gaps[:3] == []
    assert found.over[:3] == []
    assert storm.stored_over[:3] == [], storm.stored_over[:3]
    assert found.verdicts["adopted"] == 0
    assert storm.derived.reviews.differences[:3] == storm.derived.observed.differences[:3] == ()
    assert storm.derived.reviews.same >= found.verdicts["admitted"] + found.verdicts["refused"] > 0
    assert [wanted] * 4 == held
    assert [storm.replayed] * 4 == told
    if storm.ledger:
        archived, parked = storm.booked
        assert archived[: storm.head] == list(range(1, storm.head + 1))
        assert parked == []
        # A list may have been said since.
        assert storm.rebuilt.sequence >= storm.head
        assert storm.rebuilt.equal, storm.rebuilt.differences
