"""A day of a mixed AI cluster under three sets of rules: training gangs, notebooks and inference on shared cards, in process.

    python -m tests.benchmarks.ai_day [--openb traces/openb] [--genai traces/genai-2026] [--load 95] [--out day.svg]

Without traces a day is made from a seed. With both, *inference* are the containers of genai (cluster-trace-v2026-GenAI), half a
card each, from their first sample to the last, and the rest is openb's newest three days laid over one: pods of whole cards, each
two to sixteen that follow one another, are a *training* gang (the trace names no jobs), and pods with a part of a card are
*notebooks*. The nodes, with eight cards each, are as many as the day would fill by ``load`` percent on the mean.

- *Bursar*: strict gangs in one pass, DeviceShare, GpuCards with the policy Learned.
- *Koordinator*: its published rules: strict gangs, DeviceShare with LeastAllocated. Its pods are tried one by one, and a gang is
  rejected with the first that fails, which is the same outcome without its time.
- *kube-scheduler*: its default plugins, first come, first served, whole cards only: a share has a card of its own. It knows no
  gangs here: a pod that found a node holds it, and a job runs when its last pod has one.

All three run on the same framework, by the same queue and the same ties. Nobody is evicted, all pods are equally important.
*wait* is from arrival until a pod, of training the last of its gang, has a node; who waits at the end counts until then.
*held*: parts of cards that nobody else can get, of all; *working*: those of them that somebody asked for and whose gang runs.
*split*: idle parts of cards that are begun, of all idle ones. Each is a mean over the day, taken every two minutes.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import statistics
import tarfile
import time
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import msgspec

from bus.events.constraints import GangTerms, PodConstraints
from bus.events.decisions import Refusal
from projections.cluster import Pod
from projections.cluster.objects import Change
from reactors.scheduling.columns.cards import WHOLE, wanted
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.cycle.trial import attempts
from reactors.scheduling.plugins.catalogue import profile_of
from reactors.scheduling.shape import Mark
from tests.benchmarks import measure
from tests.benchmarks.cluster_state import MIB
from tests.benchmarks.day_picture import picture
from tests.benchmarks.measure import Report
from tests.benchmarks.scheduling import cluster

NAME, CARDS, DAY, STEP = "ai", 8, 86_400, 120
KINDS = ("training", "notebook", "inference")
FOLDED_DAYS = 3
_K = "koordinator.sh/gpu"
_OFFER = {f"{_K}-core": "800", f"{_K}-memory-ratio": "800", f"{_K}-memory": "640Gi"}
_MOST = {"cpu": "128", "memory": "1Ti"}


class Job(msgspec.Struct, frozen=True):
    """Pods that arrive together, ``at`` a second of the day, and run for ``seconds`` once all have a node."""

    kind: str
    at: int
    seconds: int
    #: Of each pod: thousandths of a core, MiB, cards, thousandths of each card.
    pods: tuple[tuple[int, int, int, int], ...]

    @property
    def milli(self) -> int:
        """Thousandths of cards."""
        return sum(cards * milli for _, _, cards, milli in self.pods)


def generated(seed: int = 1) -> list[Job]:
    """A day by dice: twenty services, a notebook in three minutes, a gang in twelve."""
    dice = random.Random(seed)
    found = [Job("inference", dice.randrange(3_600), DAY, ((4_000, 8_192, 1, 500),)) for _ in range(20)]  # fmt: skip
    for _ in range(480):
        share = dice.choice((100, 250, 460, 500, 810, 1_000))
        seconds = int(dice.expovariate(1 / 3_600)) + 60
        found.append(Job("notebook", dice.randrange(DAY), seconds, ((4_000, 16_384, 1, share),)))
    for _ in range(120):
        count, cards = dice.choice(((2, 1), (4, 1), (8, 1), (2, 4), (2, 8)))
        seconds = int(dice.expovariate(1 / 3_600)) + 60
        shapes = ((8_000 * cards, 32_768 * cards, cards, WHOLE),) * count
        found.append(Job("training", dice.randrange(DAY), seconds, shapes))
    return sorted(found, key=lambda job: job.at)


def from_openb(folder: Path, seed: int = 1) -> Iterator[Job]:
    """Notebooks and gangs."""
    dice, gang, size = random.Random(seed), list[Any](), 0
    with (folder / "openb_pod_list_default.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["num_gpu"])]
    last = max(int(row["creation_time"]) for row in rows)
    for row in sorted(rows, key=lambda row: int(row["creation_time"])):
        created, ended = int(row["creation_time"]), int(row["deletion_time"])
        if created < last - FOLDED_DAYS * DAY:
            continue
        seconds, milli = min(max(ended - created, STEP), DAY // 2), int(row["gpu_milli"])
        shape = (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), milli)
        if milli < WHOLE:
            yield Job("notebook", created % DAY, seconds, (shape,))
            continue
        size = size or dice.choice((2, 4, 8, 16))
        gang.append((created % DAY, seconds, shape))
        if len(gang) == size:
            yield Job("training", gang[-1][0], max(one[1] for one in gang), tuple(one[2] for one in gang))  # fmt: skip
            gang, size = [], 0


def from_genai(folder: Path) -> Iterator[Job]:
    """Services: a container from its first sample to the last."""
    seen: dict[str, tuple[float, float]] = {}
    with tarfile.open(folder / "pod_gpu_duty_cycle_anon.tar.gz") as archive:
        member = next(one for one in archive if one.name.endswith(".csv"))
        file = archive.extractfile(member)
        assert file is not None
        for row in csv.DictReader(io.TextIOWrapper(file)):
            at, key = float(row["timestamp_anon"]), row["container_ip"]
            first, last = seen.get(key, (at, at))
            seen[key] = min(first, at), max(last, at)
    start = min(first for first, _ in seen.values())
    for first, last in seen.values():
        yield Job("inference", int(first - start), int(last - first) + STEP, ((4_000, 16_384, 1, 500),))  # fmt: skip


def day_of(args: argparse.Namespace) -> list[Job]:
    """The jobs of the day, by their times."""
    jobs: list[Job] = []
    if args.openb != Path():
        jobs += from_openb(args.openb)
    if args.genai != Path():
        jobs += from_genai(args.genai)
    return sorted(jobs, key=lambda job: job.at) if jobs else generated()


class Rules(msgspec.Struct, frozen=True):
    """How a scheduler places: its profile, whether gangs start together, whether it shares cards."""

    name: str
    weights: dict[str, int]
    fields: dict[str, dict[str, Any]] = {}
    has_gangs: bool = True
    shares: bool = True


RULES = (
    Rules(
        "Bursar", {"DeviceShare": 1, "GpuCards": 10, "NodeResourcesBalancedAllocation": 0},
        {"GpuCards": {"policy": "Learned"}, "DeviceShare": {"strategy": "MostAllocated"}},
    ),
    Rules("Koordinator", {"DeviceShare": 1}),
    Rules("kube-scheduler", {}, has_gangs=False, shares=False),
)  # fmt: skip


class Sample(msgspec.Struct, frozen=True):
    """A moment: thousandths of all cards that are held, that work, and that are idle on cards that are begun; pods that wait."""

    held: int
    working: int
    split: int
    waiting: int


class Simulation:
    """One day by one set of rules."""

    def __init__(self, rules: Rules, jobs: Sequence[Job], nodes: int) -> None:
        self._rules, self._jobs, self._nodes = rules, jobs, nodes
        offer = _OFFER if rules.shares else {"nvidia.com/gpu": str(CARDS)}
        self._state = cluster(nodes, **_MOST | offer)
        self._scheduler = Scheduler([profile_of(NAME, rules.weights, rules.fields)], self._state)
        self._sequence = 1
        self._left = {number: len(job.pods) for number, job in enumerate(jobs)}
        self._ends: list[tuple[int, int]] = []
        self._working = self._waiting = 0
        self.waits: dict[int, int] = {}
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Every two minutes: who ends, who arrives, who gets a node."""
        at = 0
        for now in range(0, DAY, STEP):
            while self._ends and self._ends[0][0] <= now:
                self._end(heappop(self._ends)[1], now)
            while at < len(self._jobs) and self._jobs[at].at <= now:
                self._change([(None, pod) for pod in self._pods(at)], now)
                self._waiting += len(self._jobs[at].pods)
                at += 1
            self._pass(now)
            self.samples.append(self._sample())
        for number, left in self._left.items():
            if left:
                self.waits[number] = DAY - self._jobs[number].at

    def _pods(self, number: int) -> list[Pod]:
        job = self._jobs[number]
        gang = GangTerms(f"g{number}", is_light=True, least=str(len(job.pods)))
        has_gang = self._rules.has_gangs and len(job.pods) > 1
        terms = PodConstraints(NAME, gang=gang) if has_gang else PodConstraints(NAME)
        return [
            Pod(
                f"{number}-{at}", "ns", f"{number}-{at}", "1", job.at * 1_000_000, "Pending", "", False, job.at * 1_000_000,
                0, "", None, {}, {}, self._demand(*shape), (0, 0), terms,
            )
            for at, shape in enumerate(job.pods)
        ]  # fmt: skip

    def _demand(self, cpu: int, mib: int, cards: int, milli: int) -> dict[str, int]:
        found = {"requests.cpu": cpu, "requests.memory": mib * MIB}
        if not self._rules.shares:
            return found | {"requests.nvidia.com/gpu": cards}
        part = max(1, cards * milli // 10)
        return found | {f"requests.{_K}-core": part, f"requests.{_K}-memory-ratio": part}

    def _change(self, changes: list[tuple[Pod | None, Pod | None]], now: int) -> None:
        self._sequence += 1
        told = []
        for before, after in changes:
            uid = (after or before).uid  # type: ignore[union-attr]
            if after is None:
                del self._state.pods[uid]
            else:
                self._state.pods[uid] = after
            told.append(Change("Pod", uid, before, after))
        self._scheduler.follow(told, self._sequence, now * 1_000_000)

    def _pass(self, now: int) -> None:
        while found := attempts(self._scheduler, self._sequence, now * 1_000_000, 500).get(NAME):
            mark = Mark(self._sequence, "pass", self._sequence, now * 1_000_000)
            bound = list[tuple[Pod | None, Pod | None]]()
            for one in found:
                if one.node:
                    self._scheduler.place(NAME, one.pod.uid, one.node, one.cards, mark)
                    pod = msgspec.structs.replace(one.pod, node=one.node, phase="Running")
                    bound.append((one.pod, pod))
                else:
                    refusal = Refusal(one.refused, one.reason)
                    self._scheduler.refuse(NAME, one.pod.uid, refusal, self._nodes, now * 1_000_000)
            self._change(bound, now)
            for _, after in bound:
                assert after is not None
                self._started(int(after.uid.partition("-")[0]), now)

    def _started(self, number: int, now: int) -> None:
        self._left[number] -= 1
        self._waiting -= 1
        if not self._left[number]:
            self.waits[number] = now - self._jobs[number].at
            self._working += self._jobs[number].milli
            heappush(self._ends, (now + self._jobs[number].seconds, number))

    def _end(self, number: int, now: int) -> None:
        job = self._jobs[number]
        uids = [f"{number}-{at}" for at in range(len(job.pods))]
        self._change([(self._state.pods[uid], None) for uid in uids], now)
        self._working -= job.milli

    def _sample(self) -> Sample:
        columns, held, split = self._scheduler.columns, 0, 0
        for row in range(self._nodes):
            left = [WHOLE] * CARDS
            for placed in columns.placed_on(row):
                count, milli = wanted(placed.pod)
                held += count * milli
                for card in placed.cards:
                    left[card] -= milli
            split += sum(one for one in left if 0 < one < WHOLE)
        return Sample(held, self._working, split, self._waiting)


def summary(rules: Rules, jobs: Sequence[Job], nodes: int) -> dict[str, Any]:
    """The figures of one day."""
    began = time.process_time()
    day = Simulation(rules, jobs, nodes)
    day.run()
    whole = nodes * CARDS * WHOLE
    idle = sum(whole - one.held for one in day.samples)
    waits = {kind: sorted(day.waits[at] for at, job in enumerate(jobs) if job.kind == kind) for kind in KINDS}  # fmt: skip
    return {
        "rules": rules.name,
        "held": statistics.mean(one.held / whole for one in day.samples),
        "working": statistics.mean(one.working / whole for one in day.samples),
        "split": sum(one.split for one in day.samples) / max(1, idle),
        "never": sum(day.waits[at] >= DAY - job.at for at, job in enumerate(jobs) if job.at < DAY - STEP),
        "waits": {
            kind: [statistics.mean(found), found[len(found) // 2], found[len(found) * 95 // 100]]
            for kind, found in waits.items() if found
        },
        "working_over_time": [one.working / whole for one in day.samples],
        "waiting_over_time": [one.waiting for one in day.samples],
        "split_over_time": [one.split / whole for one in day.samples],
        "cpu_seconds": time.process_time() - began,
    }  # fmt: skip


def table(found: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of the page of benchmarks."""
    rows = []
    for one in found:
        waits = (
            " / ".join(f"{seconds / 60:.1f}" for seconds in one["waits"].get(kind, ()))
            for kind in KINDS
        )
        parts = (f"{one[name]:.1%}" for name in ("held", "working", "split"))
        rows.append(f"| {' | '.join([one['rules'], *parts, *waits, str(one['never'])])} |")
    return rows


#: What is drawn beside the cards that work: the end of the file's name, and the title.
_BESIDE = {"waiting": "pods that wait", "split": "idle parts of cards that are begun, of all cards"}


def draw(out: Path, found: Sequence[dict[str, Any]]) -> None:
    """Write the pictures: ``day.svg``, and beside it ``day-waiting.svg`` and ``day-split.svg``."""
    out.write_text(picture({one["rules"]: one["working_over_time"] for one in found}))
    for name, title in _BESIDE.items():
        curves = {one["rules"]: one[f"{name}_over_time"] for one in found}
        out.with_stem(f"{out.stem}-{name}").write_text(picture(curves, title, counts=name == "waiting"))  # fmt: skip


def run(args: argparse.Namespace) -> Report:
    """The same day by each set of rules."""
    jobs = day_of(args)
    wanted_cards = sum(job.milli * min(job.seconds, DAY - job.at) for job in jobs) / DAY / WHOLE
    nodes = max(2, round(wanted_cards / CARDS * 100 / args.load))
    found = [summary(rules, jobs, nodes) for rules in RULES]
    if args.out != Path():
        draw(args.out, found)
    own, koordinator, kube = (one["working"] for one in found)
    goals = [
        measure.verdict("cards that work, Bursar's by Koordinator's", [own / koordinator], ">=", 1),
        measure.verdict("cards that work, Bursar's by kube-scheduler's", [own / kube], ">=", 1),
        measure.verdict(
            "mean wait of training, Bursar's by Koordinator's",
            [found[0]["waits"]["training"][0] / max(1, found[1]["waits"]["training"][0])], "<=", 1,
        ),
    ]  # fmt: skip
    pods = sum(len(job.pods) for job in jobs)
    spent = ", ".join(f"{one['rules']} {one['cpu_seconds']:.0f} s" for one in found)
    notes = [
        f"{len(jobs):,} jobs, {pods:,} pods, {nodes} nodes of {CARDS} cards; CPU: {spent}",
        "| rules | held | working | split | training | notebook | inference | never |", *table(found),
    ]  # fmt: skip
    return {"rounds": 1, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(
            run, "A day of a mixed AI cluster.", openb=Path(), genai=Path(), load=95, out=Path()
        )
    )
