"""What the lab of the scheduler takes from the record, and what it makes of it."""

import msgspec
import pytest

from bus.events.clock import LEADER, ClockTicked
from bus.events.policies import PauseChanged
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.lab.placements import RULES, PlacementLab, outcome
from reactors.lab.placements.trial import PlacementTrial
from reactors.lab.placements.world import differing
from tests.factories import (
    CLUSTER,
    claim_observed,
    node_observed,
    node_vanished,
    owner,
    pod_observed,
    pod_vanished,
    pods_listed,
    said,
)
from tests.reactors.lab.placement_worlds import PACKS, Job, World, of, played, policy, seconds

JOB = owner("j", "Job")
KUBE = msgspec.Raw(b"{}")


class History:
    """Events of a cluster, each at its second."""

    def __init__(self):
        self.events, self.version = [], 0

    def say(self, event):
        self.events.append(msgspec.structs.replace(event, sequence=len(self.events) + 1))
        return self

    def node(self, name, cpu="4", at=0):
        allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        return self.say(node_observed(name, self.next(), at=at, allocatable=allocatable))

    def pod(self, uid, at, node=None, **fields):
        fields = {"created": at, "owner": JOB, "constraints": KUBE} | fields
        return self.say(pod_observed(uid, self.next(), at=at, node=node, **fields))

    def placed(self, uid, came, at, node, **fields):
        """A pod that came and was given a node."""
        self.pod(uid, came, **fields)
        return self.pod(uid, at, node, created=came, scheduled=at, **fields)

    def done(self, uid, at, node="n1", **fields):
        return self.pod(
            uid, at, node, phase="Succeeded", scheduled=fields.pop("since", 0), **fields
        )

    def gone(self, uid, at, node=None, **fields):
        return self.say(pod_vanished(uid, self.next(), at=at, node=node, **fields))

    def ticks(self, until, begin=10):
        for at in range(begin, until + 1, 10):
            self.say(said(ClockTicked(), key=LEADER, id=f"tick/{at}", at=at))
        return self

    def sorted(self):
        """The events in the order of their times."""
        found = sorted(self.events, key=lambda one: one.time_us)
        return [msgspec.structs.replace(one, sequence=n) for n, one in enumerate(found, 1)]

    def next(self):
        self.version += 1
        return self.version


def stays(history, tried, rule="likely"):
    """(uid, node, second of its start, second of its end) of each pod that waited under trial."""
    ((found,),), _ = played(history.sorted(), tried, rules=(rule,))
    return [
        (one.life.uid, one.node, seconds(one.bound_us) if one.bound_us else None,
         seconds(one.ended_us) if one.ended_us else None)
        for one in found.stays
    ]  # fmt: skip


def two_nodes():
    return History().node("n1", "4").node("n2", "8")


def test_pods_of_any_scheduler_are_placed_by_the_first_profile():
    history = two_nodes().placed("p", 5, 6, "n1", cpu="2").done("p", 100).ticks(200)
    assert stays(history, policy()) == [("p", "n2", 6, 100)]
    assert stays(history, policy(PACKS)) == [("p", "n1", 6, 100)]


def test_what_ended_by_itself_takes_as_long_and_what_somebody_ended_ends_when_it_did():
    history = History().node("n1", "4")
    history.placed("a", 5, 50, "n1", cpu="3").done("a", 150, since=50, cpu="3")
    history.placed("b", 5, 50, "n1", cpu="1").gone("b", 150, "n1").ticks(300)
    assert stays(history, policy()) == [("a", "n1", 7, 107), ("b", "n1", 7, 150)]
    assert stays(history, policy(), "as_long") == [("a", "n1", 7, 107), ("b", "n1", 7, 107)]


def test_who_never_got_a_node_runs_for_the_median_of_its_namespace_or_ends_when_it_did():
    history = (
        History().node("n1", "4").placed("a", 5, 5, "n1", cpu="1").done("a", 105, since=5, cpu="1")
    )
    history.pod("b", 200, cpu="2").gone("b", 250).ticks(400)
    assert stays(history, policy())[1] == ("b", "n1", 200, 300)
    assert stays(history, policy(), "gave_up")[1] == ("b", "n1", 200, 250)


def test_who_waits_under_trial_goes_when_its_owner_ended_it():
    history = History().node("n1", "4").placed("a", 5, 5, "n1", cpu="4").gone("a", 500, "n1")
    # On record it was on a node that the trial does not know of.
    history.placed("b", 10, 10, "n9", cpu="1").gone("b", 60, "n9")
    history.placed("c", 20, 20, "n9", cpu="1").done("c", 80, "n9", since=20, cpu="1").ticks(700)
    assert stays(history, policy()) == [
        ("a", "n1", 5, 500),
        ("b", "", None, 60),
        ("c", "n1", 500, 560),
    ]


