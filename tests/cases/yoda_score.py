"""Runs `yoda_score` cases: Yoda's filter and score over facts, and rules of the framework with plugins of the cases' own."""

from typing import ClassVar

import msgspec
import numpy as np
import pytest

from bus.clock import SECOND_US
from bus.kube.watch.labels import LabelPolicy
from bus.sources import scvs
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.framework.contract import Code, Permission, scaled
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework, ScoreRangeError
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.plugins.sorting.yoda_sort import YodaSort
from reactors.scheduling.plugins.yoda import NoMemoryError, Yoda
from reactors.scheduling.shape import Mark
from tests.bus.sources.records import record
from tests.reactors.scheduling.worlds import World

FORMULAS = {"as_written": "documented", "clock_fixed": "corrected"}
CARD = {
    "health": "health", "free_memory": "freeMemory", "total_memory": "totalMemory", "clock": "clock",
    "core": "core", "bandwidth": "bandwidth", "power": "power",
}  # fmt: skip


def check(case):
    """The rule of the case gives what it says."""
    RULES[case["rule"]](case["given"], case["expect"])


def _filter_and_score(given, expect):
    for mode, formula in FORMULAS.items():
        world = _world(given["nodes"])
        cycle = world.cycle(labels=given["labels"])

        assert _scored(Yoda(formula), cycle, given) == expect[mode], mode


def _world(nodes):
    world = World()
    for one in nodes:
        world.node(one["name"])
        if one["has_metrics"]:
            cards = [{CARD[key]: value for key, value in card.items()} for card in one["cards"]]
            status = {
                "cardList": cards, "cardNumber": one["card_number"],
                "totalMemorySum": one["total_memory_sum"], "freeMemorySum": one["free_memory_sum"],
            }  # fmt: skip
            metadata = {"name": one["name"], "uid": f"scv-{one['name']}", "resourceVersion": "1"}
            found = record({"metadata": metadata, "status": status})
            world.see(scvs.translate(found, LabelPolicy()))
        for number, labels in enumerate(one["pods"]):
            world.pod(f"{one['name']}-{number}", one["name"], labels=labels)
    return world


def _scored(plugin, cycle, given):
    """What a case tells of one formula."""
    names = cycle.columns.names
    refused = np.zeros(len(names), np.bool_)
    for one in plugin.filter(cycle, slice(None)):
        refused |= one.nodes
    rows = np.flatnonzero(~refused)
    error = {}
    try:
        plugin.pre_score(cycle, rows)
    except NoMemoryError:
        error = {"error": "integer divide by zero"}
    parts = cycle.data[plugin.name]
    totals = {one["name"]: one["total_memory_sum"] for one in given["nodes"]}
    raw, nodes = plugin.score(cycle, rows), {}
    for at, row in enumerate(rows):
        said = {
            "cards": int(parts.cards[at]), "allocate": int(parts.allocate[at]),
            "actual": int(parts.actual[at]), "raw": int(raw[at]),
        }  # fmt: skip
        nodes[names[row]] = said if totals[names[row]] else error
    normal, best = {}, []
    if not error and rows.size:
        scores = plugin.normalize(cycle, raw)
        normal = {names[row]: int(score) for row, score in zip(rows, scores, strict=True)}
        best = [name for name, score in normal.items() if score == max(normal.values())]
    order = [one["name"] for one in given["nodes"]]
    return {
        "maxima": msgspec.structs.asdict(parts.largest),
        "feasible": {name: not bad for name, bad in zip(names, refused.tolist(), strict=True)},
        "nodes": nodes, "normalized": normal, "best": sorted(best, key=order.index), **error,
    }  # fmt: skip


def _queue_order(given, expect):
    world = World()
    pods = [world.pod(f"p{n}", labels=one["labels"]) for n, one in enumerate(given["pods"])]
    # When they came is left out of the cases.
    priorities = [-YodaSort().sort_key(pod, 0)[0] for pod in pods]

    assert {
        "priority": priorities,
        "less": [[one > other for other in priorities] for one in priorities],
    } == expect


class Told(msgspec.Struct, frozen=True):
    """Scores what it is told to."""

    is_local: ClassVar[bool] = False
    name: str
    normal: str | None
    scores: dict[str, int]

    def score(self, cycle, rows):
        return np.array([self.scores[name] for name in cycle.columns.names])[rows]

    def normalize(self, cycle, scores):
        return scaled(scores, is_reversed=self.normal == "max_reverse") if self.normal else scores


