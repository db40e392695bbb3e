"""Annotations written and read by culling, each under one name for all parts.

The notebook controller copies every annotation without ``kubectl`` or ``notebook`` in its key to the pods'
template. So the keys written here hold ``notebook``, and a warning does not replace the pod.

Source: docs/culling.md (notebook_controller.go lines 361 to 404).
"""

from __future__ import annotations

#: Kubeflow's own: its presence stops a Notebook; the web UI sets and removes the same. Value: the time of the stop.
STOPPED = "kubeflow-resource-stopped"
#: Kubeflow's own: when its culler saw the last activity, and when it looked last (RFC 3339, whole seconds); note the dash
#: and the underscores. Its web UI shows the first.
LAST_ACTIVITY = "notebooks.kubeflow.org/last-activity"
CHECKED_AT = "notebooks.kubeflow.org/last_activity_check_timestamp"
#: The annotations known to Kubeflow's culler, and no more.
KUBEFLOW_KEYS = (STOPPED, LAST_ACTIVITY, CHECKED_AT)
#: When the notebook will be stopped unless it is used (RFC 3339), and the id of the warning.
CULLS_AT = "bursar.io/notebook-culls-at"
WARNED_BY = "bursar.io/notebook-warned-by"
#: The id of the decision to stop it, and the reason, for people. They stay after a restart.
CULLED_BY = "bursar.io/notebook-culled-by"
CULL_REASON = "bursar.io/notebook-cull-reason"
#: How many replicas a workload had before it was stopped.
REPLICAS_BEFORE = "bursar.io/notebook-replicas-before"
#: Written before a workload is scaled, removed afterwards: the spec's generation meant to be scaled.
SCALING = "bursar.io/notebook-scaling"
#: The id of the decision to restart it.
RESTORED_BY = "bursar.io/notebook-restored-by"
#: Written by its owner: not stopped before this (RFC 3339), within the policy's cap.
SNOOZED_UNTIL = "bursar.io/notebook-snoozed-until"
