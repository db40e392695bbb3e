"""Kubeflow's notebook culler, pass by pass: its writes onto a Notebook, and their times.

A parity mode: a failed probe can cull here, and a stamp can move backwards. Bursar's own rule is in
``reactors.culling.fusion``.

Source: docs/culling.md (notebook controller 1.8; Open Data Hub fork at b85f66ae).
"""

from bus.go_time import Stamp
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY, STOPPED
from bus.notebooks.go_json import all_idle
from reactors.culling.kubeflow.annotations import (
    Notebook,
    is_idle,
    is_stopped,
    stop,
)
from reactors.culling.kubeflow.reconcile import ReconcilePass, reconcile, reconcile_with_terminals

__all__ = [
    "CHECKED_AT",
    "LAST_ACTIVITY",
    "STOPPED",
    "Notebook",
    "ReconcilePass",
    "Stamp",
    "all_idle",
    "is_idle",
    "is_stopped",
    "reconcile",
    "reconcile_with_terminals",
    "stop",
]
