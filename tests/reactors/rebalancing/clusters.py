"""Small clusters for rebalancing: nodes with measured use, workloads with their pods, and the plan of a round."""

from bus.amounts import NANO, observed_quantity
from bus.clock import SECOND_US
from bus.events.nodes import NodeMetricObserved, PodUsed, Used
from reactors.rebalancing.round import Rebalancing
from reactors.rebalancing.settings import RebalancingPolicy
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.plugins.catalogue import profile_of
from tests import factories as f
from tests.reactors.scheduling.worlds import World

#: The moment of the round, seconds.
NOW_S = 10_000
SMALL = {"cpu": "10", "memory": "100Gi", "pods": "50"}
#: Caps that no test reaches by accident.
LOOSE = {
    "most_moves": 1000,
    "most_per_node": 1000,
    "most_per_namespace": 1000,
    "most_percent_of_workload": 100,
}


class Cluster(World):
    """A world with workloads and measurements."""

    def __init__(self, *nodes, **fields):
        #: All that was seen, for a ledger.
        self.events = []
        super().__init__()
        for name in nodes:
            self.node(name, **{"allocatable": SMALL, **fields})
        self.see(f.objects_listed("PodDisruptionBudget", ())[0])

    def see(self, event):
        self.events.append(event)
        super().see(event)

    def workload(self, name, nodes, *, kind="ReplicaSet", replicas=None, **fields):
        """A workload with one pod on each of ``nodes``, named ``<name>-<number>``."""
        self._version += 1
        count = len(nodes) if replicas is None else replicas
        self.see(f.workload_observed(name, self._version, kind=kind, replicas=count, pods=count))
        fields.setdefault("cpu", "1")
        for number, node in enumerate(nodes):
            self.pod(f"{name}-{number}", node, owner=f.owner(name, kind), **fields)
        return self

    def use(self, node, cpu, memory="0", *, at=NOW_S, **pods):
        """A measurement: the node uses ``cpu``, each pod (``a_0`` for ``a-0``) as much as it says."""
        used = {name.replace("_", "-"): (text, "0") for name, text in pods.items()}
        return self.use_of(node, used, cpu, memory, at=at)

    def use_of(self, node, pods, cpu=None, memory=None, *, at=NOW_S):
        """A measurement of a node and its pods, each (cpu, memory); of the node what its pods use, where it says nothing else."""
        self._version += 1
        whole = [sum(observed_quantity(one[at]) for one in pods.values()) for at in range(2)]
        body = NodeMetricObserved(
            uid=f"m-{node}", name=node, resource_version=str(self._version), updated=f.stamp(at), interval_seconds=60,
            used=Used(cpu or f"{whole[0]}n", memory or f"{whole[1] // NANO}"),
            pods=tuple(PodUsed(*_named(name), *used) for name, used in pods.items()),
        )  # fmt: skip
        self.see(f.said(body, key=node, id=f"m/{node}/{self._version}", at=at))
        return self

    def plan(self, *, weights=None, fields=None, earlier=0, **policy):
        """The round now, after ``earlier`` rounds on the same state. ``weights``, ``fields``: of the scheduler's plugins."""
        rebalancing = Rebalancing(RebalancingPolicy.model_validate({**LOOSE, **policy}))
        at_us = f.us(NOW_S)
        for number in range(earlier, 0, -1):
            rebalancing.observe(self.state, at_us - number * 60 * SECOND_US)
        profile = profile_of("bursar", weights or {}, fields or {})
        scheduler = Scheduler([profile], self.state, is_shadow=True)
        scheduler.begin(at_us)
        return rebalancing.plan(self.state, scheduler, 1, at_us)


def _named(text):
    """Namespace and name of ``name``, in ``ns``, or of ``namespace/name``."""
    namespace, _, name = text.rpartition("/")
    return namespace or "ns", name


def moves(outcome):
    """Pod to (source, destination) of each planned move."""
    return {one.pod.name: (one.source, one.destination) for one in outcome.moves}


def refused(outcome):
    """Pod to the code of its refusal."""
    return {one.pod.name: one.refusal.code for one in outcome.refused}
