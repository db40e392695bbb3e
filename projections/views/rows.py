"""Rows as they are: pods, their holdings, namespaces, nodes, workloads."""

from __future__ import annotations

from projections.views.shape import (
    CLUSTER,
    NAMESPACE,
    SEQUENCE,
    TEAM,
    USER,
    VANISHED,
    WORKLOAD,
    View,
    at,
    hours,
    is_,
    moment,
)

_MOMENT = moment("pod_runs.cluster")

_POD_RUNS = View(
    "v1_pod_runs",
    "One row for each pod that was ever seen, by uid: when it waited, held and ended.",
    (
        is_("uid", "The pod's uid: a re-created namesake is another pod."),
        CLUSTER,
        NAMESPACE,
        is_("name", "The pod's name."),
        WORKLOAD,
        is_("team", "The team charged last; empty for a pod that never held."),
        is_("user_name", "The user charged last; empty for a pod that never held."),
        is_("node", "The node it was bound to; NULL if it never was."),
        is_("phase", "The phase of its newest observation."),
        is_("created_s", "When it was created."),
        at("created_at", "The same as text.", "created_s"),
        is_("start_s", "When it began to hold; NULL if it never was bound."),
        at("start_at", "The same as text.", "start_s"),
        is_("end_s", "When it stopped holding; NULL while it is open."),
        at("end_at", "The same as text.", "end_s"),
        is_("is_open", "1 while it is not ended.", "CASE WHEN end_s IS NULL THEN 1 ELSE 0 END"),
        is_(
            "waiting_s",
            "Seconds between its creation and its start, its end if it never started, or its cluster's moment.",
            f"CASE WHEN COALESCE(start_s, end_s, {_MOMENT}) > created_s "
            f"THEN COALESCE(start_s, end_s, {_MOMENT}) - created_s ELSE 0 END",
        ),
        is_(
            "unknown_s",
            "Seconds between the last evidence of it and the observation or list that shows its end: neither charged nor hidden.",
        ),
        is_(
            "flags",
            "JSON list of what makes its times less than exact: `start_acknowledged`, `end_observed`, `gap`, `vanished`, `clamped`,"
            " `clock`, `amounts_refused`, `no_node`, and of devices `alloc_observed`, `deallocated_early`, `device_unseen`,"
            " `claim_unseen`, `size_unseen`.",
        ),
        is_(
            "disruption",
            "Why others ended it, by its condition DisruptionTarget (`DeletionByPodGC`: its node is gone); NULL where"
            " nobody did.",
        ),
        is_("labels", "JSON object of its labels, by its newest observation."),
        SEQUENCE,
    ),
    "FROM pod_runs",
)

_UNTIL = f"COALESCE(s.end_s, {moment('s.cluster')})"
_HELD = f"CASE WHEN {_UNTIL} > s.start_s THEN {_UNTIL} - s.start_s ELSE 0 END"

_HELD_SEGMENTS = View(
    "v1_held_segments",
    "One row for each interval in which a pod held the same amounts for the same team, user, node and GPU model.",
    (
        is_("uid", "The pod's uid."),
        CLUSTER,
        NAMESPACE,
        WORKLOAD,
        TEAM,
        USER,
        is_("node", "The node it held on; empty where it ran and none was named."),
        is_(
            "model",
            "The model of its GPUs, else the node's; empty where none is known.",
            "COALESCE(model, '')",
        ),
        is_("start_s", "The first second of the interval."),
        at("start_at", "The same as text.", "start_s"),
        is_("end_s", "The second after the interval; NULL while it is open."),
        at("end_at", "The same as text.", "end_s"),
        is_("held_s", "Its length in seconds, open intervals up to its cluster's moment."),
        is_("cpu_milli", "CPU held, in milli-cores."),
        is_("gpu_milli", "GPU held, in milli-cards."),
        is_("memory_mib", "Memory held, in MiB."),
        is_(
            "extended",
            "JSON object of other extended resources by name, in counts; empty for none.",
        ),
        *hours(
            {
                "cpu_milli_s": "(cpu_milli * held_s)",
                "gpu_milli_s": "(gpu_milli * held_s)",
                "memory_mib_s": "(memory_mib * held_s)",
            }
        ),
        SEQUENCE,
        is_("quota", "The quota it belongs to; empty for none."),
        is_("cpu_type", "The type of its CPU, by label; empty for none."),
        is_("gpu_type", "The type of its GPU, by label; empty for none."),
        is_("memory_type", "The type of its memory, by label; empty for none."),
        is_(
            "devices",
            "JSON object of its GPU models, each with its milli-cards, where there are several; empty where there are not.",
        ),
        is_(
            "device_memory",
            "JSON object of its GPU models, each with its device memory in MiB; empty where none is known.",
        ),
    ),
    f"FROM (SELECT s.*, {_HELD} AS held_s FROM held_segments s) valued",
)

_NAMESPACES = View(
    "v1_namespaces",
    "One row for each namespace by name, over all its lives: whose it is now.",
    (
        CLUSTER,
        NAMESPACE,
        is_("uid", "The uid of its newest life."),
        is_("team", "The team its label names; NULL for none."),
        is_("user_name", "The user its label or owner annotation names; NULL for none."),
        VANISHED,
        SEQUENCE,
    ),
    "FROM namespaces",
)

_NODES = View(
    "v1_nodes",
    "One row for each node by name, over all its lives: what it offers now.",
    (
        CLUSTER,
        is_("node", "The node's name."),
        is_("uid", "The uid of its newest life."),
        is_("model", "The GPU model its labels name; NULL for none."),
        is_("allocatable", "JSON object of what pods may hold on it, as the node wrote it."),
        is_("ready", "1 where its Ready condition was true."),
        is_("unschedulable", "1 where it takes no new pods."),
        VANISHED,
        SEQUENCE,
    ),
    "FROM nodes",
)

_WORKLOADS = View(
    "v1_workloads",
    "One row for each controller that was seen: the links of the chains from pods to workloads.",
    (
        is_("uid", "The controller's uid."),
        CLUSTER,
        NAMESPACE,
        is_("kind", "Deployment, ReplicaSet, StatefulSet, Job, CronJob …"),
        is_("name", "Its name."),
        is_("owner_uid", "The uid of its own controller; NULL at the top."),
        VANISHED,
        SEQUENCE,
    ),
    "FROM workloads",
)

#: In the order of the page.
ROWS = (_POD_RUNS, _HELD_SEGMENTS, _NAMESPACES, _NODES, _WORKLOADS)
