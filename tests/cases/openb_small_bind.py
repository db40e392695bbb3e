"""Runs `openb_small_bind` cases: 400 pods of the trace on 49 nodes, placed by each packing policy, nodes and cards exact."""

from bus.sources.openb import TraceNode, TracePod
from deploy.commands.bench_bind import Arrivals, Scene, framework_of, place, pods_of
from reactors.scheduling.columns.arrivals import Lesson
from reactors.scheduling.packing.catalogue import Given, Typical, fragmentation


def check(case):
    """Every policy of the case places as it says, and leaves what it says."""
    for policy, expected in case["expect"].items():
        found = placed(case, policy)

        assert expected == {key: found[key] for key in expected}, policy


def placed(case, policy):
    """What a policy does with the pods of a case, in the case's words."""
    nodes = sorted(case["nodes"], key=lambda node: node[5])
    typical = [
        Typical(*kind, tuple(filter(None, models.split("|"))), part)
        for *kind, models, part in case["typical"]
    ]
    pods = [
        TracePod(name, cpu, memory, cards, milli, models, "", "", 0, None, None)
        for name, cpu, memory, cards, milli, models in case["pods"]
    ]
    scene = Scene(Arrivals("small", 0), [TraceNode(*node[:5]) for node in nodes], pods, typical)
    framework = framework_of(scene, policy)
    columns = framework.columns
    index = {node[0]: at for at, node in enumerate(case["nodes"])}
    total, found = int(columns.cards.idle.sum()), []
    for pod in pods_of(scene):
        one = place(framework, pod)
        found.append(one and [index[one.node], *one.cards])
    given = Given(columns, Lesson(0, {}), typical)
    return {
        "placements": found,
        "failed": found.count(None),
        "used_gpu_milli": total - int(columns.cards.idle.sum()),
        "total_gpu_milli": total,
        "frag_milli": round(fragmentation(given).total(), 3),
    }
