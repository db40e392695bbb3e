"""The order of releases against a brute-force oracle: random arrivals, strict and back-fill, second by second.

The oracle knows one number, the room of the quota, and does what the rules say in the plainest way. The product's own
functions decide on a quota tree. What passed the head and is taken back begins anew when it comes again.
"""

import copy
import random
from dataclasses import dataclass

import pytest

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionReleased, Release
from bus.events.quotas import Queue
from projections.quota_trees import TreeOverlay
from reactors.queue.decide import decide_releases, decide_returns
from reactors.queue.shape import Running, WaitingWorkload
from tests.quota_trees import CPU, Books, request
from tests.thorough import tries

ROOM = 10
HORIZON = 900
#: The last arrival.
LAST = 60


@dataclass
class Job:
    """``seconds`` it runs; ``deadline``: at most so long, None = it says nothing of that."""

    uid: str
    cpu: int
    arrives: int
    seconds: int
    deadline: int | None = None
    priority: int = 0

    @property
    def place(self):
        return -self.priority, self.arrives, self.uid


class World:
    """Jobs that wait, run and end on one quota."""

    def __init__(self, jobs, order, delay=0):
        self.books = Books()
        self.books.show_quota(hard=ROOM)
        self.queue = Queue(True, order, delay)
        self.coming = sorted(jobs, key=lambda job: job.arrives)
        self.waiting, self.running, self.passed = [], {}, {}
        self.now = 0
        #: uid to the second of its last start; and every start as (second, uid).
        self.started, self.log = {}, []

    def copy(self, order):
        other = copy.deepcopy(self)
        other.queue = Queue(True, order, self.queue.max_head_delay_seconds)
        return other

    def step(self):
        """One second."""
        for uid, job in list(self.running.items()):
            if self.started[uid] + job.seconds <= self.now:
                self._stop(uid)
        self.waiting += [job for job in self.coming if job.arrives == self.now]
        for uid in self._returns():
            self.waiting.append(self.running[uid])
            self._stop(uid)
        for uid, head in self._releases():
            job = next(job for job in self.waiting if job.uid == uid)
            self.waiting.remove(job)
            self.running[uid], self.started[uid] = job, self.now
            if head:
                self.passed[uid] = head
            self.log.append((self.now, uid))
        assert self.books.used() <= ROOM
        self.now += 1

    def _stop(self, uid):
        del self.running[uid]
        self.passed.pop(uid, None)
        release = Release("q", uid, "finished")
        self.books.store(
            AdmissionReleased(number=self.books.tree.number + 1, releases=(release,)), at=self.now
        )

    def _releases(self):
        draft = TreeOverlay(self.books.tree)
        facts = decide_releases(
            draft, self._waiting(), self.queue, self._running(), self.now * SECOND_US
        )
        self.books.store(*facts, at=self.now)
        return [(fact.uid, fact.passed) for fact in facts]

    def _returns(self):
        return decide_returns(
            TreeOverlay(self.books.tree), self._waiting(), self.queue, self._running(),
            self.now * SECOND_US,
        )  # fmt: skip

    def _waiting(self):
        return [
            WaitingWorkload(
                request(job.uid, job.cpu), job.priority, job.arrives * SECOND_US, job.deadline
            )
            for job in self.waiting
        ]

    def _running(self):
        for uid, job in self.running.items():
            ends = None if job.deadline is None else (self.started[uid] + job.deadline) * SECOND_US
            yield Running(uid, {CPU: job.cpu}, ends, self.passed.get(uid, ""))

    @property
    def head(self):
        """The first that waits after a step: it did not fit."""
        return min(self.waiting, key=lambda job: job.place, default=None)

    def run(self, until=None):
        """Every start, to the end, or to the next one of a workload."""
        known = len(self.log)
        while self.now < HORIZON and (self.waiting or self.running or self.now <= LAST):
            self.step()
            if until in {uid for _, uid in self.log[known:]}:
                break
        return self.log


class Oracle(World):
    """The same world, decided by plain numbers."""

    def _releases(self):
        room, head, found = ROOM - sum(j.cpu for j in self.running.values()), None, []
        for job in sorted(self.waiting, key=lambda job: job.place):
            if head is not None and not self._passes(job, head):
                continue
            if job.cpu <= room:
                room -= job.cpu
                found.append((job.uid, head.uid if head else ""))
            elif head is None:
                head = job
                if self.queue.order == "Strict" or not self.queue.max_head_delay_seconds:
                    break
                self.free_at = self._free_at(job, room)
        return found

    def _passes(self, job, head):
        bound = head.arrives + self.queue.max_head_delay_seconds
        if job.deadline is None:
            return self.now < bound
        ends = self.now + job.deadline
        return ends <= bound and (self.free_at is None or ends <= self.free_at)

    def _free_at(self, head, room):
        for second in range(self.now, self.now + 10_000):
            freed = [
                j.cpu
                for u, j in self.running.items()
                if j.deadline is not None and self.started[u] + j.deadline <= second
            ]
            if room + sum(freed) >= head.cpu:
                return second
        return None

    def _returns(self):
        head = self.head
        delay = self.queue.max_head_delay_seconds
        if head is None or not delay or self.now < head.arrives + delay:
            return []
        room, found = ROOM - sum(j.cpu for j in self.running.values()), []
        mine = [u for u, h in self.passed.items() if h == head.uid]
        for uid in reversed([u for u in mine if self.running[u].deadline is None]):
            if room < head.cpu:
                found.append(uid)
                room += self.running[uid].cpu
        return found if room >= head.cpu and found else []

    def _stop(self, uid):
        del self.running[uid]
        self.passed.pop(uid, None)


