"""Tells of a job's changes of condition as the training operator does: Kubernetes Events beside the job. Pure.

One for each condition that a status changes and of which the operator says something: a job restarts, ends, is suspended or
resumed. Of a failure the operator says two, of the pod as a warning and of the job; here they are one. Events are for reading
only: the decision has all that the operator would have said, so nothing is lost with an Event.

Source: Kubernetes API reference, events.k8s.io/v1; Kubeflow training-operator v1, ``pkg/util/status.go``; docs/jobs.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from bus.events.decisions import ReportJob
from bus.events.workloads import Condition
from reactors.effectors.events import LONGEST_NOTE, micro_time

Json = dict[str, Any]

CONTROLLER = "bursar.io/jobs"
#: What is said after the job's kind and name, by the end of the reason.
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


def records(decision: ReportJob, before: Sequence[Condition], api_version: str) -> Iterator[Json]:
    """The Events of a status that takes the place of one with the conditions ``before``.

    Their names follow from the decision, so no second attempt makes a second Event.
    """
    target, counts = decision.target, _NONE | decision.numbers
    # Where an earlier status was never written, what is said of its look is on that decision.
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
