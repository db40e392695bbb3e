"""Reports a job's changes of condition like the training operator: Kubernetes Events beside the job. Pure.

One Event for each condition changed by a status, if the operator reports it: a job restarts, ends, is suspended or
resumed. For a failure the operator makes two, a warning about the pod and one about the job; here they are one. Events are
only for readers: the decision has all their content, so a lost Event loses no fact.

Source: Kubernetes API reference, events.k8s.io/v1; Kubeflow training-operator v1, ``pkg/util/status.go``; docs/jobs.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from bus.events.decisions import ReportJob
from bus.events.workloads import WorkloadCondition
from reactors.effectors.events import LONGEST_NOTE, micro_time

Json = dict[str, Any]

CONTROLLER = "bursar.io/jobs"
#: The text after the job's kind and name, by the end of the reason.
_NOTES = {
    "Succeeded": "successfully completed",
    "Failed": "has failed: pods {active} active, {succeeded} succeeded, {failed} failed",
    "Restarting": "is restarting: pods {active} active, {succeeded} succeeded, {failed} failed",
    "Suspended": "is suspended",
    "Resumed": "is resumed",
}
_NONE = dict.fromkeys(("active", "succeeded", "failed"), 0)


def path(namespace: str) -> str:
    """Where the Events of a namespace are."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def records(
    decision: ReportJob, before: Sequence[WorkloadCondition], api_version: str
) -> Iterator[Json]:
    """The Events of a status that replaces one with the conditions ``before``.

    Their names follow from the decision, so no second attempt makes a second Event.
    """
    target, counts = decision.target, _NONE | decision.numbers
    # If an earlier status was never written, this decision carries the Events of its pass.
    types: dict[str, str] = {}
    for text in decision.events:
        type, _, reason = text.partition(" ")
        types.setdefault(reason, type)
    changed = [one.reason for one in decision.conditions if one not in before]
    for reason in dict.fromkeys(changed):
        word = reason.removeprefix(target.kind)
        if word not in _NOTES:
            continue
        notes = _NOTES[word].format_map(counts)
        note = f"{target.kind} {target.namespace}/{target.name} {notes}"
        digest = hashlib.blake2b(f"{decision.id}/{reason}".encode(), digest_size=8).hexdigest()
        yield {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"bursar.job.{digest}", "namespace": target.namespace},
            "eventTime": micro_time(decision.at_us),
            "reportingController": CONTROLLER,
            "reportingInstance": "bursar",
            "action": "Report",
            "reason": reason,
            "regarding": {
                "apiVersion": api_version, "kind": target.kind, "namespace": target.namespace,
                "name": target.name, "uid": target.uid,
            },
            "note": note.encode()[:LONGEST_NOTE].decode(errors="ignore"),
            "type": types.get(reason) or ("Warning" if word == "Restarting" else "Normal"),
        }  # fmt: skip
