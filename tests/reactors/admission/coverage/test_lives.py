"""The sums of what lives below owners are those that a count of every pod would give, whatever came in which order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from projections.quota_trees.keys import counted, ending, largest, summed
from projections.quota_trees.shape import LANDED_US
from reactors.admission.coverage.chains import DEPTH
from reactors.admission.coverage.lives import LiveSums
from reactors.admission.state.state import AdmissionState
from tests import factories as f
from tests.thorough import tries

OBJECTS = ("d", "r1", "r2", "j")
PODS = ("p1", "p2", "p3", "q1")
SIZES = st.integers(0, 3)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.sampled_from(OBJECTS), st.sampled_from(("", *OBJECTS)), SIZES),
        st.tuples(st.just("leave"), st.sampled_from(OBJECTS)),
        st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(OBJECTS), st.integers(1, 3)),
        st.tuples(st.just("end"), st.sampled_from(PODS)),
        st.tuples(st.just("list"), st.sets(st.sampled_from(PODS))),
    ),
    max_size=30,
)  # fmt: skip


class Plain:
    """The same by counting anew."""

    def __init__(self):
        self.parents, self.asks, self.pods = {}, {}, {}

    def total(self, uid):
        below = [self.weight(child) for child, parent in self.parents.items() if parent == uid]
        below += [{"cpu": n} for parent, n in self.pods.values() if parent == uid]
        return {"cpu": total} if (total := sum(one.get("cpu", 0) for one in below)) else {}

    def weight(self, uid):
        return dict(largest(self.asks.get(uid, {}), self.total(uid)))

    def running(self, uid):
        own = sum(n for parent, n in self.pods.values() if parent == uid)
        return own + sum(self.running(c) for c, parent in self.parents.items() if parent == uid)

    def is_above(self, uid, parent):
        for _ in range(DEPTH):
            if parent == uid:
                return True
            parent = self.parents.get(parent, "")
        return False


@settings(max_examples=tries(60, 200))
@given(STEPS)
def test_sums_are_those_of_a_count(steps):
    plain, marked = Plain(), set()
    wanted = {}
    lives = LiveSums(lambda uid: wanted.get(uid, ""), marked.add)
    for version, step in enumerate(steps, 1):
        apply(step, version, lives, plain, wanted)
        for uid in OBJECTS:
            assert dict(lives.node(uid).total) == plain.total(uid), (step, uid)
            assert lives.node(uid).pods.get("cpu", 0) == plain.running(uid), (step, uid)
    for uid in PODS:
        lives.drop_pod(uid)
    for uid in OBJECTS:
        lives.leave(uid)
    assert not any(lives.has(uid) for uid in OBJECTS), "nothing is held of what is gone"


def apply(step, version, lives, plain, wanted):
    what, *given = step
    if what == "see":
        uid, parent, size = given
        is_cycle = plain.is_above(uid, parent)
        if not is_cycle:
            wanted[uid] = parent
            plain.parents[uid] = parent
        ask = {"cpu": size} if size else {}
        plain.asks[uid] = ask
        lives.see(uid, ask, str(version))
        lives.relink(uid)
    elif what == "leave":
        plain.asks.pop(given[0], None)
        lives.leave(given[0])
    elif what == "pod":
        uid, parent, size = given
        plain.pods[uid] = (parent, size)
        lives.see_pod(uid, parent, {"cpu": size}, str(version), version)
    elif what == "end":
        plain.pods.pop(given[0], None)
        lives.drop_pod(given[0])
    else:
        for uid in PODS:
            if uid not in given[0] and uid in plain.pods:
                del plain.pods[uid]
        lives.listed("", "", set(given[0]), version, lambda uid: False)


def test_what_is_expected_counts_until_it_is_seen_or_cannot_land_and_can_be_undone():
    lives = LiveSums(lambda uid: "", lambda uid: None)
    undo = lives.expect_pod("p1", "j", {"cpu": 4}, "", 0)
    assert (lives.node("j").pods["cpu"], "#" in lives.node("j").pods) == (4, True)
    undo()
    assert not lives.has("j")
    lives.expect_pod("p1", "j", {"cpu": 4}, "", 0)
    lives.see_pod("p1", "j", {"cpu": 3}, "7", 5)
    assert dict(lives.node("j").pods) == {"cpu": 3}
    lives.expect_pod("p1", "j", {"cpu": 9}, "8", 10)
    lives.see_pod("p1", "j", {"cpu": 3}, "8", 11)
    assert lives.node("j").pods["cpu"] == 9, "that was before"
    lives.expire(10 + LANDED_US)
    assert dict(lives.node("j").pods) == {"cpu": 3}


def test_what_was_seen_since_is_not_undone():
    lives = LiveSums(lambda uid: "", lambda uid: None)
    undo_pod = lives.expect_pod("p1", "j", {"cpu": 4}, "", 0)
    undo_set = lives.expect("r1", "j", {"cpu": 4}, "", 0)
    lives.see_pod("p1", "j", {"cpu": 3}, "7", 5)
    lives.expect("r1", "j", {"cpu": 5}, "", 1)

    undo_pod()
    undo_set()

    assert (dict(lives.node("j").pods), lives.node("r1").asked["cpu"]) == ({"cpu": 3}, 5)


def test_what_a_process_of_a_fast_clock_expects_holds_up_nothing_else():
    lives = LiveSums(lambda uid: "", lambda uid: None)
    lives.expect_pod("p1", "j", {"cpu": 1}, "", 10 * LANDED_US)
    lives.expect_pod("p2", "j", {"cpu": 2}, "", 0)

    lives.expire(LANDED_US)

    assert lives.node("j").pods["cpu"] == 1


def test_what_ends_is_said_beside_what_lives():
    lives = LiveSums({"set": "web", "web": ""}.__getitem__, lambda uid: None)
    lives.see("set", {"cpu": 4}, "1")
    lives.see_pod("p1", "set", {"cpu": 3}, "2", 2)
    lives.see_pod("p2", "set", {"cpu": 2}, "3", 3, is_ending=True)
    lives.see_pod("p1", "set", {"cpu": 3}, "4", 4, is_ending=True)
    lives.expect_pod("p2", "set", {"cpu": 6}, "3", 5)

    assert (lives.node("web").pods["cpu"], ending(lives.node("web").pods)) == (9, {"cpu": 9})
    assert (lives.node("web").total["cpu"], ending(lives.node("web").total)) == (9, {})
    for uid in ("p1", "p2"):
        lives.drop_pod(uid)
    assert not ending(lives.node("web").pods)


class Nothing:
    """Journals that hold nothing."""

    def grants(self, uid):
        return iter(())


def test_a_late_observation_moves_no_pod_to_its_former_owner():
    view = AdmissionState(f.CLUSTER, Nothing())
    former, owner = f.owner("former"), f.owner("owner")
    for event in (
        f.workload_observed("former", 1),
        f.workload_observed("owner", 2),
        f.pod_observed("p", 3, at=1, owner=former),
        f.pod_observed("p", 4, at=2, owner=owner),
        f.pod_observed("p", 3, at=3, owner=former),
    ):
        view.apply(event)

    assert not view.coverage.lives.node("former").pods
    assert view.coverage.lives.node("owner").pods["limits.cpu"] == 1000


def test_a_chain_that_closes_in_itself_is_cut():
    above = {"a": "b", "b": "c", "c": "a"}
    lives = LiveSums(lambda uid: above.get(uid, ""), lambda uid: None)
    for version, uid in enumerate("abc", 1):
        lives.see(uid, {"cpu": 1}, str(version))
    lives.see_pod("p", "a", {"cpu": 5}, "9", 9)

    assert lives.node("a").pods["cpu"] == 5


def test_models_that_pods_do_not_name_are_their_owners():
    plain, typed = counted({"limits.cpu": 4}, {}), counted({"limits.cpu": 2}, {"cpu": "A4"})
    sums = {key: plain.get(key, 0) + typed.get(key, 0) for key in plain.keys() | typed.keys()}

    assert summed(sums, {}) == {"limits.cpu": 6, "limits.cpu.A4": 2}
    assert summed(sums, {"cpu": "A30.x"}) == {
        "limits.cpu": 6, "limits.cpu.A4": 2, "limits.cpu.A30": 4, "limits.cpu.A30.x": 4,
    }  # fmt: skip
