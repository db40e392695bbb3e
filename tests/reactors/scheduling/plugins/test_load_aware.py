"""LoadAware: measurements come, grow old and go with the history; the numeric cases have its arithmetic."""

import random

import msgspec
import pytest

from bus.sources.catalogue import NODE_METRICS, NODE_USAGE
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.load_aware import EXPIRED, OVER, LoadAware, Percents, Weights
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.queueing.hints import Hint, hints_of
from tests import factories as f
from tests.bus.sources.records import POLICY, record
from tests.reactors.scheduling.worlds import World, reasons, scores

CPU = OVER.format("cpu")


def measured(world, name, version, cpu, at_s=0, change="MODIFIED", pods=()):
    status = {
        "updateTime": f.stamp(at_s),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}},
        "podsMetric": [
            {"namespace": "ns", "name": pod, "podUsage": {"resources": {"cpu": uses}}} for pod, uses in pods
        ],
    }  # fmt: skip
    metadata = {"name": name, "uid": f"metric-{name}", "resourceVersion": str(version)}
    found = record({"metadata": metadata, "status": status}, change)
    found = msgspec.structs.replace(found, time_us=f.us(at_s))
    world.see(NODE_METRICS.translate(found, POLICY))


def measured_by_metrics_server(world, name, cpu, at_s=0):
    usage = {"cpu": cpu, "memory": "1Gi"}
    found = {
        "metadata": {"name": name},
        "timestamp": f.stamp(at_s),
        "window": "10s",
        "usage": usage,
    }
    found = msgspec.structs.replace(record(found, "LISTED"), time_us=f.us(at_s))
    world.see(NODE_USAGE.translate(found, POLICY))


def at(world, seconds):
    world.columns.at_us = f.us(seconds)


def test_a_node_is_refused_while_it_is_full_or_not_measured():
    world, found = World().node("a").node("b"), []
    steps = (
        lambda: at(world, 0),
        lambda: measured(world, "a", 1, "15"),
        lambda: measured(world, "a", 2, "1"),
        lambda: at(world, 180),
        lambda: measured(world, "a", 3, "1", 150),
        lambda: measured(world, "a", 3, "1", 150, "DELETED"),
    )
    for step in steps:
        step()
        found.append(reasons(LoadAware(), world.cycle()))

    assert found == [{}, {"a": {CPU}}, {}, {"a": {EXPIRED}}, {}, {}]


def test_a_pod_counts_by_its_estimate_until_a_measurement_shows_it():
    world = World().node("a", allocatable={"cpu": "10", "memory": "64Gi", "pods": "9"})
    measured(world, "a", 1, "3")
    at(world, 1)
    asks = {"resources": f.requesting({"cpu": "4"})}
    found = [reasons(LoadAware(), world.cycle(**asks))]
    placed = world.pod("first", **asks)
    world.columns.place(placed, "a")
    found.append(reasons(LoadAware(), world.cycle(**asks)))
    world.pod("first", "a", **asks)
    measured(world, "a", 2, "3500m", at_s=100, pods=[("first", "500m")])
    found.append(reasons(LoadAware(), world.cycle(**asks)))

    # 3 and 3.4 are 64 %, with another 3.4 they are 98 %, and 3.5 and 3.4 are 69 %.
    assert found == [{}, {"a": {CPU}}, {"a": {CPU}}]
    assert reasons(LoadAware(thresholds=Percents(70)), world.cycle(**asks)) == {}


@pytest.mark.parametrize(
    ("rules", "pods", "created", "is_refused"),
    [
        ("current", [], -9_000, True),
        ("current", [("old", "1")], -9_000, False),
        ("current", [("old", "1")], -60, False),
        ("current", [("old", "1")], 0, True),
        ("v1.0", [], -9_000, False),
        ("v1.0", [("old", "1")], 0, False),
    ],
)
def test_a_pod_that_is_not_measured_counts_however_old_it_is(rules, pods, created, is_refused):
    """Version 1.0 goes by time alone, and leaves out who came at the very moment of the measurement."""
    world = World().node("a", allocatable={"cpu": "10", "memory": "64Gi", "pods": "9"})
    world.pod("old", "a", resources=f.requesting({"cpu": "8"}), created=1_000 + created)
    measured(world, "a", 1, "1", at_s=1_000, pods=pods)
    at(world, 1_000)

    found = scores(LoadAware(rules=rules, weights=Weights(memory=0)), world.cycle())
    assert (found["a"] < 50) is is_refused


