"""Every rule of docs/accounting.md for one pod: a history, and the run that it must give.

Times are seconds after the start. A run is (start, end, waiting or None, unknown, flags) as of second 100,000.
"""

import itertools

import pytest

from bus.amounts import ContainerResources, PodResources
from bus.events.observations import SourceHeard
from bus.events.pods import encoded_resources
from projections.accounts import accounts
from projections.pod_runs.fold import KUBELET, POD_GC
from tests import factories as f
from tests.projections.ledger import folded, tables

AS_OF = f.START_S + 100_000


def account(events):
    (found,) = accounts(folded(f.numbered(events)).select, as_of_s=AS_OF)
    return found


def run(events):
    """(held intervals, waiting, unknown, open, flags) of the one pod."""
    told = account(events)
    held = [(h.start_s - f.START_S, h.end_s - f.START_S) for h in told.holdings]
    return (held, told.waiting_s, told.unknown_s, told.is_open, list(told.flags))


seen, gone, listed = f.pod_observed, f.pod_vanished, f.pods_listed
NOW = 100_000
AGES = "2099-01-01T00:00:00Z"


def beat(at, cluster=f.CLUSTER):
    """The source of pods reports that it is alive."""
    said = f.said(SourceHeard(resource="pods"), key="pods", id=f"source.heard/pods/{at}", at=at)
    return f.msgspec.structs.replace(said, cluster=cluster)


