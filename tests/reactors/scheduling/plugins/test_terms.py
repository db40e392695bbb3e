"""The plugins that read terms of pods, in random worlds against the oracle, and single cases."""

import pytest

from bus.events.constraints import Taint
from reactors.scheduling.framework.contract import Code
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.plugins.nodes.node_affinity import NodeAffinity
from reactors.scheduling.plugins.nodes.node_ports import NodePorts
from reactors.scheduling.plugins.nodes.node_unschedulable import NodeUnschedulable
from reactors.scheduling.plugins.nodes.taint_toleration import (
    NOT_COMPARED,
    REASON,
    UNKNOWN,
    TaintToleration,
)
from reactors.scheduling.plugins.pod_affinity import FAR, InterPodAffinity
from reactors.scheduling.plugins.topology_spread import NO_LABEL, PodTopologySpread
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling import term_oracle as plainly
from tests.reactors.scheduling.terms import HOST, constrained, constrained_world, placed
from tests.reactors.scheduling.worlds import World, reasons, scores

SEEDS = range(120)


def cycle_and_nodes(seed):
    world, random = constrained_world(seed)
    cycle = world.cycle(**placed(random, None))
    return world, cycle, oracle.nodes(world.state)


def pre_scored(plugin, cycle):
    """The normalized scores; None where the plugin says nothing."""
    rows = list(range(len(cycle.columns.nodes)))
    status = plugin.pre_score(cycle, rows) if hasattr(plugin, "pre_score") else None
    return None if status is not None and status.code is Code.SKIP else scores(plugin, cycle)


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_are_refused_as_the_oracle_says(seed):
    world, cycle, nodes = cycle_and_nodes(seed)
    pod, state = cycle.pod, world.state
    expected = {
        NodeAffinity: lambda one: not plainly.selected(pod, one),
        TaintToleration: lambda one: plainly.untolerated(pod, one, "NoSchedule", "NoExecute"),
        NodePorts: lambda one: plainly.ports_clash(pod, one),
    }
    wanted = {
        plugin.name: {one.name for one in nodes if refuses(one)}
        for plugin, refuses in expected.items()
    }
    why = {one.name: plainly.affinity_reason(pod, one, nodes, state) for one in nodes}
    spread = {one.name: plainly.spread_reason(pod, one, nodes) for one in nodes}

    assert {one.name: set(reasons(one(), cycle)) for one in expected} == wanted
    assert reasons(InterPodAffinity(), cycle) == {n: {text} for n, text in why.items() if text}
    assert reasons(PodTopologySpread(), cycle) == {n: {text} for n, text in spread.items() if text}


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_are_scored_as_the_oracle_says(seed):
    world, cycle, nodes = cycle_and_nodes(seed)
    pod = cycle.pod

    assert scores(NodeAffinity(), cycle) == plainly.preferred_nodes(pod, nodes)
    assert scores(TaintToleration(), cycle) == plainly.tainted_scores(pod, nodes)
    assert pre_scored(InterPodAffinity(), cycle) == plainly.affinity_scores(pod, nodes, world.state)
    assert pre_scored(PodTopologySpread(), cycle) == plainly.spread_scores(pod, nodes)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_kept_is_what_is_computed_anew(seed):
    world, random = constrained_world(seed)
    kept = Framework(default_profile("bursar"), world.context)
    names = world.columns.names
    for step in range(8):
        world.pod(f"held{random.randrange(12)}", **placed(random, random.choice(names)))
        cycle = world.cycle(f"waits{step}", **placed(random, None))
        found, anew = (
            one.choose(cycle, 1)
            for one in (kept, Framework(default_profile("bursar"), world.context))
        )

        assert (found.row, found.totals.tolist()) == (anew.row, anew.totals.tolist())


@pytest.mark.parametrize("seed", range(40))
def test_a_skipped_filter_would_have_refused_nothing(seed):
    _, cycle, _ = cycle_and_nodes(seed)
    for plugin in (InterPodAffinity(), PodTopologySpread()):
        if plugin.pre_filter(cycle) is not None:
            assert reasons(plugin, cycle) == {}


