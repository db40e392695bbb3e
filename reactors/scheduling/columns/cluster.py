"""What the cluster says beside nodes and pods, as plugins ask for it: loads, devices, cards, namespaces and disruption budgets."""

from __future__ import annotations

from collections.abc import Iterable

from projections.cluster import ClusterState, Pod
from projections.cluster.claiming import REQUESTS
from projections.cluster.devices import NodeDevices
from projections.cluster.loads import NodeLoad, NodeTopology
from projections.cluster.pod_terms import DisruptionBudget
from projections.devices.demand import serving_class
from reactors.scheduling.columns.nodes import NodeColumns
from reactors.scheduling.columns.scvs import Cards, cards_of

#: The label of every namespace that the API server writes.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
#: Kinds of objects that say something of the node whose name they have.
BY_NODE = frozenset({NodeLoad.kind, NodeDevices.kind, NodeTopology.kind})


class ClusterColumns(NodeColumns):
    """Columns over nodes, and the state of the cluster that they follow."""

    def __init__(self, cluster: ClusterState) -> None:
        super().__init__()
        self._cluster = cluster
        self._scvs: Cards | None = None

    @property
    def scvs(self) -> Cards:
        """The cards that Scv objects show."""
        if self._scvs is None:
            self._scvs = cards_of(self._cluster.current_scvs(), self.row_of)
        return self._scvs

    def load(self, row: int) -> NodeLoad | None:
        """What a node really uses; None where nobody measures it."""
        return self._cluster.load_of(self.names[row])

    def forget_scvs(self) -> None:
        """The cards of Scv objects, or the rows of nodes, are others."""
        self._scvs = None

    def devices(self, row: int) -> NodeDevices | None:
        """The devices of a node; None where no agent says them."""
        return self._cluster.devices_of(self.names[row])

    def topology(self, row: int) -> NodeTopology | None:
        """How the CPUs of a node lie; None where no agent says it."""
        return self._cluster.topology_of(self.names[row])

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Labels of a namespace, with the one that has its name."""
        known = self._cluster.namespaces.get(name)
        return {**(known.labels if known is not None else {}), NAMESPACE_NAME: name}

    def served(self, pod: Pod) -> dict[str, str]:
        """By extended resource that a pod requests: the DeviceClass that serves it."""
        serves, found = self._cluster.claiming.serves, dict[str, str]()
        for key, amount in pod.demand.items():
            name = key.removeprefix(REQUESTS)
            if amount and name != key and (serving := serving_class(name, serves)):
                found[name] = serving
        return found

    def is_by_claim(self, pod: Pod, row: int) -> bool:
        """Whether a claim would have to give a pod devices on a node, as no device plugin offers them there."""
        columns = (self.resources.get(name) for name in self.served(pod))
        return any(at is None or not self.allocatable[row, at] for at in columns)

    def disruption_budgets(self) -> Iterable[DisruptionBudget]:
        """The disruption budgets of the cluster."""
        return self._cluster.disruption_budgets.values()
