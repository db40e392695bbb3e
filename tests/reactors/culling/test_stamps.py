"""Kubeflow's stamps on Notebooks: what is written, how seldom, and never where it must not be. Source: docs/culling.md."""

import re
from itertools import count

import pytest

from bus import crashpoints
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
)
from bus.events.histories import HistoryRecovered
from bus.events.policies import PauseChanged
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED
from reactors.culling.effectors import StampWriter
from reactors.culling.effectors.stamps import AT_ONCE
from reactors.culling.stamps import Stamping, changes
from tests.factories import pod_vanished, said, stamp, us, workload_observed
from tests.reactors.culling.scene import Notebooks

#: What Kubeflow's web UI and Go's time.RFC3339 read, in whole seconds.
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
PERIOD = 150


def stamping(active, now, spacing_s=PERIOD):
    return Stamping("u", "ns", "nb", stamp(active), stamp(now), spacing_s * 1_000_000)


def stamps(active, checked):
    return {LAST_ACTIVITY: stamp(active), CHECKED_AT: stamp(checked)}


@pytest.mark.parametrize(
    ("wanted", "have", "is_written"),
    [
        (stamping(900, 1_000), {}, True),
        (stamping(900, 1_000), {LAST_ACTIVITY: stamp(900)}, True),
        (stamping(900, 1_000), {CHECKED_AT: stamp(990)}, True),
        (stamping(900, 1_000), stamps(900, 500), False),
        (stamping(900, 1_000), stamps(841, 500), False),
        (stamping(900, 1_000), stamps(840, 500), True),
        (stamping(900, 1_000), stamps(0, 851), False),
        (stamping(900, 1_000), stamps(0, 850), True),
        (stamping(900, 1_000), stamps(5_000, 500), True),
        (stamping(900, 1_000), stamps(0, 9_000), True),
        (stamping(900, 1_000), stamps("long ago", 500), True),
        (stamping(900, 1_000), stamps(0, "long ago"), True),
        (stamping(900, 1_000, 0), stamps(900, 999), True),
        (stamping(900, 1_000, 0), stamps(900, 1_000), False),
    ],
    ids=[
        "none there", "one missing", "the other missing", "nothing new", "less than a minute",
        "a minute", "sooner than a period", "a period later", "activity ahead of the clock",
        "checked ahead of the clock", "activity unreadable", "check unreadable",
        "Kubeflow's rules: every check", "Kubeflow's rules: there already",
    ],
)  # fmt: skip
def test_when_a_stamp_is_worth_a_write(wanted, have, is_written):
    both = {LAST_ACTIVITY: wanted.last_activity, CHECKED_AT: wanted.checked_at}

    assert (both if is_written else {}) == changes(wanted, {"other": "x", **have})


@pytest.mark.parametrize("wanted", [stamping(900, 1_000), Stamping("u", "ns", "nb")])
def test_of_a_stopped_notebook_both_are_taken_away(wanted):
    have = stamps(900, 500) | {STOPPED: "", "other": "x"}

    assert {LAST_ACTIVITY: None, CHECKED_AT: None} == changes(wanted, have)
    assert {} == changes(wanted, {STOPPED: ""})


# written


class Api:
    """Notebooks as an API server has them. ``fails`` is raised by the next write."""

    def __init__(self, at):
        self.at = at
        self.objects = {}
        self.asked = self.written = 0
        self.fails = None

    async def get(self, path):
        self.asked += 1
        if path not in self.objects:
            raise NotFoundError()
        return self.objects[path]

    async def merge(self, path, body):
        found = self.objects[path]["metadata"]
        meta = body["metadata"]
        assert (found["uid"], found["resourceVersion"]) == (meta["uid"], meta["resourceVersion"])
        if self.fails is not None:
            raise self.fails
        self.written += 1
        kept = {**found["annotations"], **meta["annotations"]}
        found["annotations"] = {key: text for key, text in kept.items() if text is not None}
        found["resourceVersion"] = str(int(found["resourceVersion"]) + 1)
        await self.show(path)

    async def show(self, path):
        """What a watch says of it."""
        meta = self.objects[path]["metadata"]
        self.at.version += 1
        await self.at.say(
            workload_observed(
                meta["uid"], self.at.version, at=self.at.at(), kind="Notebook",
                annotations=meta["annotations"],
            )
        )  # fmt: skip