def test_a_pod_whose_node_goes_is_made_again_by_its_controller_and_a_bare_one_is_not():
    history = (
        two_nodes().placed("a", 5, 5, "n1", cpu="1").placed("b", 6, 6, "n1", cpu="1", owner=None)
    )
    history.say(node_vanished("n2", history.next(), at=50))
    history.done("a", 105, since=5, cpu="1").gone("b", 105, "n1").ticks(300)
    assert stays(history, policy()) == [
        ("a", "n2", 5, 50),
        ("b", "n2", 6, 50),
        ("a", "n1", 50, 150),
    ]


def test_who_must_go_for_a_more_important_pod_waits_anew():
    history = (
        History()
        .node("n1", "4")
        .placed("low", 5, 5, "n1", cpu="4")
        .done("low", 205, since=5, cpu="4")
    )
    history.placed("high", 50, 210, "n1", cpu="4", priority=9)
    history.done("high", 260, since=210, cpu="4", priority=9).ticks(500)
    found = stays(history, policy(preemption="on"))
    assert [(uid, start) for uid, _, start, _ in found][:2] == [("low", 5), ("high", 60)]
    uid, _, again, end = found[2]
    assert uid == "low" and 100 < again <= 112 and end == again + 200
    made = of(history.sorted(), policy(preemption="on")).total
    assert made.kinds == {"evicted": 1, "sooner": 1}


def test_what_had_its_node_from_the_start_stays_there_and_holds_its_room():
    history = (
        History().pod("static", 1, "n1", scheduled=None, cpu="3").node("n1", "4").node("n2", "3")
    )
    history.placed("p", 5, 6, "n1", cpu="2").done("p", 60, cpu="2").ticks(100)
    assert stays(history, policy(PACKS)) == [("p", "n2", 6, 60)]


def test_what_was_seen_after_a_gap_only_is_tried_from_then_on_and_waited_for_nobody():
    history = two_nodes().pod("p", 100, "n1", created=5, scheduled=6, cpu="2")
    history.done("p", 160, since=6, cpu="2").ticks(200)
    assert stays(history, policy()) == [("p", "n2", 100, 160)]
    total = of(history.sorted(), policy()).total
    assert total.waited_s == 0 and total.kinds == {"elsewhere": 1}


def test_a_pod_with_devices_by_claims_stays_as_on_record():
    history = two_nodes().placed("p", 5, 6, "n1", claims=("gpu",)).placed("q", 7, 8, "n1")
    # A claim of a template is made a moment later, that of an extended resource when a node was chosen.
    history.placed("r", 9, 10, "n1", claim_templates=("gpu",))
    history.pod("s", 11).pod("s", 12, "n2", scheduled=12, claimed=("nvidia.com/gpu",)).ticks(100)
    assert [uid for uid, *_ in stays(history, policy())] == ["q"]


@pytest.mark.parametrize(("is_followed", "start"), [(False, 6), (True, None)])
def test_claims_of_volumes_count_where_volumes_were_followed(is_followed, start):
    history = two_nodes()
    if is_followed:
        # It is there, and has no volume.
        history.say(claim_observed("data", history.next()))
    named = msgspec.Raw(b'{"claims":["data"]}')
    history.placed("p", 5, 6, "n1", constraints=named).gone("p", 80, "n1").ticks(100)
    ((_, _, found, _),) = stays(history, policy())
    assert found == start


@pytest.mark.parametrize("is_there", [True, False])
def test_a_complete_list_ends_who_is_not_in_it_and_brings_nobody_back(is_there):
    history = History().node("n1", "4").placed("a", 5, 50, "n1", cpu="4")
    # Under trial it ends 44 seconds before, and is listed still.
    history.done("a", 150, since=50, cpu="4").placed("b", 60, 100, "n9", cpu="4")
    (listed,) = pods_listed(("a", "b") if is_there else ("a",), at=120)
    history.say(listed).placed("c", 130, 131, "n9", cpu="4").ticks(300)
    found = stays(history, policy())
    assert found[0] == ("a", "n1", 6, 106)
    assert found[1] == ("b", "n1", 107, None if is_there else 120)
    assert found[2][1:3] == (("", None) if is_there else ("n1", 131))


def test_a_rule_that_makes_no_difference_gives_what_the_likely_one_gives(monkeypatch):
    history = two_nodes().placed("p", 5, 6, "n1").done("p", 100).ticks(200).sorted()
    (alike,), lives = played(history, policy())
    assert differing(lives) == set() and [one.rule for one in alike] == list(RULES)
    monkeypatch.setattr("reactors.lab.placements.trial.differing", lambda lives: set(RULES[1:]))
    (each,), _ = played(history, policy())
    assert alike == each
    more = (
        two_nodes().placed("p", 5, 6, "n1").gone("p", 100, "n1").pod("q", 7).gone("q", 9).ticks(200)
    )
    assert differing(played(more.sorted(), policy())[1]) == {"as_long", "gave_up"}


