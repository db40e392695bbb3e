"""Which quota does a pod belong to, and of which types is what it asks for, by the labels around it?

Each label is looked for by itself: on the top workload of the pod's owner chain, else on the pod, else on its
namespace (a mapping for all that is in it). Of one object ``biz.group.resource.quota`` goes before
Koordinator's label. A type counts only where a quota is named.

Source: ``koordinator.md`` section 1 (labels of workloads) and 2.5; issue text "the namespace's mapping".
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.kinds import QUOTA_LABELS

_QUOTA, _CPU, _GPU, _MEMORY, _KOORDINATOR, _ = QUOTA_LABELS

#: What one object names: quota, cpu type, GPU type, memory type; "" where it names none.
Names = tuple[str, str, str, str]

NOTHING: Names = ("", "", "", "")


def names(labels: Mapping[str, str]) -> Names | None:
    """What an object's labels name; None for nothing."""
    if not labels:
        return None
    quota = labels.get(_QUOTA) or labels.get(_KOORDINATOR) or ""
    found = (quota, labels.get(_CPU, ""), labels.get(_GPU, ""), labels.get(_MEMORY, ""))
    return found if any(found) else None


def attributed(*sources: Names | None) -> Names:
    """Each by the first of ``sources`` that names it; nothing where none names a quota."""
    named = [source for source in sources if source is not None]
    if not any(source[0] for source in named):
        return NOTHING
    quota, cpu, gpu, memory = (next(filter(None, place), "") for place in zip(*named, strict=True))
    return quota, cpu, gpu, memory