RUNS = {
    # start of holding
    "a bound pod holds from PodScheduled until now": (
        [seen(at=9, created=2, scheduled=5)], ([(5, NOW)], 3, 0, True, [])),
    "a pod created with a node name holds from its creation": (
        [seen(at=9, created=2, scheduled=None)], ([(2, NOW)], 0, 0, True, [])),
    "the smallest start over all observations counts": (
        [seen(version=1, at=9, created=2, scheduled=7), seen(version=2, at=10, created=2, scheduled=5)],
        ([(5, NOW)], 3, 0, True, [])),
    "a start before creation is the creation": (
        [seen(at=9, created=4, scheduled=1)], ([(4, NOW)], 0, 0, True, [])),
    "a pod that was never bound waits until now": (
        [seen(at=9, created=2, node=None)], ([], NOW - 2, 0, True, [])),
    "a pod that was never bound waited until its end": (
        [seen(at=9, created=2, node=None), gone(at=30, created=2, node=None, deletion=20)],
        ([], 18, 0, False, [])),
    "a pod bound and gone in the same second held nothing and is a row": (
        [gone(at=5.9, created=2, scheduled=5, deletion=5)], ([], 3, 0, False, [])),
    "A21 a pod that runs and names no node is charged by its requests, flagged": (
        [seen(at=9, created=2, node=None, phase="Running")], ([(2, NOW)], 0, 0, True, ["no_node"])),
    "A21 it begins at PodScheduled where that is said": (
        [seen(at=9, created=2, node=None, scheduled=5, phase="Running")],
        ([(5, NOW)], 3, 0, True, ["no_node"])),
    "A21 the smallest start counts also when the node is named later": (
        [seen(version=1, at=9, created=2, node=None, scheduled=6, phase="Running"),
         seen(version=2, at=20, created=2, scheduled=7)],
        ([(6, 20), (20, NOW)], 4, 0, True, ["no_node"])),
    "A21 a pod that waits or failed unbound holds nothing": (
        [seen(version=1, at=9, node=None), seen(version=2, at=20, node=None, phase="Failed", disrupted=15)],
        ([], 20, 0, False, ["end_observed"])),
    "a pod whose kubelet spoke without PodScheduled says nothing of the start": (
        [seen(version=1, at=9, scheduled=5), seen(version=2, at=20, scheduled=None, acknowledged=7)],
        ([(5, NOW)], 5, 0, True, [])),
    "a pod that is known by the kubelet's stamp alone begins there, flagged": (
        [seen(at=20, scheduled=None, acknowledged=7)], ([(7, NOW)], 7, 0, True, ["start_acknowledged"])),
    "the smallest stamp of the kubelet counts, never before the creation": (
        [seen(version=1, at=20, created=9, scheduled=None, acknowledged=12),
         seen(version=2, at=30, created=9, scheduled=None, acknowledged=7)],
        ([(9, NOW)], 0, 0, True, ["start_acknowledged"])),
    "a stamp of the scheduler goes before the kubelet's": (
        [seen(version=1, at=9, scheduled=None, acknowledged=2), seen(version=2, at=20, scheduled=5)],
        ([(5, NOW)], 5, 0, True, [])),
    # end by finishing
    "a finish is the latest finishedAt": (
        [seen(at=50, phase="Succeeded", finished=(30, 40, 20))], ([(0, 40)], 0, 0, False, [])),
    "a finish without stamps is the kubelet's disruption": (
        [seen(at=50, phase="Failed", disrupted=33, disruption=KUBELET)], ([(0, 33)], 0, 0, False, [])),
    "a finish without stamps is PodGC's disruption": (
        [seen(at=50, phase="Failed", disrupted=33, disruption=POD_GC)], ([(0, 33)], 0, 0, False, [])),
    "PodGC's disruption means nothing where the request to go came before": (
        [seen(version=1, at=34, disrupted=33, disruption="EvictionByEvictionAPI"),
         seen(version=2, at=50, phase="Failed", disrupted=33, disruption=POD_GC)],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "the kubelet's disruption means nothing where another asked before": (
        [seen(version=1, at=34, disrupted=33, disruption="EvictionByEvictionAPI"),
         seen(version=2, at=50, phase="Failed", disrupted=33, disruption=KUBELET)],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "the kubelet's disruption counts where it was seen before the finish": (
        [seen(version=1, at=34, disrupted=33, disruption=KUBELET),
         seen(version=2, at=50, phase="Failed", disrupted=33, disruption=KUBELET)],
        ([(0, 33)], 0, 0, False, [])),
    "a disruption after the finish does not make it a request": (
        [seen(version=1, at=50, phase="Failed", disrupted=33, disruption=POD_GC),
         seen(version=2, at=60, phase="Failed", disrupted=33, disruption="DeletionByTaintManager")],
        ([(0, 33)], 0, 0, False, [])),
    "another's disruption is the request to go": (
        [seen(at=50, phase="Failed", disrupted=33, disruption="PreemptionByScheduler")],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a disruption without a reason that is kept is a request": (
        [seen(at=50, phase="Failed", disrupted=33)], ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a failed init container ends a pod whose containers never ran": (
        [seen(at=50, phase="Failed", init_finished=42, ran="init")], ([(0, 42)], 0, 0, False, [])),
    "a failed init container ends no pod whose containers ran once": (
        [seen(version=1, at=20), seen(version=2, at=50, phase="Failed", init_finished=42, ran="init")],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a pod that the kubelet refused held until it said so": (
        [seen(at=50, scheduled=20, phase="Failed", refusal="OutOfcpu", acknowledged=21)],
        ([(20, 21)], 20, 0, False, [])),
    "a pod that waited, was refused and found later held nothing": (
        [seen(at=5_000, scheduled=None, phase="Failed", refusal="OutOfcpu", acknowledged=21, listed=True)],
        ([], 21, 0, False, ["start_acknowledged"])),
    "a refusal after a container ran is no end": (
        [seen(version=1, at=30), seen(version=2, at=50, phase="Failed", refusal="NodeAffinity", acknowledged=1)],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a refusal after an init container ran is no end": (
        [seen(version=1, at=30, phase="Pending", ran="init"),
         seen(version=2, at=50, phase="Failed", refusal="NodeAffinity", acknowledged=1)],
        ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a finish was observed no later than its status was written": (
        [seen(at=50.9, phase="Failed", written=44)], ([(0, 44)], 0, 0, False, ["end_observed"])),
    "a status that is written before the start is none of it": (
        [seen(at=50, scheduled=20, phase="Failed", written=10)], ([(20, 50)], 20, 0, False, ["end_observed"])),
    "a status that is written after the observation counts for nothing": (
        [seen(at=50, phase="Failed", written=60)], ([(0, 50)], 0, 0, False, ["end_observed"])),
    # told by a list, or after a silence
    "a finish in a list ends it at the last proof, the rest is unknown": (
        [seen(version=1, at=20), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 20)], 0, 70, False, ["end_observed", "gap"])),
    "a finish in a list that is the first observation is unknown from the start": (
        [seen(at=90, scheduled=5, phase="Failed", listed=True)],
        ([], 5, 85, False, ["end_observed", "gap"])),
    "its own stamps prove it": (
        [seen(at=90, phase="Failed", listed=True, evidence=(10, 33, 95))],
        ([(0, 33)], 0, 57, False, ["end_observed", "gap"])),
    "the kubelet's stamp proves it": (
        [seen(at=90, phase="Failed", listed=True, acknowledged=7)],
        ([(0, 7)], 0, 83, False, ["end_observed", "gap"])),
    "a list that had it proves it": (
        [seen(version=1, at=20), listed(["p"], at=60), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 60)], 0, 30, False, ["end_observed", "gap"])),
    "the list that shows its finish proves nothing": (
        [seen(version=1, at=20), listed(["p"], version=2, at=89), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 20)], 0, 70, False, ["end_observed", "gap"])),
    "a list whose place a newer one of its moment takes proves nothing": (
        [seen(version=1, at=20), listed(["p"], version=50, at=100),
         seen(version=70, at=300, phase="Failed", listed=True), listed([], version=60, at=100)],
        ([(0, 20)], 0, 280, False, ["end_observed", "gap"])),
    "a list without it proves nothing": (
        [seen(version=1, at=20), listed(["q"], version=1, at=60), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 20)], 0, 70, False, ["end_observed", "gap"])),
    "a beat of the source proves it": (
        [seen(version=1, at=20), beat(70), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 70)], 0, 20, False, ["end_observed", "gap"])),
    "a beat of another cluster proves nothing": (
        [seen(version=1, at=20), beat(70, cluster="other"), seen(version=2, at=90, phase="Failed", listed=True)],
        ([(0, 20)], 0, 70, False, ["end_observed", "gap"])),
    "a finish that a watch told while it was alive is when it was observed": (
        [seen(version=1, at=20), beat(30), seen(version=2, at=105, phase="Failed")],
        ([(0, 105)], 0, 0, False, ["end_observed"])),
    "a finish that a watch told after a silence ends it at the last proof": (
        [seen(version=1, at=20), beat(30), seen(version=2, at=106, phase="Failed")],
        ([(0, 30)], 0, 76, False, ["end_observed", "gap"])),
    "a list breaks the silence": (
        [seen(version=1, at=20), beat(30), listed(["q"], version=1, at=100), seen(version=2, at=106, phase="Failed")],
        ([(0, 106)], 0, 0, False, ["end_observed"])),
    "a finish with stamps needs no proof": (
        [seen(version=1, at=20), beat(30), seen(version=2, at=900, phase="Failed", finished=(70,), listed=True)],
        ([(0, 70)], 0, 0, False, [])),
    "DELETED without a stamp after a silence ends it at the last proof": (
        [seen(version=1, at=20), beat(30), gone(version=2, at=106, evidence=(44,))],
        ([(0, 44)], 0, 62, False, ["end_observed", "gap"])),
    "a delete stamp of another watcher counts before a DELETED without one": (
        [seen(version=1, at=20), gone(version=2, at=505, evidence=(44,)), seen(version=2, at=600, deletion=480, grace_seconds=0)],
        ([(0, 480)], 0, 0, False, [])),
    "unknown time ends with the stamp of the delete": (
        [seen(version=1, at=20), seen(version=2, at=90, phase="Failed", listed=True), gone(version=3, at=91, deletion=80)],
        ([(0, 20)], 0, 60, False, ["end_observed", "gap"])),
    # a stamp that cannot be
    "a finish more than two seconds before the start proves the node's clock wrong": (
        [seen(at=50, scheduled=20, phase="Failed", finished=(17,))],
        ([(20, 50)], 20, 0, False, ["clock", "end_observed"])),
    "a finish two seconds before the start is the start": (
        [seen(at=50, scheduled=20, phase="Failed", finished=(18,))], ([], 20, 0, False, ["clamped"])),
    "a wrong finish makes room for the kubelet's disruption": (
        [seen(at=50, scheduled=20, phase="Failed", finished=(10,), disrupted=44, disruption=KUBELET)],
        ([(20, 44)], 20, 0, False, ["clock"])),
    "a wrong finish in a list is unknown time": (
        [seen(version=1, at=30, scheduled=20),
         seen(version=2, at=90, scheduled=20, phase="Failed", finished=(10,), listed=True)],
        ([(20, 30)], 20, 60, False, ["clock", "end_observed", "gap"])),
    "a request to go proves a pod whose node's clock is wrong": (
        [seen(version=1, at=30, scheduled=20),
         seen(version=2, at=90, scheduled=20, phase="Failed", finished=(10,), disrupted=77, listed=True)],
        ([(20, 77)], 20, 13, False, ["clock", "end_observed", "gap"])),
    "one finish that cannot be read proves no end": (
        [seen(at=50, phase="Failed", finished=(30, "soon"))], ([(0, 50)], 0, 0, False, ["clamped", "end_observed"])),
    "a finish without any stamp is when it was observed": (
        [seen(at=50.9, phase="Failed")], ([(0, 50)], 0, 0, False, ["end_observed"])),
    "a finish after its observation is clamped to it": (
        [seen(at=50, phase="Failed", finished=(70,))], ([(0, 50)], 0, 0, False, ["clamped"])),
    "the first finished observation counts, not a later one": (
        [seen(version=2, at=60, phase="Failed", finished=(55,)),
         seen(version=1, at=50, phase="Succeeded", finished=(40,))],
        ([(0, 40)], 0, 0, False, [])),
    "a phase that goes back does not open a finished pod": (
        [seen(version=1, at=50, phase="Succeeded", finished=(40,)), seen(version=2, at=60)],
        ([(0, 40)], 0, 0, False, [])),
    # end by deletion
    "a deletion stamp with grace 0 in a MODIFIED ends it": (
        [seen(at=50, deletion=44, grace_seconds=0)], ([(0, 44)], 0, 0, False, [])),
    "a deletion stamp with grace above 0 means nothing": (
        [seen(at=50, deletion=80, grace_seconds=30)], ([(0, NOW)], 0, 0, True, [])),
    "the smallest deletion stamp with grace 0 counts": (
        [seen(version=1, at=50, deletion=44, grace_seconds=0), gone(version=2, at=51, deletion=45)],
        ([(0, 44)], 0, 0, False, [])),
    "DELETED without such a stamp ends when it was observed": (
        [gone(at=50.7)], ([(0, 50)], 0, 0, False, ["end_observed"])),
    "DELETED that carries only the deadline ends when it was observed": (
        [gone(at=50.7, deletion=80, grace_seconds=30)], ([(0, 50)], 0, 0, False, ["end_observed"])),
    "the earliest of finish and delete counts": (
        [seen(version=1, at=50, phase="Failed", finished=(40,)), gone(version=2, at=61, deletion=60)],
        ([(0, 40)], 0, 0, False, [])),
    "the earliest of delete and finish counts": (
        [seen(version=1, at=50, phase="Failed", finished=(45,)), gone(version=2, at=61, deletion=41)],
        ([(0, 41)], 0, 0, False, [])),
    "A6 a pod that was first seen late is charged from its own stamps": (
        [seen(version=7, at=500, created=2, scheduled=5)], ([(5, NOW)], 3, 0, True, [])),
    "A8 a delete that is told twice ends it once": (
        [seen(version=1), gone(version=2, at=45, deletion=44), gone(version=3, at=95, deletion=94)],
        ([(0, 44)], 0, 0, False, [])),
    "A8 a delete of which nothing else is known is a row, and charged by its own stamps": (
        [gone(at=50, created=2, scheduled=5, deletion=40)], ([(5, 40)], 3, 0, False, [])),
    "A8 a delete before its add ends it": (
        [gone(version=2, at=50, deletion=44), seen(version=1, at=60)],
        ([(0, 44)], 0, 0, False, [])),
    "A8 a delete stamped before the start charges nothing, and not less": (
        [gone(at=50, scheduled=30, deletion=20)], ([], 30, 0, False, ["clamped"])),
    "A8 an end that came before any beginning is kept": (
        [gone(at=50, node=None, deletion=40)], ([], 40, 0, False, [])),
    # end unseen
    "a complete list without it ends it at its last observation": (
        [seen(at=20), listed([], at=90)], ([(0, 20)], 0, 70, False, ["vanished"])),
    "a complete list without it ends it at the latest list that had it": (
        [seen(at=20), listed(["p"], at=60), listed([], at=90)],
        ([(0, 60)], 0, 30, False, ["vanished"])),
    "unknown time ends with the first list that lacked it": (
        [seen(at=20), listed([], at=90), listed([], at=95)],
        ([(0, 20)], 0, 70, False, ["vanished"])),
    "vanished is taken back when an end arrives": (
        [seen(version=1, at=20), listed([], at=90), gone(version=2, at=31, deletion=30)],
        ([(0, 30)], 0, 0, False, [])),
    "vanished is taken back when it was seen after the list": (
        [seen(version=1, at=20), listed([], at=90), seen(version=2, at=91)],
        ([(0, NOW)], 0, 0, True, [])),
    "vanished is taken back when a later list has it": (
        [seen(version=1, at=20), listed([], at=90), listed(["p"], at=95)],
        ([(0, NOW)], 0, 0, True, [])),
    "a list before it was first seen says nothing": (
        [listed([], at=10), seen(at=20)], ([(0, NOW)], 0, 0, True, [])),
    "a list of an older version says nothing, whenever it arrived": (
        [seen(version=50, at=20), listed([], version=49, at=90)], ([(0, NOW)], 0, 0, True, [])),
    "a state older than a list is older than it, whenever it was told": (
        [seen(version=1, at=20), listed([], version=50, at=90), seen(version=49, at=9_000)],
        ([(0, 90)], 0, 0, False, ["vanished"])),
    "a state newer than a list is believed": (
        [seen(version=1, at=20), listed([], version=50, at=90), seen(version=51, at=9_000)],
        ([(0, NOW)], 0, 0, True, [])),
    "a part of a list speaks only of its range": (
        [seen(at=20), listed(["a", "z"], at=90, per_part=1)[1]], ([(0, NOW)], 0, 0, True, [])),
    "a part of a list whose range it lies in ends it": (
        [seen(at=20), listed(["a", "z"], at=90, per_part=1)[0]],
        ([(0, 20)], 0, 70, False, ["vanished"])),
    "a pod that waits vanishes too": (
        [seen(at=20, node=None), listed([], at=90)], ([], 20, 70, False, ["vanished"])),
    "a list of another cluster says nothing": (
        [seen(at=20), listed([], at=90, cluster="other")], ([(0, NOW)], 0, 0, True, [])),
    # bad stamps
    "an unreadable creation is when it was observed, flagged": (
        [seen(at=20, created="soon", scheduled=None)], ([(20, NOW)], 0, 0, True, ["clamped"])),
    "two stamps of a node whose clock is in another age are no start": (
        [seen(at=20, scheduled=None, phase="Failed", acknowledged=AGES, finished=(AGES,))],
        ([(0, 20)], 0, 0, False, ["clamped", "end_observed"])),
    "amounts that cannot be charged are nothing, flagged": (
        [seen(at=0, cpu="1E")], ([(0, NOW)], 0, 0, True, ["amounts_refused"])),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), RUNS.values(), ids=list(RUNS))
