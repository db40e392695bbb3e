"""Runs `openb_ledger` cases: the recorded trace → bus → runner → ledger → sums, peaks and moments of it.

Cards are not in the ledger, which charge milli-cards: a share of a card occupies one, so cards are milli-cards / 1000,
rounded up. Everything else is asked of the ledger as it stands.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from functools import cached_property

import msgspec
import sqlalchemy as sa

from bus.memory import MemoryTransport
from bus.sources.openb import read_trace
from projections.accounts import accounts
from projections.catalogue import METADATA, MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.pod_runs import pod_runs
from projections.usage import usage_days

#: The case's names of what is summed → the ledger's.
AMOUNTS = {"gpu": "gpu_milli", "cpu": "cpu_milli", "mem": "memory_mib"}
#: Names of sums in the totals, and the hours beside them: name, seconds, units in one.
HOURS = {
    "gpu_hours": ("gpu_milli_s", 3_600_000),
    "card_hours": ("card_s", 3_600),
    "cpu_core_hours": ("cpu_milli_s", 3_600_000),
    "mem_gib_hours": ("mem_mib_s", 1024 * 3_600),
}


class TracePod(msgspec.Struct):
    """One pod as the ledger has it after the whole trace."""

    qos: str
    spec: str
    phase: str
    waiting_s: int
    created_s: int
    start_s: int | None
    end_s: int
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def cards(self):
        """Cards it occupies, a share counted as one."""
        return -(-self.gpu_milli // 1000)

    @property
    def held_s(self):
        """Seconds it held."""
        return 0 if self.start_s is None else self.end_s - self.start_s


class Trace:
    """A ledger of one trace, folded once; questions in the words of the case file."""

    def __init__(self, folder, pods_file, path):
        self.events = list(read_trace(folder, pods_file))
        self.store = told(self.events, path)
        self.pods = trace_pods(self.store)

    def stream(self):
        """Number of pod events, and the digest of their canonical stream."""
        lines = [_line(e) for e in self.events if e.type.startswith("pod.")]
        return len(lines), hashlib.sha256("".join(lines).encode()).hexdigest()

    def counts(self):
        """Pods by qos, phase and spec."""
        found = Counter()
        for pod in self.pods:
            names = (f"phase:{pod.phase}", f"qos:{pod.qos}", f"spec:{pod.spec}")
            found.update((*names, f"qos_phase:{pod.qos}/{pod.phase}"))
        return dict(found)

    @cached_property
    def totals(self):
        """Sums of every group."""
        groups = defaultdict(list)
        for pod in self.pods:
            names = ("all", f"qos:{pod.qos}", f"spec:{pod.spec}", f"phase:{pod.phase}")
            for name in (*names, f"qos_spec:{pod.qos}/{pod.spec}"):
                groups[name].append(pod)
        return {name: _totals(pods) for name, pods in groups.items()}

    def peaks(self):
        """The largest value of each amount and when it was first reached."""
        held = [pod for pod in self.pods if pod.held_s]
        waits = [(p.created_s, p.created_s + p.waiting_s, 1) for p in self.pods if p.waiting_s]
        found = {
            name: peak([(p.start_s, p.end_s, getattr(p, amount)) for p in held])
            for name, amount in (*AMOUNTS.items(), ("cards", "cards"))
        }
        found["pods"] = peak([(p.start_s, p.end_s, 1) for p in held])
        return found | {"waiting": peak(waits)}

    def peak_if_acquired_first(self):
        """The GPU peak where what starts in a second is counted before what ends in it."""
        steps = [(p.start_s, p.end_s, p.gpu_milli) for p in self.pods if p.held_s]
        return peak(steps, acquire_first=True)["value"]

    def checkpoint(self, second):
        """Who holds and waits at a second, and what was charged until then, as `accounts` tells it."""
        held = [p for p in self.pods if p.held_s and p.start_s <= second < p.end_s]
        waiting = [p for p in self.pods if p.created_s <= second < p.created_s + p.waiting_s]
        told = {"t": second, "waiting": len(waiting), "live_pods": len(held)}
        told |= {f"live_{n}": sum(getattr(p, a) for p in held) for n, a in AMOUNTS.items()}
        told["live_cards"] = sum(p.cards for p in held)
        return told | {f"{n}_seconds": v for n, v in self.charged(second).items()}

    def charged(self, second, store=None):
        """Amounts × seconds charged before a second."""
        held = [
            h for a in accounts((store or self.store).select, as_of_s=second) for h in a.holdings
        ]
        found = {
            name: sum(getattr(h, amount) * (h.end_s - h.start_s) for h in held)
            for name, amount in AMOUNTS.items()
        }
        return found | {"cards": sum(-(-h.gpu_milli // 1000) * (h.end_s - h.start_s) for h in held)}

    def by_day(self):
        """Daily sums, from the table that is kept while folding."""
        days = usage_days.c
        query = sa.select(
            days.day_s, sa.func.sum(days.gpu_milli_s), sa.func.sum(days.cpu_milli_s)
        ).group_by(days.day_s)
        return {
            str(day_s // 86_400): {"gpu_milli_s": int(gpu), "cpu_milli_s": int(cpu)}
            for day_s, gpu, cpu in self.store.select(query)
        }

    def cut_at(self, second, path):
        """What the pods that end at a second are charged when their deletes were never recorded."""
        runs = self.store.select(sa.select(pod_runs.c.uid).where(pod_runs.c.end_s == second))
        uids = {row[0] for row in runs}
        events = [e for e in self.events if e.key in uids and e.type == "pod.observed"]
        store = told(events, path)
        charged = self.charged(second, store)
        store.close()
        return {
            "t": second,
            "pods": len(uids),
            "gpu_milli_s": charged["gpu"],
            "cpu_milli_s": charged["cpu"],
        }


def told(events, path):
    """The ledger of a history, through bus and runner."""
    store = Store(engine(f"sqlite:///{path}"))
    METADATA.create_all(store.engine)

    async def play():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(MODEL, store), transport).run(live=False)

    asyncio.run(play())
    return store


def trace_pods(store):
    """Every pod of the ledger. A pod of the trace never changes while it holds."""
    columns = (pod_runs.c.uid, pod_runs.c.start_s, pod_runs.c.end_s)
    runs = {uid: (start_s, end_s) for uid, start_s, end_s in store.select(sa.select(*columns))}
    found = []
    for account in accounts(store.select, as_of_s=2**40):
        labels = account.labels
        pod = TracePod(
            labels["qos"], labels.get("gpu_spec", "(any)"), labels["phase"], account.waiting_s,
            account.created_s, *runs[account.uid],
        )  # fmt: skip
        for held in account.holdings:
            pod.gpu_milli, pod.cpu_milli = held.gpu_milli, held.cpu_milli
            pod.memory_mib = held.memory_mib
        found.append(pod)
    return found


def peak(intervals, *, acquire_first=False):
    """The largest sum over half-open intervals (from, to, amount), and the first second that has it."""
    steps = [(start, acquire_first is False, amount) for start, _, amount in intervals]
    steps += [(end, acquire_first is True, -amount) for _, end, amount in intervals]
    value = best = 0
    first_at = None
    for second, _, amount in sorted(steps):
        value += amount
        if value > best:
            best, first_at = value, second
    return {"value": best, "first_at": first_at}


def _totals(pods):
    never = [p for p in pods if p.start_s is None]
    found = {
        "card_s": sum(p.cards * p.held_s for p in pods),
        "cpu_milli_s": sum(p.cpu_milli * p.held_s for p in pods),
        "gpu_milli_s": sum(p.gpu_milli * p.held_s for p in pods),
        "mem_mib_s": sum(p.memory_mib * p.held_s for p in pods),
        "held_s": sum(p.held_s for p in pods),
        "held_pods": len(pods) - len(never),
        "never_scheduled": len(never),
        "never_scheduled_s": sum(p.waiting_s for p in never),
        "queued_s": sum(p.waiting_s for p in pods if p.start_s is not None),
    }
    return found | {name: round(found[of] / unit, 6) for name, (of, unit) in HOURS.items()}


def _line(event):
    body = msgspec.json.decode(event.body)
    kind = (
        "deleted" if event.type == "pod.vanished" else "scheduled" if "node" in body else "created"
    )
    return f"{event.time_us // 1_000_000},{kind},{body['name']}\n"
