"""What one look adds to the look before: times for counters, doubts, and news."""

import pytest

from bus.events.notebooks import Evidence, NotebookSampled
from bus.notebooks.memory import Known, remember
from tests.bus.notebooks.notebooks import SECOND, UNREACHABLE, answer, peer, sampler_with


def looks(*evidence, every_seconds=60, known=None):
    """What is said of looks one after another; None where nothing is."""
    known, said = known or Known(), []
    for n, one in enumerate(evidence, 1):
        known, news = remember(known, [one], n * every_seconds * SECOND)
        said.append(news and news[0])
    return said


def idle(at_seconds=0, **fields):
    return Evidence(source="jupyter_kernels", active_us=at_seconds * SECOND, **fields)


def counted(requests, **fields):
    counters = {"requests": requests, "websockets": 0}
    return Evidence(source="http_traffic", counters=counters, **fields)


def test_what_does_not_change_is_said_once_a_heartbeat():
    said = looks(*[idle()] * 9, every_seconds=30)

    assert [1, 5, 9] == [n for n, one in enumerate(said, 1) if one]


@pytest.mark.parametrize(
    "changed",
    [
        idle(busy=True), idle(outcome="unreachable"), idle(connected=True), idle(flags=("x",)),
        idle(59), Evidence(source="jupyter_kernels", active_us=0, starting_since_us=5),
    ],
    ids=["busy", "outcome", "connected", "flags", "an old time moves on", "starting"],
)  # fmt: skip
def test_a_change_is_said_at_once(changed):
    known, _ = remember(Known(), [idle()], 1_000 * SECOND)

    assert remember(known, [changed], 1_001 * SECOND)[1] == (changed,)


def test_another_source_is_said_at_once():
    known, _ = remember(Known(), [idle()], 1_000 * SECOND)

    assert remember(known, [idle(), counted(1)], 1_001 * SECOND)[1] is not None


def test_a_fresh_time_that_moves_on_waits_for_the_heartbeat():
    said = looks(*[idle(n * 30) for n in range(1, 6)], every_seconds=30)

    assert [1, 5] == [n for n, one in enumerate(said, 1) if one]


def test_a_counter_has_no_time_until_it_moves():
    said = looks(counted(5), counted(5), counted(6), counted(6), every_seconds=120)

    assert [None, None, 360 * SECOND, 360 * SECOND] == [one.active_us for one in said]


def test_a_counter_that_started_anew_is_activity():
    assert 240 * SECOND == looks(counted(9), counted(2), every_seconds=120)[1].active_us


def test_a_counter_is_compared_with_the_last_one_that_could_be_read():
    away = Evidence(source="http_traffic", outcome="unreachable")

    said = looks(counted(5), away, counted(5), counted(6), every_seconds=120)

    assert [None, None, None, 480 * SECOND] == [one.active_us for one in said]


def test_the_third_future_stamp_in_a_row_is_a_lie():
    ahead = idle(1, flags=("future",))

    said = looks(*[ahead] * 4, idle(2), every_seconds=120)

    assert [SECOND, SECOND, None, None, 2 * SECOND] == [one.active_us for one in said]
    assert ("future", "lying") == said[2].flags


def test_a_failed_look_does_not_clear_a_liar():
    ahead, away = idle(1, flags=("future",)), idle(outcome="unreachable")

    assert "lying" in looks(ahead, ahead, away, ahead, every_seconds=120)[3].flags


class Ticking:
    """A clock that moves by half a minute at every look."""

    us = 0

    def now_us(self):
        self.us += 30 * SECOND
        return self.us


async def test_a_round_says_the_news_of_every_notebook():
    replies = {"10.0.0.1": answer([]), "10.0.0.2": UNREACHABLE}

    async def ask(target):
        return replies[target.address]

    sampler = sampler_with(ask, Ticking())
    peers = [peer(uid=f"u{n}", address=f"10.0.0.{n}") for n in (1, 2)]
    rounds = [[e.key for e in await sampler.round(peers)] for _ in range(3)]

    assert [["u1", "u2"], [], ["u1", "u2"]] == rounds


async def test_an_event_of_a_round_is_keyed_by_the_pods_uid_and_dated_to_the_look():
    async def ask(target):
        return UNREACHABLE

    (event,) = await sampler_with(ask, Ticking()).round([peer()])

    fact = NotebookSampled.read(event)
    assert ("u1", "u1", 30 * SECOND) == (event.key, fact.uid, event.time_us)
    assert {"jupyter_kernels", "jupyter_terminals"} == {e.source for e in fact.evidence}
    assert b"nb-0" not in event.body
