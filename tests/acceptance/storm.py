"""The storm: clients at a simulated API server, webhook processes that are killed and paused, a bus that is killed.

:mod:`tests.acceptance.storm_findings` has what is checked on the history afterwards,
:mod:`tests.acceptance.cluster_storm` the same storm at a real API server.
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
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import METADATA, MODEL
from projections.engine.replay import compare, rebuild
from projections.engine.store import Store, engine
from projections.engine.tables import events, parked
from tests.acceptance.apiserver import GIB, ApiServer, Source, Stored
from tests.acceptance.webhook_process import FastClock, WebhookProcess
from tests.benchmarks.reviews import Client, Target


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
                # One whose bus was killed while it connected has ended, and nobody else starts it.
                if self._process.returncode is not None:
                    await self.start()
                await asyncio.sleep(0.2)
        archived = self.store.select(sa.select(events.c.sequence).order_by(events.c.sequence))
        return [row[0] for row in archived], self.store.select(sa.select(parked))

    def rebuilt(self):
        """How its rows compare to those that are folded from its archive anew."""
        with rebuild(MODEL, self.store) as again:
            return compare(self.store, again)
