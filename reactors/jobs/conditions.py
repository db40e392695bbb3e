"""The conditions of a job, and how one replaces another. Pure.

After ``Failed`` nothing changes any more. ``Running`` and ``Restarting`` replace one another. ``Succeeded`` and ``Failed`` turn
``Running`` into False. The reason is the kind and the type: ``TFJobRunning``.

Source: Kubeflow training-operator v1, ``pkg/util/status.go``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bus.events.workloads import WorkloadCondition

_REPLACES = {"Running": "Restarting", "Restarting": "Running"}
_ENDS = ("Succeeded", "Failed")


def with_condition(
    conditions: Sequence[WorkloadCondition], new: WorkloadCondition
) -> tuple[WorkloadCondition, ...]:
    """``conditions`` after ``new`` was set."""
    if new in conditions or any(c.type == "Failed" and c.status == "True" for c in conditions):
        return tuple(conditions)
    kept = []
    for one in conditions:
        if one.type in (new.type, _REPLACES.get(new.type)):
            continue
        if one.type == "Running" and new.type in _ENDS:
            one = msgspec.structs.replace(one, status="False")
        kept.append(one)
    return (*kept, new)
