"""The notice of a waiting workload: its place, and the cause of its wait. Pure.

Source: docs/queues.md.
"""

from __future__ import annotations

from bus.events.admissions import AdmissionDecided
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import decide
from reactors.admission.deciding.messages import queued
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.queue.state import QueueState, request_of


def notice(
    lines: QueueState, view: AdmissionState, journals: Journals, uid: str, now_us: int
) -> tuple[AdmissionDecided, str] | None:
    """The answer to the workload if it were alone, and the text about it; None where it waits in no queue."""
    found = view.objects.get(uid)
    where = view.place(found.labels, found.namespace) if found is not None else None
    name = journals.places.get((where.kind, where.quota)) if where is not None else None
    if found is None or where is None or name is None or not found.ask.held:
        return None
    tree = journals.tree(name)
    decision = decide(TreeOverlay(tree), request_of(found, where), now_us, where.refusal)
    # It is counted itself.
    return decision, queued(decision, tree, lines.ahead(where, found.ask.priority_class))
