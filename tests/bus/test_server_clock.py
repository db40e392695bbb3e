"""The API server's clock as a source knows it: its own clock, and the offset that answers show."""

from email.utils import formatdate

import pytest
from aiohttp import web

from bus.clock import BUILT_US, SECOND_US, ServerClock, parse_stamp
from bus.errors import WrongClockError
from bus.kube.client import Access, connect
from bus.sources.catalogue import PODS
from tests.bus.kube.apiserver import PATH, Server
from tests.bus.kube.watch.fakes import Followed, StillClock, line, page, pod

HOUR = 3600
NOON_US = parse_stamp("2026-11-22T12:00:00Z")


class Machine:
    """A machine's clock and its time since the start, as a test sets them."""

    def __init__(self, us=NOON_US):
        self.us, self.seconds = us, 0.0

    def now_us(self):
        """The clock of the machine."""
        return self.us

    def monotonic(self):
        """Seconds since the start."""
        return self.seconds

    def passes(self, seconds):
        """Time goes on."""
        self.us += round(seconds * SECOND_US)
        self.seconds += seconds


def date(us):
    """A Date header of a server whose clock says ``us``."""
    return formatdate(us // SECOND_US, usegmt=True)


def measured(error_seconds, round_trip=0.2):
    """What a server's answer shows to a machine whose clock is wrong by so much; the clock and its machine."""
    machine = Machine(NOON_US + round(error_seconds * SECOND_US))
    clock = ServerClock(machine, machine.monotonic)
    sent_us = machine.now_us()
    machine.passes(round_trip)
    clock.answered(date(NOON_US + round(round_trip * SECOND_US / 2)), sent_us)
    return clock, machine


@pytest.mark.parametrize("error", [-HOUR, HOUR, -56 * 365 * 86_400, 2.5, -2.5])
def test_a_wrong_clock_is_put_right_to_within_a_second_and_the_round_trip(error):
    clock, machine = measured(error)

    assert abs(clock.now_us() - (NOON_US + 200_000)) <= 1_200_000
    assert clock.now_us() - clock.offset_us == machine.now_us()


@pytest.mark.parametrize("error", [0, 0.2, 0.7])
def test_a_clock_that_may_be_right_is_left_alone(error):
    """A Date header has whole seconds and an answer takes time: within both nothing is known to be wrong."""
    assert measured(error)[0].offset_us == 0


def test_a_slow_answer_says_no_more_than_its_round_trip_allows():
    assert measured(0, round_trip=30)[0].offset_us == 0
    # The answer was made at the header's second, or until the next one.
    assert measured(-20, round_trip=30)[0].offset_us == 6 * SECOND_US


@pytest.mark.parametrize("error", [-HOUR, 0, HOUR])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9])
def test_after_a_clock_was_set_nothing_is_observed_before_it_happened(error, fraction):
    """A pod's finish that lies after its observation is cut off: an hour forward and back cost 28 pods a second."""
    machine = Machine(round(NOON_US + fraction * SECOND_US))
    clock = ServerClock(machine, machine.monotonic)
    true_us = machine.us
    for wrong in (error + HOUR, error):
        machine.us = true_us + wrong * SECOND_US
        clock.answered(date(true_us), machine.us)

        assert 0 <= clock.now_us() - true_us <= SECOND_US
    assert error or clock.offset_us == 0


@pytest.mark.parametrize("text", [None, "", "yesterday", "Sun, 99 Nov 2026 12:00:00 GMT", "9" * 99])
def test_an_answer_without_a_date_measures_nothing(text):
    machine = Machine()
    clock = ServerClock(machine, machine.monotonic)
    clock.answered(text, machine.now_us())

    assert (clock.offset_us, clock.has_stepped()) == (0, False)


def test_a_clock_that_is_set_is_known_until_it_is_measured_again():
    clock, machine = measured(0)
    machine.passes(600)

    assert not clock.has_stepped()

    machine.us += HOUR * SECOND_US

    assert clock.has_stepped()

    clock.answered(date(machine.now_us() - HOUR * SECOND_US), machine.now_us())

    assert not clock.has_stepped() and abs(clock.offset_us + HOUR * SECOND_US) <= SECOND_US