@pytest.mark.parametrize("text", ["-+5", "+-5", "+", "", "\u0665", "9" * 30, "5_0", " 5"])
def test_a_bound_that_is_no_number_means_no_node(text):
    """The API server does not look at the values of preferred terms."""
    term = {"matchExpressions": [{"key": "disk", "operator": "Gt", "values": [text]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    world = World().node("a", labels={"disk": "9"}).node("b")
    cycle = world.cycle(**constrained({"affinity": affinity}))

    assert len(set((pre_scored(NodeAffinity(), cycle) or {}).values())) <= 1


def test_the_largest_skews_that_the_api_takes_are_scored():
    soft = {"maxSkew": 2**31 - 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    spreads = [{**soft, "topologyKey": key} for key in ("zone", "disk", "arch", "rack", "region")]
    labels = dict.fromkeys(("zone", "disk", "arch", "rack", "region"), "1")
    world = World().node("a", labels=labels).node("b", labels=labels)
    found = pre_scored(
        PodTopologySpread(), world.cycle(**constrained({"topologySpreadConstraints": spreads}))
    )

    assert all(0 <= score <= 100 for score in found.values())


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([["a"]], "1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        ([["a"], ["gone"]], "1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        ([["gone"]], "3 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        ([["b", "c"]], "pod affinity terms conflict."),
    ],
    ids=["one term", "two terms", "a node that is not there", "a term that nothing fits"],
)  # fmt: skip
def test_where_every_term_names_its_nodes_only_these_are_looked_at(terms, message):
    selected = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]} for one in term]}
        for term in terms
    ]  # fmt: skip
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selected}}
    world = World().node("a", unschedulable=True).node("b", unschedulable=True).node("c")
    pod = world.pod("p", **constrained({"affinity": {"nodeAffinity": required}}))

    found = explained(Framework(default_profile("bursar"), world.context), pod, 1)

    assert found.message == f"0/3 nodes are available: {message}"


