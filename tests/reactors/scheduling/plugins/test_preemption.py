"""DefaultPreemption: single cases, and random worlds against the oracle."""

import msgspec
import pytest

from bus.events.constraints import LabelSelector
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.plugins.default_preemption import DefaultPreemption
from tests import factories as f
from tests.reactors.scheduling import preemption_oracle as oracle
from tests.reactors.scheduling.terms import HOST, ZONE, constrained, constrained_world, placed
from tests.reactors.scheduling.worlds import World, shown

PRIORITIES = (-5, 0, 0, 3)


def asking(world, uid="p", plugin=None, **fields):
    """What the plugin says of a pod that waits."""
    profile = default_profile("default-scheduler")
    if plugin is not None:
        kept = (one for one in profile.plugins if one.plugin.name != plugin.name)
        profile = Profile(profile.name, (*kept, Enabled(plugin)))
    framework = Framework(profile, world.context)
    cycle = Cycle(world.pod(uid, **fields), world.context)
    assert framework.choose(cycle, 1).row < 0
    return framework.post_filter(cycle, 1)


def full(*priorities, cpu="1", **fields):
    """A node that is filled by pods of these priorities, named a, b, …; the first began first."""
    world = World().node("n", allocatable={"cpu": str(len(priorities)), "pods": "9"})
    for number, priority in enumerate(priorities):
        world.pod("abcdef"[number], "n", cpu=cpu, memory="0", priority=priority, scheduled=number, **fields)  # fmt: skip
    return world


def names(found):
    return [one.uid for one in found.victims]


def crowded_world(seed, kind):
    """Nodes that are full of pods of several priorities, and an important pod that waits."""
    world, random = constrained_world(seed)
    names = world.columns.names

    def fields(node, cpu):
        found = placed(random, node) | {"resources": f.requesting({"cpu": cpu, "memory": "1Gi"})}
        return found | (constrained({}) if kind == "plain" or random.random() < 0.6 else {})

    for number in range(24):
        cpu = random.choice(("1", "3", "5"))
        ranks = {"priority": random.choice(PRIORITIES), "scheduled": random.randint(0, 9)}
        world.pod(f"low{number}", **fields(random.choice(names), cpu) | ranks)
    budgets = [budget(world, random, number) for number in range(random.randint(0, 3))]
    asker = fields(None, random.choice(("5", "9", "12"))) | {"deletion": None}
    if kind == "constrained" and random.random() < 0.8:
        asker |= constrained(random.choice(CHOOSY))
    return world, world.pod("p", **asker | {"priority": random.choice((3, 9, 9))}), budgets


def budget(world, random, number):
    """A disruption budget, as the oracle reads it."""
    app, space = random.choice("ab"), random.choice(("ns", "other"))
    expressions = random.choice(
        (
            {"matchLabels": {"app": app}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
            {},
        )
    )
    selector = msgspec.convert(expressions, LabelSelector)
    allowed = random.randint(0, 2)
    world.see(f.disruption_budget_observed(f"b{number}", namespace=space, selector=selector, allowed=allowed))  # fmt: skip
    means = {
        "matchLabels": lambda labels: labels.get("app") == app,
        "matchExpressions": lambda labels: labels.get("app") != app,
    }
    selects = next((means[key] for key in expressions), lambda labels: False)
    return {"namespace": space, "allowed": allowed, "selects": selects}


def _far(key):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAntiAffinity": {required: [term]}}}


def _spread(key):
    selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    return {"topologySpreadConstraints": [{"topologyKey": key, "labelSelector": selector}]}


CHOOSY = (
    _far(ZONE), _far(HOST), _far("disk"), _spread(ZONE), _spread(HOST), {"hostPorts": [{"hostPort": 80}]},
)  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "constrained"])
@pytest.mark.parametrize("seed", range(50))
def test_victims_are_those_of_the_oracle(seed, kind):
    world, pod, budgets = crowded_world(seed, kind)
    framework = Framework(default_profile("default-scheduler"), world.context)
    cycle, before = Cycle(pod, world.context), shown(world.columns)
    if framework.choose(cycle, 1).row >= 0:
        return
    found, expected = framework.post_filter(cycle, 1), oracle.candidates(pod, world.state, budgets)

    assert shown(world.columns) == before
    if not expected:
        nodes = len(world.columns.nodes)
        assert (found.node, found.victims) == ("", ())
        assert found.message.startswith(f"preemption: 0/{nodes} nodes are available: ")
    else:
        assert found.node in oracle.best(expected)
        assert (list(found.victims), found.violating) == expected[found.node]