def test_who_waits_and_is_not_in_a_complete_list_is_gone():
    history = History().node("n1", "4").placed("a", 5, 5, "n1", cpu="4").gone("a", 500, "n1")
    history.placed("b", 10, 11, "n9", cpu="1").pod("c", 20, cpu="1")
    (listed,) = pods_listed(("a",), at=120)
    history.say(listed).ticks(700)
    assert stays(history, policy()) == [
        ("a", "n1", 5, 500),
        ("b", "", None, 120),
        ("c", "", None, 120),
    ]


def test_from_an_event_on_it_knows_what_was_known_there():
    jobs = [Job(f"p{n}", 10 + 20 * n, 3, runs=100) for n in range(12)]
    record = World({"n1": (6, 0), "n2": (8, 0)}, jobs, policy()).run(600)
    cut = next(e.sequence for e in record.events if seconds(e.time_us) >= 120)
    known = Replica(REACTORS, CLUSTER)
    for event in record.events[:cut]:
        known.apply(event)
    (found,), _ = played(record.events[cut:], policy(PACKS), known=known, begin=120)
    assert [one.rule for one in found] == list(RULES)
    came = {one.life.uid for one in found[0].stays}
    assert came == {job.name for job in jobs if job.at > 120}
    assert all(one.bound_us for one in found[0].stays)


@pytest.mark.parametrize("bind", [0, 1])
def test_while_reactors_are_paused_nobody_is_placed_and_time_passes_once_for_each_event(
    bind, monkeypatch
):
    history = two_nodes().placed("before", 5, 5 + bind, "n1", cpu="1").done("before", 20, cpu="1")
    for at, is_on in ((30, True), (90_000, False)):
        fact = PauseChanged(is_paused=is_on, author="ann", reason="")
        history.say(said(fact, key="pause", id=f"pause/{at}", at=at))
    history.placed("p", 40, 41, "n1", cpu="1").done("p", 95_000, since=41, cpu="1")
    history.pod("last", 99_000, cpu="1")
    tries = []
    true = PlacementTrial._try
    monkeypatch.setattr(PlacementTrial, "_try", lambda self, at: (tries.append(at), true(self, at)))
    found = {uid: (node, start) for uid, node, start, _ in stays(history, policy())}
    assert found["p"] == ("n2", 90_000 + bind)
    assert len(tries) < 20


@pytest.mark.parametrize("far", [3e9, 1e12, 9e12])
def test_one_event_of_a_wrong_clock_ends_what_ends_by_then_and_nothing_else(far):
    """Years and thousands of years ahead; what comes after it comes at its own time, as far as anybody knows."""
    history = (
        two_nodes().placed("p", 5, 6, "n1", cpu="1").done("p", 100, cpu="1").ticks(200).sorted()
    )
    wrong = said(ClockTicked(), key=LEADER, id="far", at=far)
    after = History().placed("q", 210, 211, "n1", cpu="8").done("q", 240, cpu="8", since=211)
    events = [
        *history,
        wrong,
        *after.events,
        *History().pod("r", 250, cpu="12").ticks(300, 260).events,
    ]
    numbered = [msgspec.structs.replace(one, sequence=n) for n, one in enumerate(events, 1)]
    ((found,),), _ = played(numbered, policy(), rules=("likely",))
    assert [(one.life.uid, one.node) for one in found.stays] == [
        ("p", "n2"),
        ("q", "n2"),
        ("r", ""),
    ]
    total = outcome([found], [one.life for one in found.stays], by="namespace").total
    assert total.waited_s == 52


def test_a_pod_whose_resources_are_rubbish_stays_as_on_record_and_hides_nobody():
    rubbish = msgspec.Raw(b'{"containers":[{"requests":{"cpu":[1]}}]}')
    history = two_nodes().placed("bad", 4, 5, "n1", resources=rubbish).placed("p", 6, 7, "n1")
    assert [uid for uid, *_ in stays(history.ticks(50), policy())] == ["p"]


def test_an_event_that_cannot_be_read_changes_nothing():
    history = two_nodes().placed("p", 5, 6, "n1").ticks(50)
    events = history.sorted()
    (found,), lives = played(events, policy())
    lab = PlacementLab(CLUSTER, [policy()], lives)
    bad = msgspec.structs.replace(events[2], body=b"{")
    lab.play([*events[:3], bad, *events[3:]])
    ((again, *_),) = lab.end()
    assert [one.node for one in again.stays] == [one.node for one in found[0].stays]