class Stamped(Notebooks):
    """Notebooks with an API server, and a writer whose rounds are every ten seconds."""

    def __init__(self):
        super().__init__()
        self.pauses = count()
        self.api = Api(self)
        self.writer = StampWriter(self.runner.replica, self.api, self.clock)

    async def begin(self, mode="on", **policy):
        await self.idle(mode=mode, idle_seconds=86_400, **policy)
        self.path = "/apis/kubeflow.org/v1/namespaces/ns/notebooks/Notebook-nb-1"
        self.meta = {"uid": "Notebook-nb-1", "resourceVersion": "1", "annotations": {}}
        self.api.objects[self.path] = {"metadata": self.meta}

    async def live(self, seconds):
        for _ in range(int(seconds // 10)):
            await self.pass_time(10)
            await self.writer.round()

    @property
    def stamps(self):
        found = self.meta["annotations"]
        return found.get(LAST_ACTIVITY), found.get(CHECKED_AT)


async def test_a_notebook_that_nobody_uses_costs_one_write():
    at = Stamped()
    await at.begin()
    await at.live(7_200)

    assert (1, stamp(0)) == (at.api.written, at.stamps[0])


async def test_one_in_use_costs_at_most_one_write_in_each_check_period():
    at = Stamped()
    await at.begin(check_period_seconds=PERIOD)
    at.kernels["nb-1"] = {"busy": True, "active_us": None}
    await at.live(7_200)

    assert 7_200 / PERIOD / 2 < at.api.written <= 7_200 / PERIOD
    assert at.stamps[0] >= stamp(6_900)


async def test_the_stamps_are_what_kubeflows_web_ui_reads():
    at = Stamped()
    await at.begin()
    at.kernels.clear()
    await at.live(100)
    at.kernels["nb-1"] = {"active_us": us(65.75)}
    await at.live(20)
    # Its back end hands over annotations.get(key, ""), its front end makes a date of it.
    read = at.meta["annotations"].get("notebooks.kubeflow.org/last-activity", "")

    assert stamp(65) == read
    assert all(RFC3339.fullmatch(one) for one in at.stamps)
    assert "notebooks.kubeflow.org/last_activity_check_timestamp" in at.meta["annotations"]


async def test_what_is_unknown_is_not_written():
    at = Stamped()
    await at.begin()
    at.kernels["nb-1"] = {"outcome": "refused", "active_us": None}
    await at.live(3_600)

    assert (0, 0) == (at.api.asked, at.api.written)


async def in_shadow(at):
    await at.policy("shadow", idle_seconds=86_400)


async def switched_off(at):
    await at.policy("off", idle_seconds=86_400)


async def paused(at):
    fact = PauseChanged(is_paused=True, author="me")
    await at.say(said(fact, key="r", id=f"p{next(at.pauses)}", at=at.at()))


async def recovered(at):
    await at.say(said(HistoryRecovered(incarnation=2), key="h", id="h", at=at.at()))


@pytest.mark.parametrize("held", [in_shadow, switched_off, paused, recovered])
async def test_what_holds_every_effect_holds_this_one(held):
    at = Stamped()
    await at.begin()
    await held(at)
    await at.live(400)

    assert (0, 0) == (at.api.asked, at.api.written)


async def test_a_pause_holds_what_waits_in_the_same_round():
    at = Stamped()
    await at.begin()
    await at.idle(3 * AT_ONCE, idle_seconds=86_400)
    await at.pass_time(110)

    async def asked(path):
        at.api.asked += 1
        await paused(at)
        raise NotFoundError()

    at.api.get = asked
    await at.writer.round()

    assert 0 < at.api.asked <= AT_ONCE


async def test_a_namesake_is_left_alone():
    at = Stamped()
    await at.begin()
    at.meta["uid"] = "another"
    await at.live(300)

    assert (True, 0) == (at.api.asked > 0, at.api.written)


async def test_what_is_being_deleted_or_gone_stays_so():
    at = Stamped()
    await at.begin()
    at.meta["deletionTimestamp"] = stamp(0)
    await at.live(200)
    at.api.objects.clear()
    await at.live(200)

    assert (0, {}) == (at.api.written, at.api.objects)


async def test_a_notebook_that_was_stopped_meanwhile_gets_none():
    at = Stamped()
    await at.begin()
    at.meta["annotations"] = {STOPPED: ""}
    await at.live(200)

    assert (0, {STOPPED: ""}) == (at.api.written, at.meta["annotations"])


async def test_when_its_owner_stops_it_they_go_and_a_restart_begins_anew():
    at = Stamped()
    await at.begin()
    await at.live(300)
    before = at.stamps
    at.meta["annotations"][STOPPED] = stamp(300)
    await at.api.show(at.path)
    await at.say(pod_vanished("nb-1", version=90, at=at.at()))
    await at.live(20)
    stopped = dict(at.meta["annotations"])
    del at.meta["annotations"][STOPPED]
    await at.api.show(at.path)
    del at.kernels["nb-1"]
    await at.see("nb-2", pod={"owner": None, "created": at.at()})
    began = at.at()
    at.runner.replica.cluster_state.index.owned.add("Notebook-nb-1", "nb-2")
    at.kernels["nb-2"] = {"active_us": us(0)}
    await at.live(200)

    assert (stamp(0), {STOPPED: stamp(300)}) == (before[0], stopped)
    assert stamp(began) == at.stamps[0]


async def test_a_notebook_whose_pod_is_gone_loses_them():
    at = Stamped()
    await at.begin()
    await at.live(300)
    await at.say(pod_vanished("nb-1", version=90, at=at.at()))
    await at.live(100)

    assert (None, None) == at.stamps


async def test_a_conflict_is_tried_again_in_the_next_round():
    at = Stamped()
    await at.begin()
    at.api.fails = ConflictError()
    await at.live(150)
    at.api.fails = None
    await at.live(20)

    assert 1 == at.api.written


async def test_after_a_refusal_it_rests():
    at = Stamped()
    await at.begin()
    at.api.fails = PermissionDeniedError()
    await at.live(600)

    assert (1, 0) == (at.api.asked, at.api.written)


async def test_an_answer_that_cannot_be_read_is_tried_again_in_the_next_round():
    at = Stamped()
    await at.begin()
    at.api.fails = MalformedJsonError()
    await at.live(150)
    at.api.fails = None
    await at.live(20)

    assert 1 == at.api.written


async def test_an_api_server_that_is_away_ends_the_round_and_no_more():
    at = Stamped()
    await at.begin()
    at.api.fails = ClusterUnavailableError()
    with pytest.raises(ClusterUnavailableError):
        await at.live(200)
    at.api.fails = None
    await at.live(20)

    assert 1 == at.api.written


class Killed(BaseException):
    """Ends a process as a signal does."""


@pytest.mark.parametrize("label", ["stamp.before_write", "stamp.after_write"])
async def test_killed_at_either_label_it_is_written_once(label):
    at = Stamped()
    await at.begin()

    def hook(reached):
        if reached == label:
            crashpoints.install(None)
            raise Killed

    crashpoints.install(hook)
    with pytest.raises(Killed):
        await at.live(200)
    at.writer = StampWriter(at.runner.replica, at.api, at.clock)
    await at.live(100)

    assert 1 == at.api.written