def test_limits_as_large_as_tenants_like_do_not_wrap():
    world = World().node("a")
    measured(world, "a", 1, "1")
    at(world, 1)
    for number in range(200):
        limits = {"cpu": 2**62, "memory": 2**62}
        world.pod(f"p{number}", "a", resources=f.requesting({"cpu": "1m"}), limits=limits)

    assert reasons(LoadAware(), world.cycle()) == {"a": {CPU, OVER.format("memory")}}
    assert scores(LoadAware(), world.cycle()) == {"a": 0}


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ('{"usageThresholds":{"cpu":10}}', True),
        ('{"usageThresholds":{"memory":99}}', False),
        ('{"usageThresholds":{"cpu":-1}}', False),
        ('{"usageThresholds":[', False),
        ("NaN", False),
        ('{"a":' + "[" * 5_000, False),
        ('{"usageThresholds":{}}', False),
        ('{"usageThresholds":{"cpu":0}}', False),
    ],
)
def test_a_nodes_own_thresholds_count_where_they_can_be_read(said, is_refused):
    world = World().node("a", usage_thresholds=said)
    measured(world, "a", 1, "8")
    at(world, 1)

    assert bool(reasons(LoadAware(), world.cycle())) is is_refused


def test_a_measurement_wakes_who_waits_for_one():
    world, found = World().node("a"), []
    assert world.columns
    world.listeners.append(lambda changes: found.extend(o for c in changes for o in hints_of(c)))
    measured(world, "a", 1, "1")
    measured(world, "a", 1, "1", change="DELETED")

    assert found == [Hint.LOAD, Hint.LOAD]
    assert Hint.LOAD in LoadAware.helped_by


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        ("15", "wait until a uses less, or raise LoadAware's thresholds (node a)"),
        (
            "1",
            "let Koordinator's node agent measure a: its measurement is older than 180 s (node a)",
        ),
    ],
)
def test_what_would_place_a_pod_is_said(cpu, said):
    world = World().node("a")
    measured(world, "a", 1, cpu, at_s=0)
    at(world, 1 if cpu == "15" else 180)
    run = Framework(Profile("load", (Enabled(PrioritySort()), Enabled(LoadAware()))), world.context)

    assert explained(run, world.pod("p"), 1).changes == [said]


def test_a_half_full_node_is_best_where_a_target_is_packed():
    world = World().node("a").node("b").node("c")
    for name, cpu in (("a", "0"), ("b", "5550m"), ("c", "15")):
        measured(world, name, 1, cpu)
    at(world, 1)

    assert scores(LoadAware(strategy="TargetLoad"), world.cycle()) == {"a": 48, "b": 100, "c": 1}


@pytest.mark.parametrize("seed", range(30))
def test_what_follows_change_by_change_is_what_would_be_read_anew(seed):
    dice = random.Random(seed)
    world, plugin = (
        World().node("a").node("b").node("c"),
        LoadAware(percentile="p95", scores_prod=True),
    )
    for step in range(1, 40):
        does, name = dice.randrange(6), dice.choice("abc")
        if does == 0:
            gone = "DELETED" if dice.random() < 0.2 else "MODIFIED"
            uses = [(f"p{dice.randrange(9)}", f"{dice.randrange(4)}") for _ in range(3)]
            measured(world, name, step, f"{dice.randrange(20)}", dice.randrange(99), gone, uses)
        elif does == 1:
            world.node(name, usage_thresholds=dice.choice(('{"usageThresholds":{"cpu":9}}', "")))
        elif does == 2:
            ahead = world.pod(f"p{dice.randrange(9)}", resources=f.requesting({"cpu": "1"}))
            world.columns.place(ahead, name)
        elif does == 3:
            world.columns.take_back(f"p{dice.randrange(9)}")
        elif does == 4:
            asks = {"resources": f.requesting({"cpu": dice.choice("123")}), "priority": dice.choice((0, 5500))}  # fmt: skip
            world.pod(f"p{dice.randrange(9)}", name, created=dice.randrange(99), **asks)
        else:
            at(world, dice.randrange(250))
        cycle = world.cycle("new")
        kept = (reasons(plugin, cycle), scores(plugin, cycle))
        world.columns.tables.clear()

        assert kept == (reasons(plugin, cycle), scores(plugin, cycle))


def test_the_largest_amounts_do_not_wrap():
    world = World().node("a", allocatable={"cpu": "9999999999999", "memory": "999Ei", "pods": "9"})
    measured(world, "a", 1, "9999999999999999")
    at(world, 1)
    asks = {"resources": f.requesting({"cpu": "9999999999999", "memory": "999Ei"})}
    for strategy in ("LeastUsed", "TargetLoad"):
        plugin = LoadAware(
            strategy=strategy, factors=Percents(10_000, 10_000), dominant_weight=1_000
        )
        found = plugin.score(world.cycle(**asks), slice(None))

        assert 0 <= found[0] <= 100
    assert reasons(plugin, world.cycle(**asks))["a"]