def some_jobs(seed, *, priorities=(0, 0, 1, 5)):
    chance = random.Random(seed)
    jobs = []
    for number in range(40):
        seconds = chance.randint(1, 30)
        bound = seconds + chance.choice([0, 0, 5, 20])
        jobs.append(
            Job(
                f"u{number:02}", chance.choice([1, 1, 2, 3, 6, 10]), chance.randint(0, LAST),
                seconds, chance.choice([None, bound]), chance.choice(priorities),
            )
        )  # fmt: skip
    return jobs


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(3, 10)))
@pytest.mark.parametrize(("order", "delay"), [("Strict", 0), ("BackFill", 0), ("BackFill", 25)])
def test_releases_follow_the_oracle(seed, order, delay):
    jobs = some_jobs(seed)

    assert Oracle(jobs, order, delay).run() == World(jobs, order, delay).run()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(3, 10)))
def test_the_head_of_a_strict_queue_never_waits_for_a_later_one(seed):
    world = World(some_jobs(seed), "Strict")
    while world.waiting or world.now <= LAST:
        before = len(world.log)
        world.step()
        started = {uid for _, uid in world.log[before:]}
        places = [job.place for uid, job in world.running.items() if uid in started]
        assert all(place < world.head.place for place in places) if world.head else True


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(3, 10)))
def test_back_fill_delays_the_head_at_most_by_max_head_delay(seed):
    """By replaying both: from the moment a workload is the head, once with and once without passing it."""
    delay, world = 20, World(some_jobs(seed, priorities=(0,)), "BackFill", 20)
    heads = {}
    while world.waiting or world.now <= LAST:
        world.step()
        if world.head is not None and world.head.uid not in heads:
            # Those that had passed others before go on in both.
            without = world.copy("Strict")
            heads[world.head.uid] = (world.now, without.run(until=world.head.uid))
    late = [
        first(world.log, uid, since) - first(log, uid, since) for uid, (since, log) in heads.items()
    ]

    assert heads
    assert max(late) <= delay


def first(log, uid, since):
    """When a workload started, from a second on: it may have run before, and been taken back."""
    return next(second for second, started in log if started == uid and second >= since)


def test_back_fill_without_the_bounds_would_starve_the_head():
    """The test above can see: with an order that lets everybody pass, the head comes later than that."""
    jobs = [Job("first", 6, 0, 30), Job("head", 10, 1, 5)]
    jobs += [Job(f"s{n:02}", 4, 2 + n, 60) for n in range(20)]
    fair, unfair = World(jobs, "BackFill", 20), World(jobs, "BackFill", 10_000)

    assert [30, 30] > [dict(map(reversed, fair.run()))["head"] - 30, 0]
    assert "head" not in {uid for second, uid in unfair.run() if second <= 60}


def test_a_workload_with_a_deadline_passes_only_if_it_is_over_before_the_head_could_start():
    jobs = [Job("first", 6, 0, 30, 30), Job("head", 10, 1, 5)]
    jobs += [Job("long", 2, 2, 29, 29), Job("short", 2, 3, 27, 27)]

    assert [(0, "first"), (3, "short"), (30, "head")] == World(jobs, "BackFill", 100).run()[:3]


def test_all_or_nothing():
    log = World([Job("first", 8, 0, 10), Job("wide", 3, 1, 5)], "Strict").run()

    assert [(0, "first"), (10, "wide")] == log


def test_what_was_ordered_to_hold_keeps_nobody_waiting():
    books = Books()
    books.show_quota(hard=ROOM)
    held = WaitingWorkload(request("held", 20), 9, 0, is_stopped=True)
    other = WaitingWorkload(request("other", 1), 0, 1)
    facts = decide_releases(TreeOverlay(books.tree), [held, other], Queue(True, "Strict"), (), 2)

    assert ["other"] == [fact.uid for fact in facts]


def test_what_may_not_use_its_quota_keeps_nobody_waiting():
    books = Books()
    books.show_quota(hard=ROOM, namespaces=("ns",))
    alien = WaitingWorkload(request("alien", 1, namespace="elsewhere"), 9, 0)
    other = WaitingWorkload(request("other", 1), 0, 1)
    facts = decide_releases(TreeOverlay(books.tree), [alien, other], Queue(True, "Strict"), (), 2)

    assert ["other"] == [fact.uid for fact in facts]
