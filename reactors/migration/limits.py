"""The limits on migrations running at once: of a node, a namespace, a workload and the cluster. Pure.

``v1.0`` is Koordinator 1.0, ``current`` its releases since. The former rounds percentages up and allows a bound of 0; the latter
rounds down, to at least one pod and at most all replicas.

Source: koordinator-sh/koordinator, pkg/descheduler/controllers/migration/util and arbitrator/filter.go; docs/migration.md.
"""

from __future__ import annotations

from typing import Literal

Rules = Literal["current", "v1.0"]


def bound(replicas: int, configured: int | str | None, rules: Rules = "current") -> int:
    """The most pods of a workload that may migrate, or be unavailable, at once. ``configured``: pods, or a percentage as text.

    None gives the default: 10 % above 10 replicas, 2 pods from 4 replicas on, else 1.
    """
    if configured is None:
        configured = "10%" if replicas > 10 else 2 if replicas >= 4 else 1
    is_old = rules == "v1.0"
    if isinstance(configured, str):
        share = int(configured.removesuffix("%")) * replicas
        found = -(-share // 100) if is_old else share // 100
    else:
        found = configured
    return found if is_old else min(max(found, 1), max(replicas, 1))


def is_below(limit: int | None, others: int) -> bool:
    """Whether one more migration may run in addition to ``others``; a missing limit, or one below 1, allows any number."""
    return not limit or limit <= 0 or others < limit


def may_join(others: int, most_migrating: int) -> bool:
    """Whether a workload allows one more migration in addition to ``others``, its migrating pods."""
    return not others or others < most_migrating


def is_available_enough(missing: int, most_unavailable: int) -> bool:
    """Whether a workload allows one more missing pod. ``missing``: its other migrating or unavailable pods."""
    return missing < most_unavailable


def has_enough_replicas(replicas: int, most_migrating: int, most_unavailable: int) -> bool:
    """Whether a move can leave a workload some of its pods.

    Single replicas never move, nor workloads with all pods possibly away at once.
    """
    return replicas > 1 and replicas not in (most_migrating, most_unavailable)