def test_as_few_as_are_enough_go_and_the_least_important_first():
    assert names(asking(full(1, 0, 0), cpu="1", memory="0", priority=5)) == ["c"]


def test_victims_are_shown_from_the_most_important_to_the_least():
    assert names(asking(full(0, 2, 1), cpu="3", memory="0", priority=5)) == ["b", "c", "a"]


@pytest.mark.parametrize("namespace", ["kube-system", "bursar-system"])
def test_pods_in_system_namespaces_stay(namespace):
    """Bursar's account may not evict them; the node's other pod may go."""
    world = full(0)
    world.pod("z", "n", cpu="0", memory="0", namespace=namespace)
    world.pod("y", "n", cpu="1", memory="0", namespace=namespace)

    assert names(asking(world, cpu="1", memory="0", priority=5)) == []

    world.node("n", allocatable={"cpu": "2", "pods": "9"})
    assert names(asking(world, "q", cpu="1", memory="0", priority=5)) == ["a"]


def test_nobody_of_equal_priority_goes():
    found = asking(full(5, 5), cpu="1", memory="0", priority=5)

    assert found.message == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_where_the_rest_is_too_important_it_is_said_what_lacks():
    found = asking(full(9, 0), cpu="2", memory="0", priority=5)

    assert found.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_a_node_that_is_too_small_is_not_tried():
    found = asking(full(0), cpu="2", memory="0", priority=5)

    assert found.message == (
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("said", "victim"),
    [
        ({"selector": LabelSelector({"app": "x"})}, "a"),
        ({"selector": LabelSelector({"app": "y"})}, "b"),
        ({"selector": LabelSelector({"tier": "1"}), "unkept_labels": ("tier",)}, "a"),
        ({"is_cut": True}, "a"),
        ({"selector": LabelSelector({"app": "x"}), "disrupted": ("b",)}, "b"),
    ],
    ids=["protected", "not meant", "perhaps meant", "anybody meant", "counted already"],
)
def test_a_node_is_taken_where_no_budget_is_violated(said, victim):
    world = World().node("m", allocatable={"cpu": "1"}).node("n", allocatable={"cpu": "1"})
    world.pod("a", "m", cpu="1", memory="0", priority=1, namespace="open")
    world.pod("b", "n", cpu="1", memory="0", priority=0, labels={"app": "x"})
    world.see(f.disruption_budget_observed(**said))
    found = asking(world, cpu="1", memory="0", priority=5)

    assert (names(found), found.violating) == ([victim], 0)


def test_a_pod_that_no_node_can_suit_preempts_nobody():
    """Whatever is refused before any node is looked at."""
    world = full(0)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    terms = [{"matchFields": [*fields, {**fields[0], "values": ["b"]}]}]
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    framework = Framework(default_profile("default-scheduler"), world.context)
    found = explained(framework, world.pod("p", priority=5, **constrained({"affinity": affinity})), 1)  # fmt: skip

    assert found.preemption.message == (
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_without_nodes_nobody_is_looked_for():
    world = World()
    framework = Framework(default_profile("default-scheduler"), world.context)

    assert explained(framework, world.pod("p", priority=5), 1).preemption is None


def test_who_preempts_never_evicts_nobody():
    fields = constrained({"neverPreempts": True})
    found = asking(full(0), cpu="1", memory="0", priority=5, **fields)

    assert (found.node, found.message) == (
        "",
        "preemption: not eligible due to preemptionPolicy=Never.",
    )


def test_on_many_nodes_only_so_many_are_tried_as_would_do():
    world = World()
    for number in range(40):
        name = f"n{number:02}"
        world.node(name, allocatable={"cpu": "1", "pods": "9"})
        world.pod(f"held{number}", name, cpu="1", memory="0", priority=number % 4)
    every = asking(world, cpu="1", memory="0", priority=9)
    few = asking(world, "q", DefaultPreemption(least=1), cpu="1", memory="0", priority=9)

    assert (every.victims[0].priority, len(few.victims)) == (0, 1)
