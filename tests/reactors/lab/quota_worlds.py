"""Jobs in small quota trees under any limits, queues, budgets and shares, lived by the product's own handler, keeper and queues."""

from bus.clock import SECOND_US
from bus.events.admissions import Meter, TreeMetered
from tests.reactors.cluster import QUOTA, Cluster, job
from tests.reactors.evictions.scene import ELASTIC
from tests.reactors.queue.jobs import Jobs
from tests.scenario import settled
from tests.simulation.loop import simulate

#: All have run by then, in any order.
END = 20_000
ASKED = 4_000


class Live:
    """Jobs of (second, cores, seconds that they run, deadline or None) under one queue, until all have run."""

    def __init__(self, jobs, cores, order, delay):
        self.jobs, self.rules = jobs, (cores, order, delay)
        self.starts, self.events, self.seen = {}, [], 0

    async def live(self):
        cores, order, delay = self.rules
        async with Jobs() as cluster:
            await cluster.see_team(cores, order=order, delay=delay)
            self.begin_us, ends = cluster.clock.us, {}
            moments = [(at, "come", n) for n, (at, _, _, _) in enumerate(self.jobs)]
            moments += [(at + delay, "look", n) for at, _, n in moments]
            while moments:
                moments.sort()
                at, what, number = moments.pop(0)
                cluster.clock.us = self.begin_us + at * SECOND_US
                name = f"job-{number}"
                if what == "come":
                    _, cpu, _, deadline = self.jobs[number]
                    await cluster.create(name, cpu, deadline=deadline)
                elif what == "end" and ends.get(name) == at and not cluster.is_suspended(name):
                    await cluster.delete(name)
                await settled()
                # What had to wait again may have been started again since.
                for name, second in cluster.starts[self.seen :]:
                    number = int(name.removeprefix("job-"))
                    self.starts.setdefault(name, second - self.begin_us // SECOND_US)
                    ends[name] = at + self.jobs[number][2]
                    moments.append((ends[name], "end", number))
                self.seen = len(cluster.starts)
            cluster.clock.us = self.begin_us + END * SECOND_US
            await cluster.see("elsewhere", 0, quota="")
            self.events = cluster.transport.events
        return self


def lived(jobs, cores, order, delay):
    return simulate(Live(jobs, cores, order, delay).live())


async def asked(quotas, jobs, *, nodes=0, period=None):
    """Jobs of (second, quota, cores, seconds that they run), each asked for once. Milli-core-seconds that were held.

    ``quotas``: name to fields of a quota. ``period``: budgets begin anew after so many seconds, and burn what is held.
    """
    async with Cluster() as cluster:
        if nodes:
            await cluster.see_node("n", "n", allocatable={"cpu": str(nodes)})
        for name, fields in quotas.items():
            await cluster.see_quota(name, **fields)
        begin_us, running, total = cluster.clock.us, {}, 0
        ledger = Ledger(cluster, quotas, period)
        moments = [(at, "ask", n) for n, (at, _, _, _) in enumerate(jobs)]
        moments += [(at, "look", 0) for at in range(period or ASKED, ASKED + 1, period or ASKED)]
        while moments:
            moments.sort()
            at, what, number = moments.pop(0)
            if at > ASKED:
                break
            cluster.clock.us = begin_us + at * SECOND_US
            ledger.advance(at, running)
            _, quota, cpu, seconds = jobs[number]
            if what == "ask":
                # The names of quotas of the two kinds are two.
                label = ELASTIC if quotas[quota].get("kind") == "ElasticQuota" else QUOTA
                asks = job(f"job-{number}", cpu)
                asks["metadata"]["labels"] = {label: quota}
                if (await cluster.review(asks)).allowed:
                    await cluster.see(f"job-{number}", cpu, labels={label: quota})
                    running[number] = (quota, cpu, at)
                    moments.append((at + seconds, "end", number))
            elif what == "end":
                await cluster.lose(f"job-{number}")
                total += seconds * running.pop(number)[1] * 1_000
            await ledger.say(at, running)
        await cluster.see("elsewhere", 0, quota="")
        total += sum((ASKED - since) * cpu * 1_000 for _, cpu, since in running.values())
        return cluster.transport.events, total


class Ledger:
    """Meters of the budgets, as the ledger would say them if pods ran as long as their jobs."""

    def __init__(self, cluster, quotas, period):
        self.cluster, self.period, self.at = cluster, period, 0
        self.spent = {name: 0 for name, fields in quotas.items() if fields.get("cash")}

    def advance(self, at, running):
        for name in self.spent if self.period else ():
            if at // self.period > self.at // self.period:
                self.spent[name], begin = 0, at // self.period * self.period
            else:
                begin = self.at
            self.spent[name] += (at - begin) * rate(running, name)
        self.at = at

    async def say(self, at, running):
        begin_s = self.cluster.clock.us // SECOND_US - at
        resets_s = begin_s + (at // self.period + 1) * self.period if self.period else 0
        for name, spent in self.spent.items():
            meter = Meter(name, "limits.cpu", spent, rate(running, name), begin_s + at, resets_s=resets_s)  # fmt: skip
            tree = self.cluster.admission.journals.tree("biz/" + name)
            await self.cluster.admission.keeper.say(
                tree, lambda draft, meter=meter: TreeMetered(number=draft.number, meters=(meter,))
            )


def rate(running, name):
    return sum(cpu * 1_000 for quota, cpu, _ in running.values() if quota == name)


def random_asks(rng, *quotas):
    return [
        (rng.randrange(10, 3_000), rng.choice(quotas), rng.randrange(1, 5), rng.choice([300, 600]))
        for _ in range(20)
    ]
