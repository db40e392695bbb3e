"""Runs `openb_small_bind` cases: 400 pods of the trace on 49 nodes, placed by each packing policy, nodes and cards exact."""

from reactors.scheduling.packing.catalogue import POLICIES, Given
from reactors.scheduling.packing.fragmentation import Fragmentation, Typical
from reactors.scheduling.packing.machines import Machine, Machines, Shape
from reactors.scheduling.packing.packer import Packer


def check(case):
    """Every policy of the case places as it says, and leaves what it says."""
    for policy, expected in case["expect"].items():
        found = placed(case, policy)

        assert expected == {key: found[key] for key in expected}, policy


def placed(case, policy):
    """What a policy does with the pods of a case, in the case's words."""
    nodes = sorted(case["nodes"], key=lambda node: node[5])
    machines = Machines([Machine(*node[:5]) for node in nodes])
    typical = [Typical(c, m, n, models(names), part) for c, m, n, names, part in case["typical"]]
    packer = Packer(machines, POLICIES[policy](Given(machines, typical)))
    index = {node[0]: at for at, node in enumerate(case["nodes"])}
    total, found = machines.capacity, []
    for _, cpu, memory, cards, milli, names in case["pods"]:
        one = packer.place(Shape(cpu, memory, cards, milli, models(names)))
        found.append(one and [index[machines.names[one.row]], *one.cards])
    return {
        "placements": found,
        "failed": found.count(None),
        "used_gpu_milli": total - int(machines.idle.sum()),
        "total_gpu_milli": total,
        "frag_milli": round(Fragmentation(machines, typical).total(), 3),
    }


def models(names):
    return tuple(names.split("|")) if names else ()