def test_a_pod_that_never_starts_holds_a_node_by_its_request_at_most():
    world = World().node("a")
    measured(world, "a", 1, "1", at_s=1_000)
    at(world, 1_001)
    world.pod("stuck", "a", created=0, resources=f.requesting({"cpu": "0"}), limits={"cpu": 10**6})
    world.pod("new", "b", created=0)

    assert reasons(LoadAware(), world.cycle()) == {}


def test_a_clock_that_runs_ahead_keeps_no_measurement_young():
    world = World().node("a")
    status = {"updateTime": f.stamp(10**8), "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}}  # fmt: skip
    metadata = {"name": "a", "uid": "m", "resourceVersion": "1"}
    found = msgspec.structs.replace(record({"metadata": metadata, "status": status}), time_us=f.us(0))  # fmt: skip
    world.see(NODE_METRICS.translate(found, POLICY))
    at(world, 180)

    assert reasons(LoadAware(), world.cycle()) == {"a": {EXPIRED}}


def test_what_is_not_reported_over_a_duration_is_estimated_and_not_idle():
    world = World().node("a")
    world.pod("there", "a", created=-900, resources=f.requesting({"cpu": "13"}), limits={"cpu": 13_000})  # fmt: skip
    told = {"duration": "5m", "usage": {"p95": {"resources": {"memory": "1Gi"}}}}
    used = {"nodeUsage": {"resources": {"cpu": "1"}}, "aggregatedNodeUsages": [told]}
    metadata = {"name": "a", "uid": "m", "resourceVersion": "1"}
    status = {"updateTime": f.stamp(0), "nodeMetric": used}
    found = msgspec.structs.replace(record({"metadata": metadata, "status": status}), time_us=f.us(0))  # fmt: skip
    world.see(NODE_METRICS.translate(found, POLICY))
    at(world, 1)
    plugin = LoadAware(percentile="p95", percentile_seconds=300)

    assert reasons(plugin, world.cycle()) == {"a": {CPU}}


def test_a_pod_that_is_seen_where_it_was_placed_is_shown_by_a_measurement():
    world, plugin = World().node("a"), LoadAware()
    asks = {"resources": f.requesting({"cpu": "9"}), "created": 0}
    pod = world.pod("p0", **asks)
    world.columns.place(pod, "a")
    measured(world, "a", 1, "9", at_s=500, pods=[("p0", "9")])
    at(world, 501)
    before = reasons(plugin, world.cycle())
    world.pod("p0", "a", **asks)
    kept = reasons(plugin, world.cycle())
    world.columns.tables.clear()

    assert (before, kept) == ({}, reasons(plugin, world.cycle()))


def test_what_metrics_server_measures_shows_all_pods_that_are_older_than_its_window():
    world = World().node("a", allocatable={"cpu": "10", "memory": "64Gi", "pods": "9"})
    own = {"resources": f.requesting({"cpu": "2"})}
    world.pod("older", "a", created=0, **own)
    world.pod("newer", "a", created=98, **own)
    plugin = LoadAware(thresholds=Percents(cpu=50), factors=Percents(100, 100))
    found = []
    for cpu in ("1", "2", "4"):
        measured_by_metrics_server(world, "a", cpu, 100 + int(cpu))
        at(world, 110)
        found.append(reasons(plugin, world.cycle("p", resources=f.requesting({"cpu": "1"}))))

    # What is used, the newer pod's two cores, and the one that is asked for: 4, 5 and 7 of 10.
    assert found == [{}, {}, {"a": {CPU}}]


def test_production_counts_by_estimates_where_no_pod_is_measured():
    world = World().node("a", allocatable={"cpu": "10", "memory": "64Gi", "pods": "9"})
    batch = {"kubernetes.io/batch-cpu": "5000"}
    world.pod("batch", "a", created=0, priority=5_500, resources=f.requesting(batch))
    world.pod("prod", "a", created=0, priority=9_500, resources=f.requesting({"cpu": "3"}))
    measured_by_metrics_server(world, "a", "9", 100)
    at(world, 110)
    own = {"thresholds": Percents(), "factors": Percents(100, 100)}
    pod = {"resources": f.requesting({"cpu": "1"}), "priority": 9_500}
    found = [
        reasons(LoadAware(prod_thresholds=Percents(cpu=percent), **own), world.cycle("p", **pod))
        for percent in (40, 39)
    ]

    assert found == [{}, {"a": {CPU}}]