def test_a_pod_is_booked_by_the_rules(history, expected):
    assert expected == run(history)


@pytest.mark.parametrize(("history", "_"), RUNS.values(), ids=list(RUNS))
def test_order_and_repetition_do_not_matter(history, _):
    orders = itertools.islice(itertools.permutations([*history, history[0]]), 0, 12, 3)
    dumps = [tables(f.numbered(order), without=("sequence",)) for order in orders]

    assert dumps[:1] * len(dumps) == dumps


# --- totality ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [seen, gone], ids=["observed", "vanished"])
def test_the_same_event_twice_gives_the_same_row_with_the_same_sequence(kind):
    event = kind(version=1, at=5)

    assert tables(f.numbered([event])) == tables(f.numbered([event, event]))


# --- segments ---------------------------------------------------------------------------------------


def segments(events):
    """(from, to, team, user, node, model, cpu, gpu) of the one pod."""
    return [
        (h.start_s - f.START_S, h.end_s - f.START_S, h.team, h.user, h.node, h.model, h.cpu_milli, h.gpu_milli)
        for h in account(events).holdings
    ]  # fmt: skip


U = "unassigned"

SEGMENTS = {
    "nobody is named": ([seen()], [(0, NOW, U, U, "n", None, 1000, 0)]),
    "the pod's labels name team and user": (
        [seen(team="a", user="x"), f.namespace_observed(team="b", user="y")],
        [(0, NOW, "a", "x", "n", None, 1000, 0)]),
    "else the namespace's": (
        [seen(), f.namespace_observed(at=50, team="b", user="y")],
        [(0, NOW, "b", "y", "n", None, 1000, 0)]),
    "the first labels ever seen of a namespace hold for all time before, a later change cuts": (
        [seen(), f.namespace_observed(version=1, at=50, team="b"),
         f.namespace_observed(version=2, at=70.9, team="c")],
        [(0, 70, "b", U, "n", None, 1000, 0), (70, NOW, "c", U, "n", None, 1000, 0)]),
    "a namespace deleted keeps naming its pods": (
        [seen(), f.namespace_observed(team="b"), f.namespace_vanished(at=60)],
        [(0, NOW, "b", U, "n", None, 1000, 0)]),
    "another namespace's labels are not its own": (
        [seen(), f.namespace_observed("other", team="b")],
        [(0, NOW, U, U, "n", None, 1000, 0)]),
    "a relabelled pod is cut when the label was first seen": (
        [seen(version=1, team="a"), seen(version=2, at=30.5, team="b")],
        [(0, 30, "a", U, "n", None, 1000, 0), (30, NOW, "b", U, "n", None, 1000, 0)]),
    "a resized pod is cut when the size was first seen": (
        [seen(version=1), seen(version=2, at=30.5, cpu=2)],
        [(0, 30, U, U, "n", None, 1000, 0), (30, NOW, U, U, "n", None, 2000, 0)]),
    "the GPU model is the node's, first seen for all time before, later changes cut": (
        [seen(gpu=2), f.node_observed(version=1, at=40, model="A"), f.node_observed(version=2, at=80, model="B")],
        [(0, 80, U, U, "n", "A", 1000, 2000), (80, NOW, U, U, "n", "B", 1000, 2000)]),
    "a pod on a deleted node holds until it ends": (
        [seen(), f.node_observed(model="A"), f.node_vanished(at=30)],
        [(0, NOW, U, U, "n", "A", 1000, 0)]),
    "a change after the end cuts nothing": (
        [gone(at=41, deletion=40), f.namespace_observed(version=1, team="b"),
         f.namespace_observed(version=2, at=50, team="c")],
        [(0, 40, "b", U, "n", None, 1000, 0)]),
    "a change in the second of the end cuts nothing": (
        [seen(version=1, team="a"), gone(version=2, at=40, team="b", deletion=40)],
        [(0, 40, "a", U, "n", None, 1000, 0)]),
    "two changes that cancel each other are merged": (
        [seen(version=1, at=0), f.namespace_observed(version=1, team="a"),
         seen(version=2, at=50, team="a")],
        [(0, NOW, "a", U, "n", None, 1000, 0)]),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), SEGMENTS.values(), ids=list(SEGMENTS))