@pytest.mark.parametrize(
    "own,server", [(0, NOON_US), (0, 0), (NOON_US, 0), (BUILT_US - 1, NOON_US)]
)
def test_a_clock_before_the_first_build_is_an_error_that_says_so(own, server):
    machine = Machine(own)
    clock = ServerClock(machine, machine.monotonic)
    clock.answered(date(server), own)

    with pytest.raises(WrongClockError, match="NTP") as caught:
        clock.checked_us()

    assert "1970" in str(caught.value) or "2025-12-31" in str(caught.value)


async def test_each_list_and_watch_of_an_api_server_measures_the_offset(tmp_path):
    machine = Machine()
    async with Server(tmp_path) as server:
        clock = ServerClock(machine, machine.monotonic)
        cluster = await connect(Access(str(server.config)), clock=clock)
        body = b'{"metadata":{"resourceVersion":"7"},"items":[]}'
        for wrong_us, ask in ((HOUR * SECOND_US, "list"), (-HOUR * SECOND_US, "watch")):
            headers = {"Date": date(NOON_US + wrong_us)}
            server.answers = [web.Response(body=body, headers=headers)]
            if ask == "list":
                await cluster.page(PATH, limit=2)
            else:
                assert [chunk async for chunk in cluster.watch(PATH, version="7")] == []

            assert abs(clock.offset_us - wrong_us) <= SECOND_US
        await cluster.close()


class Measuring(Followed):
    """A reflector whose cluster's first answers show that this machine's clock is an hour slow."""

    def __init__(self, *arguments, error_us, **options):
        super().__init__(*arguments, **options)
        own = self.clock
        own.us = NOON_US + error_us
        clock = self.reflector._clock
        given = self.cluster.page

        async def page(path, **wanted):
            answer = await given(path, **wanted)
            clock.answered(date(NOON_US), own.us)
            return answer

        self.cluster.page = page


async def test_lists_and_pods_are_said_at_the_api_servers_time():
    watches = [[line("ADDED", pod("b", "4"))]]
    pages = [page("3", pod("a", "3"))]
    async with Measuring(pages, watches, error_us=-HOUR * SECOND_US) as followed:
        await followed.until(lambda f: "pod.observed/b/4" in f.said())

        times = {event.type: event.time_us for event in followed.transport.events}

        assert all(abs(us - NOON_US) <= SECOND_US for us in times.values()) and len(times) == 2
        assert abs(followed.state.offset_us - HOUR * SECOND_US) <= SECOND_US


@pytest.mark.parametrize("source", [PODS], ids=["pods"])
async def test_a_source_whose_clock_stands_at_1970_says_nothing_and_says_why(source):
    """It wrote 56 years of hours. It goes on by itself when the clock is set."""
    clock = StillClock()
    followed = Followed([page("3", pod("a", "3"))], [[line("ADDED", pod("b", "4"))]], source=source)
    followed.clock.us = 0
    async with followed:
        await followed.until(lambda f: f.state.trouble)
        await followed.settle()

        assert followed.said() == []
        assert "1970" in followed.state.trouble and "NTP" in followed.state.trouble

        followed.clock.us = clock.us
        await followed.until(lambda f: "pod.observed/b/4" in f.said())

        assert followed.state.trouble == ""


async def test_what_comes_after_the_clock_was_set_waits_for_a_measurement():
    """A watch lives for an hour: what it told would have the wrong time until the next list."""
    watches = [[line("ADDED", pod("b", "4"))], [line("ADDED", pod("b", "4"))]]
    followed = Measuring([page("3", pod("a", "3")), page("3")], watches, error_us=0)
    watch = followed.cluster.watch

    def stepping(path, **wanted):
        if len(followed.cluster.watches) == 2:
            followed.clock.us += HOUR * SECOND_US
        return watch(path, **wanted)

    followed.cluster.watch = stepping
    async with followed:
        await followed.until(lambda f: "pod.observed/b/4" in f.said())

        times = [event.time_us for event in followed.transport.events]

        assert all(abs(us - NOON_US) <= SECOND_US for us in times)
        assert followed.state.relists["clock"] == 1
