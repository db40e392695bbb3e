"""Random histories with Reservations against brute force: none gives more than it has, and no node holds more than it offers.

Binds are refused, nodes go, time ends reservations, statuses come late or with other words; all of it is derived again, and from
snapshots.
"""

from random import Random

import pytest

from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.reserving import meant, reserving
from tests.reactors.scheduling.scene import fresh, same

CPU = 8_000
APPS = ("web", "job", "other")
POLICIES = ("", "Aligned", "Restricted")
STEPS = (
    "pod pod pod pod seen seen seen settled gone gone reservation reservation told closed no_reservation tick node node_gone"
).split()


class History:
    """What may happen to a cluster; ``pods`` has the requests of those that exist, and their apps."""

    def __init__(self, at, random):
        self.at, self.random = at, random
        self.pods, self.kinds, self.number = {}, {}, 0
        self.nodes = {"n0", "n1", "n2"}

    async def step(self):
        await getattr(self, self.random.choice(STEPS))()

    def name(self, kind):
        self.number += 1
        return f"{kind}{self.number}"

    async def pod(self):
        uid, app = self.name("p"), self.random.choice(APPS)
        self.pods[uid] = (app, self.random.randint(1, 3))
        await self.at.say(self.at.owner(uid, *self.pods[uid]))

    async def seen(self):
        """Pods and reservations are observed on the nodes that they were given."""
        for uid, node in list(self.at.outstanding().items()):
            if uid in self.pods and self.random.random() < 0.7:
                await self.at.say(self.at.seen(uid, *self.pods[uid]))
            elif uid in self.kinds:
                cpu = {"cpu": str(self.kinds[uid])}
                await self.at.say(self.at.again(uid, node=node, phase="Available", allocatable=cpu))

    async def settled(self):
        for uid in list(self.at.outstanding()):
            if self.random.random() < 0.5:
                await self.at.say(self.at.settled(uid))

    async def gone(self):
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            del self.pods[uid]
            await self.at.say(self.at.gone(uid))

    async def reservation(self):
        uid, random = self.name("r"), self.random
        self.kinds[uid] = random.randint(1, 6)
        owners = {"app": random.choice(APPS[:2])}
        fields = {
            "allocate_once": random.random() < 0.4, "allocate_policy": random.choice(POLICIES),
            "ttl": random.choice(("0s", "0s", "60s")), "order": random.choice(("", "", "1", "7")),
            "pre_allocation": random.random() < 0.4,
        }  # fmt: skip
        await self.at.say(
            self.at.reservation(uid, self.kinds[uid], owners=meant(**owners), **fields)
        )

    async def told(self):
        """The status of a reservation names owners that it has, or says that it is over."""
        at, found = self.at, self.at.reservations
        uids = [uid for uid in self.kinds if at.told[uid].phase == "Available"]
        if uids:
            uid = self.random.choice(uids)
            owners = found.status(uid).owners
            phase = "Succeeded" if self.random.random() < 0.2 else "Available"
            await at.say(at.again(uid, current_owners=owners, phase=phase))

    async def closed(self):
        if self.kinds:
            uid = self.random.choice(sorted(self.kinds))
            await self.at.say(self.at.again(uid, unschedulable=self.random.random() < 0.5))

    async def no_reservation(self):
        if self.kinds:
            uid = self.random.choice(sorted(self.kinds))
            del self.kinds[uid]
            await self.at.say(self.at.no_reservation(uid))

    async def tick(self):
        await self.at.tick(self.random.choice((10, 20, 40)))

    async def node(self):
        name = self.random.choice(("n0", "n1", "n2"))
        if name not in self.nodes:
            self.nodes.add(name)
            await self.at.say(self.at.node(name, uid=self.name(name)))

    async def node_gone(self):
        if len(self.nodes) > 1 and self.random.random() < 0.3:
            name = self.random.choice(sorted(self.nodes))
            self.nodes.discard(name)
            there = [uid for uid in self.pods if self.where().get(uid) == name]
            for uid in there:
                del self.pods[uid]
            await self.at.say(self.at.node_gone(name), *map(self.at.gone, there))

    def where(self):
        """The node of every pod that has one."""
        rows, assumed = self.at.runner.replica.cluster_state.pods, self.at.state.scheduler.assumed
        found = {uid: rows[uid].node for uid in self.pods if rows[uid].node}
        return found | {uid: one.node for uid, one in assumed.items()}


def check(at, history):
    """By brute force, from what is observed and what passes gave."""
    scheduler, rows = at.state.scheduler, at.runner.replica.cluster_state.reservations
    own, where = at.reservations, history.where()
    held = dict.fromkeys(history.nodes, 0)
    for uid, node in where.items():
        if uid in history.pods and node in held:
            held[node] += history.pods[uid][1] * 1000
    for uid, row in rows.items():
        status, users = own.status(uid), [pod for pod in history.pods if own.given(pod) == uid]
        given = sum(history.pods[pod][1] for pod in users) * 1000
        reserved = history.kinds[uid] * 1000
        if row.allocate_policy != "Aligned":
            assert given <= reserved or status.phase not in ("Available", "Succeeded")
        unbound = [pod for pod in users if pod in scheduler.assumed]
        is_used_up = status.phase == "Succeeded" and not (row.phase == "Available" and unbound)
        if status.node and status.phase in ("Available", "Succeeded") and not is_used_up:
            assert status.allocated.get("cpu", 0) == given
            assert all(where[pod] == status.node for pod in users)
            if status.node in held:
                held[status.node] += max(0, reserved - given)
        elif uid in scheduler.assumed:
            # Of a place that it takes it holds what the pod has not.
            assert all(row.pre_allocation and where[pod] == where[uid] for pod in users)
            if where[uid] in held:
                held[where[uid]] += max(0, reserved - given)
        if row.allocate_once:
            assert len(users) <= 1
    for node, amount in held.items():
        row = scheduler.columns.row_of[node]
        assert scheduler.columns.resources.free[row, 0] == CPU - amount
        assert amount <= CPU


@pytest.mark.parametrize("seed", range(12))
async def test_no_reservation_gives_more_than_it_has_and_no_node_holds_more(seed):
    at = await reserving(3)
    history = History(at, Random(seed))
    used = set()
    for _ in range(4):
        await history.reservation()
    await history.seen()
    for _ in range(60):
        await history.step()
        check(at, history)
        used |= {uid for uid in history.pods if at.reservations.given(uid)}

    assert used
    assert same(at)
    events = at.transport.events
    cuts = range(1, len(events), 7)
    assert known(folded(fresh(at), events, [], cuts=cuts)) == known(at.runner.replica)
