"""The vocabulary: every fact that may stand in a history, by its name on the wire."""

from bus.events import (
    admissions,
    budgets,
    namespaces,
    nodes,
    notebooks,
    observations,
    pods,
    quotas,
    workloads,
)
from bus.events.vocabulary import Fact, vocabulary

VOCABULARY: dict[str, type[Fact]] = vocabulary(
    pods.PodObserved,
    pods.PodVanished,
    pods.PodsListed,
    namespaces.NamespaceObserved,
    namespaces.NamespaceVanished,
    nodes.NodeObserved,
    nodes.NodeVanished,
    workloads.WorkloadObserved,
    workloads.WorkloadVanished,
    quotas.QuotaObserved,
    quotas.QuotaVanished,
    budgets.BudgetCredited,
    budgets.BudgetJudged,
    notebooks.NotebookSampled,
    observations.ObservationRefused,
    observations.ObjectsListed,
    *admissions.JOURNAL,
)