def test_the_held_interval_is_cut_where_something_charged_changes(history, expected):
    assert expected == segments(history)
    assert expected == segments(history[::-1])


def test_a_namesake_with_another_uid_is_another_pod():
    events = [
        seen("one", 1, name="web"), gone("one", 2, 51, name="web", deletion=50),
        seen("two", 3, 61, name="web", created=60),
    ]  # fmt: skip
    found = accounts(folded(f.numbered(events)).select, as_of_s=AS_OF)

    assert [("one", False), ("two", True)] == [(a.uid, a.is_open) for a in found]


def test_extended_resources_stand_on_the_row_under_their_own_names():
    mig = encoded_resources(PodResources(overhead={"nvidia.com/mig-1g": "2"}))

    assert '{"nvidia.com/mig-1g":2}' == account([seen(resources=mig)]).holdings[0].extended


# --- as of a moment -----------------------------------------------------------------------------------

MOMENTS = {
    "before it was bound it waits": (4, ([], 2, True)),
    "while it holds it is open until then": (10, ([(5, 10)], 3, True)),
    "at the second of its end it is ended": (40, ([(5, 40)], 3, False)),
    "later it stays as it is": (90, ([(5, 40)], 3, False)),
}


@pytest.mark.parametrize(("second", "expected"), MOMENTS.values(), ids=list(MOMENTS))
def test_an_account_as_of_a_moment_knows_nothing_later(second, expected):
    events = [seen(at=9, created=2, scheduled=5), gone(at=41, created=2, scheduled=5, deletion=40)]
    (told,) = accounts(folded(f.numbered(events)).select, as_of_s=f.START_S + second)
    held = [(h.start_s - f.START_S, h.end_s - f.START_S) for h in told.holdings]

    assert expected == (held, told.waiting_s, told.is_open)


def test_a_pod_that_was_not_yet_created_is_not_there():
    assert [] == accounts(folded(f.numbered([seen(at=9, created=2)])).select, as_of_s=f.START_S + 1)


def test_one_absurd_resource_makes_no_pod_free():
    """Scratch space in bytes is a resource of its own, and two of its tebibytes are more than a row may count."""
    asked = {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "4", "fast.io/scratch": "2Ti"}
    body = encoded_resources(PodResources(containers=(ContainerResources(requests=asked),)))

    told = account([seen(at=5, created=0, resources=body)])
    (held,) = told.holdings

    assert (held.cpu_milli, held.memory_mib, held.gpu_milli, held.extended) == (
        3000,
        2048,
        4000,
        "",
    )
    assert told.flags == ("amounts_refused",)