def test_of_two_pods_that_do_not_want_each_other_near_only_the_own_term_counts():
    term = {"topologyKey": HOST, "labelSelector": {}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world = World().node("a", labels={HOST: "a"})
    world.pod("there", "a", **constrained({"affinity": apart}))
    cycle = world.cycle(**constrained({"affinity": apart}))

    assert reasons(InterPodAffinity(), cycle) == {"a": {FAR}}


def test_nodes_of_one_reason_by_several_constraints_are_counted_together():
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    spreads = [{**hard, "topologyKey": key} for key in ("rack", "disk")]
    world = World().node("a", labels={"rack": "1"}).node("b", labels={"disk": "1"})
    pod = world.pod("p", **constrained({"topologySpreadConstraints": spreads}))
    found = explained(Framework(default_profile("bursar"), world.context), pod, 1)

    assert found.refused == {"PodTopologySpread": {NO_LABEL: 2}}


def test_who_tolerates_a_cordon_may_go_there():
    world = World().node("a", unschedulable=True)
    tolerated = constrained(
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    )

    assert reasons(NodeUnschedulable(), world.cycle(**tolerated)) == {}


def test_a_node_that_is_not_ready_keeps_pods_away_by_its_other_taint():
    key = "node.kubernetes.io/not-ready"
    world = World().node("a", taints=(Taint(key, "", "NoExecute"),))
    world.node("b", taints=(Taint(key, "", "NoExecute"), Taint(key, "", "NoSchedule")))

    assert set(reasons(TaintToleration(), world.cycle())) == {"b"}


@pytest.mark.parametrize(
    ("toleration", "reason"),
    [
        ({"key": "sla", "operator": "Gt", "value": "900"}, f"{NOT_COMPARED}: Gt"),
        ({"key": "sla", "operator": "Lt", "value": "990", "effect": "NoSchedule"}, f"{NOT_COMPARED}: Lt"),
        ({"key": "sla", "operator": "G" * 99}, f"{NOT_COMPARED}: {'G' * 32}"),
        ({"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}, REASON),
        ({"key": "other", "operator": "Gt", "value": "900"}, REASON),
        ({"key": "sla", "value": "900"}, REASON),
        ({"key": "sla", "value": "950"}, ""),
    ],
)  # fmt: skip
def test_operators_of_tolerations_that_are_not_compared_are_named(toleration, reason):
    world = World().node("a", taints=(Taint("sla", "950", "NoSchedule"),)).node("b")
    cycle = world.cycle(**constrained({"tolerations": [toleration]}))

    assert reasons(TaintToleration(), cycle) == ({"a": {reason}} if reason else {})


def test_another_taint_of_such_a_node_is_named_beside_it():
    world = World().node(
        "a", taints=(Taint("sla", "1", "NoSchedule"), Taint("k", "", "NoSchedule"))
    )
    cycle = world.cycle(**constrained({"tolerations": [{"key": "sla", "operator": "Gt"}]}))

    assert reasons(TaintToleration(), cycle) == {"a": {REASON, f"{NOT_COMPARED}: Gt"}}
    assert (
        TaintToleration().remedy(cycle, 0)
        == "tolerate sla=1:NoSchedule by Exists or Equal and k:NoSchedule"
    )


def test_a_node_of_which_not_all_is_known_takes_nobody():
    world = World().node("a", is_cut=True)

    assert reasons(TaintToleration(), world.cycle()) == {"a": {UNKNOWN}}


def anti(keys):
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": dict.fromkeys(keys, "x")}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    unkept = [key for key in keys if key == "tier"]
    return constrained({"affinity": {"podAntiAffinity": required}, "unkeptLabels": unkept})


def test_a_term_over_a_label_that_is_not_kept_may_mean_anybody():
    world = World().node("a", further_labels={HOST: "a"}).node("b", further_labels={HOST: "b"})
    world.pod("held", "a", **anti(["tier"]))
    world.pod("other", "b", **anti(["app"]))

    assert set(reasons(InterPodAffinity(), world.cycle(labels={"app": "y"}))) == {"a"}


def test_remedies_name_what_is_in_the_way():
    world = World().node("a", taints=(Taint("k", "v", "NoSchedule"),), further_labels={HOST: "a"})
    world.pod("held", "a", **constrained({"hostPorts": [{"hostPort": 80}]}))
    fields = {"hostPorts": [{"hostPort": 80}], "nodeSelector": {"x": "y"}}
    cycle = world.cycle(**constrained(fields))

    assert [one.remedy(cycle, 0) for one in (TaintToleration(), NodePorts(), NodeAffinity())] == [
        "tolerate k=v:NoSchedule",
        "take another host port than TCP 80",
        "let nodeSelector and nodeAffinity select a",
    ]


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"schedulingGates": ["a", "b"]}, "waiting for scheduling gates: [a b]"),
        ({"isCut": True}, "its terms are more than the history keeps (8 KiB): not all of them are known"),
        ({"unkeptLabels": ["tier"]}, "its selectors name labels that are not kept: tier; add them to labels.keep"),
        ({"hasResourceClaims": True}, "it has resource claims, whose devices kube-scheduler allocates"),
        ({"claims": ["c"]}, ""),
        ({"disks": ["iscsi", "rbd"]}, "it names disks, which kube-scheduler keeps apart: iscsi, rbd"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_pod_waits_until_all_of_it_is_known(terms, reason):
    world = World().node("a")

    assert (
        Framework(default_profile("bursar"), world.context).pre_enqueue(
            world.pod("p", **constrained(terms))
        )
        == reason
    )


def test_a_pod_whose_request_cannot_be_read_is_not_placed():
    world = World().node("a")
    pod = world.pod("p", cpu="nonsense")

    assert "cannot be read" in Framework(default_profile("bursar"), world.context).pre_enqueue(pod)
