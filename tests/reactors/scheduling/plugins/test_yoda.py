"""Yoda: cards come, change and go with the history; the numeric cases have its formula."""

from bus.kube.watch.labels import LabelPolicy
from bus.sources import scvs
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.plugins.yoda import LACKING, UNKNOWN, Yoda
from tests.bus.sources.records import record
from tests.reactors.scheduling.worlds import World, reasons


def measured(world, name, version, change="MODIFIED", **card):
    metadata = {"name": name, "uid": f"scv-{name}", "resourceVersion": str(version)}
    status = {"cardList": [{"health": "Healthy", **card}], "cardNumber": 1, "totalMemorySum": 9}
    found = record({"metadata": metadata, "status": status}, change)
    world.see(scvs.translate(found, LabelPolicy()))


def test_cards_follow_the_history():
    world = World().node("b").node("c")
    pod = {"labels": {"scv/memory": "5"}}
    world.cycle(**pod)
    found = [reasons(Yoda(), world.cycle(**pod))]
    measured(world, "b", 1, freeMemory=4)
    found.append(reasons(Yoda(), world.cycle(**pod)))
    measured(world, "b", 2, freeMemory=5)
    world.node("a")
    found.append(reasons(Yoda(), world.cycle(**pod)))
    measured(world, "b", 3, "DELETED")
    found.append(reasons(Yoda(), world.cycle(**pod)))

    assert found == [
        {"b": {UNKNOWN}, "c": {UNKNOWN}},
        {"b": {LACKING}, "c": {UNKNOWN}},
        {"a": {UNKNOWN}, "c": {UNKNOWN}},
        {"a": {UNKNOWN}, "b": {UNKNOWN}, "c": {UNKNOWN}},
    ]


def test_what_would_place_a_pod_is_said():
    world = World().node("a").node("b")
    measured(world, "a", 1, freeMemory=4)
    run = Framework(Profile("yoda", (Enabled(PrioritySort()), Enabled(Yoda()))), world.context)
    found = explained(run, world.pod("p", labels={"scv/number": "-1"}), 1)

    assert found.changes == [
        "ask for fewer cards, less memory or the clock that the node has (scv/number, scv/memory, scv/clock) (node a)"
    ]
