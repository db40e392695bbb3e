"""Loads, devices, cards, namespaces and disruption budgets of a cluster, for plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from projections.cluster import Change, ClusterState, Pod
from projections.cluster.claiming import REQUESTS
from projections.cluster.devices import NodeDevices, Scv
from projections.cluster.loads import NodeLoad, NodeTopology
from projections.cluster.pod_terms import DisruptionBudget
from projections.devices.demand import serving_class
from reactors.scheduling.columns.arrivals import Arrivals
from reactors.scheduling.columns.scvs import ScvColumns, cards_of
from reactors.scheduling.shape import SavedArrivals

#: The API server's label of every namespace: its name.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
#: Kinds of objects about the node of the same name.
BY_NODE = frozenset({NodeLoad.kind, NodeDevices.kind, NodeTopology.kind})


class ClusterFacts:
    """Facts of a cluster in addition to its columns."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._scvs: ScvColumns | None = None
        #: The kinds of pods, counted since the first reader.
        self.arrivals: Arrivals | None = None

    def follow(self, change: Change) -> None:
        """Follow the changes of the cluster."""
        if self.arrivals is not None and change.before is None and isinstance(change.after, Pod):
            self.arrivals.count(change.after)
        elif change.kind == Scv.kind:
            self.forget_scvs()

    def learned(self) -> Arrivals:
        """The kinds of pods: existing pods at the first call, in the order of their times, then new ones."""
        if self.arrivals is None:
            self.arrivals = Arrivals()
            pods = self._cluster.pods.values()
            for pod in sorted(pods, key=lambda one: (one.started_us, one.uid)):
                self.arrivals.count(pod)
        return self.arrivals

    def recall(self, saved: SavedArrivals) -> None:
        """Continue from saved counts."""
        self.arrivals = Arrivals.restored(saved)

    def scvs(self, rows: Mapping[str, int]) -> ScvColumns:
        """The cards in Scv objects. ``rows``: the rows of nodes, the same until :meth:`forget_scvs`."""
        if self._scvs is None:
            self._scvs = cards_of(self._cluster.current_scvs(), rows)
        return self._scvs

    def forget_scvs(self) -> None:
        """Forget the cards after a change of Scv objects, or of the rows of nodes."""
        self._scvs = None

    def load(self, node: str) -> NodeLoad | None:
        """The real usage of a node; None without a measurement."""
        return self._cluster.load_of(node)

    def devices(self, node: str) -> NodeDevices | None:
        """The devices of a node; None without a report of an agent."""
        return self._cluster.devices_of(node)

    def topology(self, node: str) -> NodeTopology | None:
        """The CPU topology of a node; None without a report of an agent."""
        return self._cluster.topology_of(node)

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Labels of a namespace, with the label of its name."""
        known = self._cluster.namespaces.get(name)
        return {**(known.labels if known is not None else {}), NAMESPACE_NAME: name}

    def served(self, pod: Pod) -> dict[str, str]:
        """By requested extended resource of a pod: its DeviceClass."""
        serves, found = self._cluster.claiming.serves, dict[str, str]()
        for key, amount in pod.demand.items():
            name = key.removeprefix(REQUESTS)
            if amount and name != key and (serving := serving_class(name, serves)):
                found[name] = serving
        return found

    def disruption_budgets(self) -> Iterable[DisruptionBudget]:
        """The disruption budgets of the cluster."""
        return self._cluster.disruption_budgets.values()
