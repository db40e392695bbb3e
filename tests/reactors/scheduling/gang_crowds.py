"""A cluster in memory whose nodes are full, and gangs that want them or are on them."""

import msgspec

from reactors.scheduling.settings import SchedulingPolicy
from tests.reactors.scheduling.crowded import Crowded
from tests.reactors.scheduling.ganging import Ganging
from tests.scenario import FAST


class GangCrowds(Crowded, Ganging):
    """Nodes of 4 cpu, full of pods of some priorities, and gangs that want them."""

    async def full_of(self, rows, mode="on", **policy):
        """Nodes by name, each full of pods of these priorities; and so many pods more that four may go in five minutes."""
        await self.begin_with(*rows, mode=mode, **policy)
        for name, priorities in rows.items():
            await self.fill(*priorities, node=name)

    async def begin_with(self, *names, mode="on", **policy):
        await self.set_policy(SchedulingPolicy(preemption="on", pace=FAST, **policy), mode)
        many = {"cpu": "0", "memory": "999Gi", "pods": "210"}
        await self.say(*map(self.node, names), self.node("many", allocatable=many))
        await self.say(*(self.pod(f"more{n}", "many", cpu="0", priority=9) for n in range(200)))

    def ganged(self, uid, node=None, gang="g", least=2, cpu="2", priority=5, apart=(), **terms):
        """``apart``: what its constraints say beside or instead."""
        named = {"name": gang, "isLight": True, "least": str(least)} | terms
        said = {"schedulerName": "bursar", "gang": named} | dict(apart)
        raw = msgspec.Raw(msgspec.json.encode(said))
        return self.pod(uid, node, constraints=raw, cpu=cpu, priority=priority)

    def gang(self, count, cpu="2", priority=5, gang="g", least=None, nodes=(), **terms):
        return [
            self.ganged(f"{gang}{n}", nodes[n] if nodes else None, gang, least or count, cpu, priority, **terms)
            for n in range(count)
        ]  # fmt: skip

    def victims(self):
        """Who has to go by what passes said, each once, sorted."""
        return sorted({name for _, _, names in self.said() for name in names})