class Reserving(msgspec.Struct, frozen=True):
    """Reserves, or says why not."""

    is_local: ClassVar[bool] = True
    name: str
    status: str
    calls: list[str]

    def reserve(self, cycle, row):
        self.calls.append(f"reserve {self.name}")
        return "" if self.status == "Success" else self.status

    def unreserve(self, cycle):
        self.calls.append(f"unreserve {self.name}")


def _framework(world, plugins):
    enabled = [Enabled(one, weight) for one, weight in plugins]
    return Framework(Profile("case", (Enabled(PrioritySort()), *enabled)), world.context)


def _score_total(given, expect):
    world = World()
    for name in given["plugins"][0]["scores"]:
        world.node(name)
    # kube-scheduler reads a weight of 0 as one that is not said.
    told = [
        (Told(one["name"], one["normalize"], one["scores"]), one["weight"] or 1)
        for one in given["plugins"]
    ]
    run = _framework(world, told)
    if expect.get("error"):
        with pytest.raises(ScoreRangeError):
            run.choose(world.cycle(), 1)
        return
    found, names = run.choose(world.cycle(), 1), world.columns.names
    total = dict(zip(names, found.totals.tolist(), strict=True))

    assert {
        "weighted": {
            plugin: dict(zip(names, scores.tolist(), strict=True))
            for plugin, scores in found.scores.items()
        },
        "total": total,
        "best": sorted(name for name in names if total[name] == max(total.values())),
    } == expect


def _reserve(given, expect):
    world, calls = World().node("a"), []
    plugins = [(Reserving(one["name"], one["returns"], calls), 1) for one in given["plugins"]]
    run, cycle = _framework(world, plugins), world.cycle()
    status = run.reserve(cycle, 0)
    if status:
        run.unreserve(cycle)

    assert {"status": status or "Success", "calls": calls} == expect


def _nodes_to_find(given, expect):
    """kube-scheduler stops when it has found enough nodes. Here all that fit are found, whatever would be enough."""
    world = World()
    for number in range(given["nodes"]):
        world.node(f"n{number}")
    run = _framework(world, [])

    assert run.choose(world.cycle(), 1).rows.size == given["nodes"] >= expect["enough"]


class Permitting(msgspec.Struct, frozen=True):
    """Lets pass, or not, as it is told to."""

    is_local: ClassVar[bool] = True
    name: str
    status: str
    timeout_us: int
    calls: list[str]

    def permit(self, cycle, row):
        self.calls.append(self.name)
        return Permission(CODES.get(self.status, Code.ERROR), self.status, self.timeout_us)

    def permits(self, cycle):
        return ()

    def forbids(self, cycle):
        return ()


CODES = {"Success": Code.SUCCESS, "Wait": Code.WAIT, "Unschedulable": Code.UNSCHEDULABLE}


def _permit(given, expect):
    world, calls = World().node("a"), []
    world.pod("p", constraints=msgspec.Raw(b'{"schedulerName":"case"}'))
    plugins = (
        Permitting(one["name"], one["returns"], one["timeout_seconds"] * SECOND_US, calls)
        for one in given["plugins"]
    )
    profile = Profile("case", (Enabled(PrioritySort()), *map(Enabled, plugins)))
    scheduler = Scheduler([profile], world.state)
    scheduler.begin(0)
    scheduler.place("case", "p", "a", (), Mark(1, "pass", 0, 0))
    found = scheduler.assumed.get("p")
    waits = dict(found.waits) if found is not None else {}
    refused = scheduler.queues["case"].get("p")
    status = refused.reason.rpartition(": ")[2] if refused else "Wait" if waits else "Success"
    final = after = None
    events = [
        (one["at_seconds"] * SECOND_US, number, one) for number, one in enumerate(given["events"])
    ]
    events += [(at, -1, {"do": "elapse"}) for at in waits.values()]
    for at_us, _, event in sorted(events, key=lambda one: one[:2]) if waits else ():
        scheduler.elapse(at_us)
        if event["do"] == "allow":
            scheduler.assumed_pods.allow("p", event["plugin"], at_us)
        elif event["do"] == "reject":
            scheduler.assumed_pods.reject("p", "rejected", at_us)
        if final is None and (
            "p" not in scheduler.assumed or list(scheduler.assumed_pods.outstanding())
        ):
            final = "Success" if "p" in scheduler.assumed else "Unschedulable"
            after = at_us // SECOND_US

    assert {
        "status": status, "called": calls, "final": final, "final_after_seconds": after,
        "waiting": {name: until // SECOND_US for name, until in waits.items()},
    } == expect  # fmt: skip


RULES = {
    "filter_and_score": _filter_and_score,
    "queue_order": _queue_order,
    "score_total": _score_total,
    "reserve": _reserve,
    "nodes_to_find": _nodes_to_find,
    "permit": _permit,
}
