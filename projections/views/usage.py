"""Views of usage: sums of ended segments, and open segments cut into the same hours and days."""

from __future__ import annotations

from projections.timelines import DAY, HOUR
from projections.views.shape import (
    AMOUNTS,
    CLUSTER,
    NAMESPACE,
    TEAM,
    USER,
    WORKLOAD,
    Column,
    View,
    at,
    hours,
    is_,
    moment,
)

_DIMENSIONS = ("cluster", "team", "user_name", "namespace", "workload", "model")

_MODEL = is_("model", "The GPU model of the nodes; empty where none is known.")

_SEGMENT = (
    "uid", "start_s", "end_s", "cpu_milli", "memory_mib", "gpu_milli", "extended", "cluster",
    "namespace", "workload", "team", "user_name", "node", "model", "quota",
    "cpu_type", "gpu_type", "memory_type", "devices", "sequence",
)  # fmt: skip


def _with_open(table: str, period: str, width: int) -> str:
    """Sums of ended segments, and besides them open segments cut at the periods' boundaries by recursion.

    A segment with cards of several models counts in each; its CPU and memory, and its time, in the first.

    A pod counted in a group by an ended segment is not counted in it again.
    """
    groups = ", ".join(_DIMENSIONS)
    return f"""WITH RECURSIVE pieces AS (
  SELECT {", ".join(f"s.{c}" for c in _SEGMENT)}, (s.start_s / {width}) * {width} AS {period}, {moment("s.cluster")} AS until_s
  FROM held_segments s WHERE s.end_s IS NULL AND s.start_s < {moment("s.cluster")}
  UNION ALL
  SELECT {", ".join(f"p.{c}" for c in _SEGMENT)}, p.{period} + {width}, p.until_s
  FROM pieces p WHERE p.{period} + {width} < p.until_s
), cut AS (
  SELECT p.*,
    CASE WHEN p.{period} + {width} < p.until_s THEN p.{period} + {width} ELSE p.until_s END
    - CASE WHEN p.{period} > p.start_s THEN p.{period} ELSE p.start_s END AS seconds
  FROM pieces p
), entries AS (
  SELECT cut.*, COALESCE(model, '') AS entry, gpu_milli AS cards, 1 AS is_first FROM cut WHERE devices = ''
  UNION ALL
  SELECT cut.*, m.key, CAST(m.value AS bigint), CASE WHEN m.key = COALESCE(cut.model, '') THEN 1 ELSE 0 END
  FROM cut, pairs(cut.devices) m
), shares AS (
  SELECT {period}, {groups}, cpu_milli_s, memory_mib_s, gpu_milli_s, held_s, pods, sequence
  FROM {table}
  UNION ALL
  SELECT {period}, cluster, team, user_name, namespace, workload, entry,
    cpu_milli * seconds * is_first, memory_mib * seconds * is_first, cards * seconds, seconds * is_first,
    CASE WHEN EXISTS (
      SELECT 1 FROM held_segments e WHERE e.uid = entries.uid AND e.end_s > entries.{period}
      AND e.start_s < entries.{period} + {width} AND e.team = entries.team
      AND e.user_name = entries.user_name AND (COALESCE(e.model, '') = entry
        OR EXISTS (SELECT 1 FROM pairs(e.devices) m WHERE m.key = entry))
    ) THEN 0 ELSE 1 END, sequence
  FROM entries
)
"""


def _sum(column: str) -> str:
    return f"CAST(SUM({column}) AS bigint)"


def _usage(name: str, noun: str, table: str, period: str, width: int) -> View:
    groups = ", ".join((period, *_DIMENSIONS))
    return View(
        name,
        f"Usage by {noun} (UTC), team, user, namespace, workload and GPU model: ended and open segments together.",
        (
            is_(period, f"The first second of the {noun}."),
            at(period.replace("_s", "_at"), "The same as text.", period),
            CLUSTER,
            TEAM,
            USER,
            NAMESPACE,
            WORKLOAD,
            is_("model", "The GPU model of the nodes; empty where none is known."),
            *hours({amount: _sum(amount) for amount in AMOUNTS}),
            is_("held_s", "Pod-seconds held.", _sum("held_s")),
            is_("pods", f"Pods that held in the {noun} for this group.", _sum("pods")),
            is_("sequence", "The last event that changed a share of this row.", "MAX(sequence)"),
        ),
        f"FROM shares\nGROUP BY {groups}",
        _with_open(table, period, width),
    )


def _rollup(name: str, by: Column, noun: str) -> View:
    return View(
        name,
        f"Usage by {noun} and day (UTC), over everything else: sums of `v1_usage_by_day`.",
        (
            is_("day_s", "The first second of the day."),
            at("day_at", "The same as text.", "day_s"),
            CLUSTER,
            by,
            *hours({amount: _sum(amount) for amount in AMOUNTS}),
            is_("held_s", "Pod-seconds held.", _sum("held_s")),
            is_("sequence", "The last event that changed a share of this row.", "MAX(sequence)"),
        ),
        f"FROM v1_usage_by_day\nGROUP BY day_s, cluster, {by.name}",
    )


#: By day, by hour, and over a team or a model; each after those it reads.
USAGE = (
    _usage("v1_usage_by_day", "day", "usage_days", "day_s", DAY),
    _usage("v1_usage_by_hour", "hour", "usage_hours", "hour_s", HOUR),
    _rollup("v1_usage_by_team", TEAM, "team"),
    _rollup("v1_usage_by_model", _MODEL, "GPU model"),
)
