"""The queue: order, back-off, flush, and who is tried again after which change."""

import pytest

from bus.clock import SECOND_US
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.queueing.hints import Hint, hints_of
from reactors.scheduling.queueing.queue import Place, Queue
from tests.reactors.scheduling.worlds import World


def us(seconds):
    return int(seconds * SECOND_US)


@pytest.fixture
def world():
    return World().node("a")


@pytest.fixture
def queue():
    return Queue(PrioritySort().sort_key, lambda pod: "gated" if pod.team == "gated" else "")


def take(queue, at_us):
    """Who is next; None for nobody."""
    return next(iter(queue.due(at_us, 1)), None)


def taken(queue, at):
    """Everybody who is due, out of the queue."""
    found = [one.pod.uid for one in queue.due(us(at), 99)]
    for uid in found:
        queue.remove(uid)
    return found


def test_the_highest_priority_is_next_then_who_waits_longest(queue, world):
    for uid, priority, since in (("a", 0, 5), ("b", 9, 7), ("c", 0, 3), ("d", 9, 7)):
        queue.add(world.pod(uid, priority=priority), us(since), us(8))

    assert [one.pod.uid for one in queue] == ["b", "d", "c", "a"]
    assert taken(queue, 8) == ["b", "d", "c", "a"]


def test_a_change_of_what_decides_nothing_wakes_nobody_and_erases_no_reason(queue, world):
    """Its conditions say why it waits: who writes them makes it MODIFIED."""
    queue.add(world.pod("p"), 0, 0)
    queue.refused(take(queue, 0), {"Fit": ("why",)}, {Hint.NODE}, "no room", 0)
    queue.add(world.pod("p", annotations={"a": "b"}), 0, us(60))
    unchanged = ([one.reason for one in queue], taken(queue, 60))
    queue.add(world.pod("p", cpu="1m"), 0, us(61))

    assert (unchanged, taken(queue, 61)) == ((["no room"], []), ["p"])


def test_a_gated_pod_is_not_tried_until_its_gate_is_gone(queue, world):
    queue.add(world.pod("p", team="gated"), 0, 0)
    gated = taken(queue, 999)
    queue.add(world.pod("p"), 0, us(1000))

    assert (gated, taken(queue, 1000)) == ([], ["p"])


def test_back_off_doubles_up_to_ten_seconds(queue, world):
    queue.add(world.pod("p"), 0, 0)
    pauses, at = [], 0
    for _ in range(6):
        one = take(queue, us(at))
        queue.failed(one, "refused", us(at))
        assert take(queue, one.until_us - 1) is None
        pauses.append(one.until_us // SECOND_US - at)
        at = one.until_us // SECOND_US

    assert pauses == [1, 2, 4, 8, 10, 10]


def test_who_fits_nowhere_waits_for_what_helps_and_five_minutes_at_most(queue, world):
    for uid in ("fits", "near"):
        queue.add(world.pod(uid), 0, 0)
    for hints in ({Hint.NODE}, {Hint.PLACED}):
        queue.refused(take(queue, 0), {"x": ("why",)}, hints, "no", 0)
    queue.happened({Hint.GONE}, us(20))
    nothing = taken(queue, 20)
    queue.happened({Hint.PLACED}, us(30))

    assert (nothing, taken(queue, 30)) == ([], ["near"])
    assert (taken(queue, 299), taken(queue, 300)) == ([], ["fits"])


def test_help_does_not_cut_a_back_off_short(queue, world):
    queue.add(world.pod("p"), 0, 0)
    queue.refused(take(queue, 0), {"x": ("why",)}, {Hint.NODE}, "no", 0)
    queue.happened({Hint.NODE}, us(0.5))
    (one,) = queue

    assert (one.place, one.until_us) == (Place.BACKOFF, us(1))
    assert (taken(queue, 0.9), taken(queue, 1)) == ([], ["p"])


def test_who_is_gone_is_not_tried(queue, world):
    queue.add(world.pod("p"), 0, 0)
    queue.refused(take(queue, 0), {"x": ("why",)}, {Hint.NODE}, "no", 0)
    queue.remove("p")

    assert taken(queue, 10_000) == []


def hints(world, does):
    found = []
    world.listeners.append(lambda changes: found.extend(o for c in changes for o in hints_of(c)))
    does()
    return found


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (lambda w: w.node("b"), [Hint.NODE]),
        (lambda w: w.node("a"), []),
        (lambda w: w.node("a", unschedulable=True), [Hint.NODE]),
        (lambda w: w.pod("held", "a"), []),
        (lambda w: w.pod("held", "a", cpu="500m"), [Hint.GONE]),
        (lambda w: w.pod("held", "a", phase="Succeeded"), [Hint.GONE]),
        (lambda w: w.gone("held"), [Hint.GONE]),
        (lambda w: w.pod("new", "a"), [Hint.PLACED]),
        (lambda w: w.pod("new", None), []),
    ],
    ids=["node comes", "node again", "cordon", "pod again", "shrinks", "ends", "gone", "placed", "waits"],
)  # fmt: skip
def test_what_a_change_is_to_who_waits(world, does, expected):
    world.pod("held", "a")

    assert hints(world, lambda: does(world)) == expected


def test_a_queue_that_was_saved_and_restored_is_the_same(queue, world):
    for uid in ("active", "refused", "failed", "gated"):
        queue.add(world.pod(uid, team="gated" if uid == "gated" else None), us(3), us(4))
    queue.refused(queue.get("refused"), {"x": ("why",)}, {Hint.NODE}, "no", us(4))
    queue.failed(queue.get("failed"), "HTTP 409", us(4))
    other = Queue(PrioritySort().sort_key, lambda pod: "")
    other.restore(queue.saved(), queue.number, world.state.pods)

    assert queue.saved() == other.saved()
    for one in (queue, other):
        one.happened({Hint.NODE}, us(9))
    assert taken(queue, 9) == taken(other, 9) == ["active", "failed", "refused"]


def test_asking_who_is_due_changes_nothing_whatever_the_time(queue, world):
    """Two processes ask at different times; a clock that goes back must not tell them apart."""
    for uid in ("a", "b"):
        queue.add(world.pod(uid), 0, 0)
        queue.failed(queue.get(uid), "refused", us(5 if uid == "a" else 50))
    before = queue.saved()
    found = [[one.pod.uid for one in queue.due(us(at), 9)] for at in (99, 7, 51, 5)]

    assert found == [["a", "b"], ["a"], ["a", "b"], []]
    assert queue.saved() == before
