"""The vocabulary: every fact that may stand in a history, by its name on the wire."""

from bus.events import (
    admissions,
    budgets,
    clock,
    decisions,
    histories,
    namespaces,
    nodes,
    notebooks,
    observations,
    pods,
    policies,
    priorities,
    queues,
    quotas,
    scvs,
    workloads,
)
from bus.events.vocabulary import Fact, vocabulary

#: What sources saw of a cluster. Books are made of it; it asks for nothing.
OBSERVED: dict[str, type[Fact]] = vocabulary(
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
    notebooks.NotebookSampled,
    observations.ObservationRefused,
    observations.ObjectsListed,
    observations.SourceHeard,
    priorities.PriorityClassObserved,
    priorities.PriorityClassVanished,
    pods.DisruptionBudgetObserved,
    pods.DisruptionBudgetVanished,
    scvs.ScvObserved,
    scvs.ScvVanished,
)

#: What people and Bursar said: reactors obey it, so it must be one's own.
DECIDED: dict[str, type[Fact]] = vocabulary(
    budgets.BudgetCredited,
    budgets.BudgetJudged,
    clock.ClockTicked,
    histories.HistoryRecovered,
    histories.HistoryImported,
    policies.PolicyChanged,
    policies.PauseChanged,
    decisions.Warn,
    decisions.Withdraw,
    decisions.Cull,
    decisions.Evict,
    decisions.Restore,
    decisions.RestoreAsked,
    decisions.EffectSettled,
    decisions.NoticeSettled,
    queues.QueueOrdered,
    decisions.SchedulingPassed,
    decisions.BindSettled,
    *admissions.JOURNAL,
    admissions.AdmissionsGrouped,
)

VOCABULARY: dict[str, type[Fact]] = vocabulary(*OBSERVED.values(), *DECIDED.values())
