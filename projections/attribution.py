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

#: Types of what a segment asks for as one text: "" for none, else cpu, GPU and memory, which hold no slash.
NO_TYPES = ""


def names(labels: Mapping[str, str]) -> Names | None:
    """What an object's labels name; None for nothing."""
    if not labels:
        return None
    quota = labels.get(_QUOTA) or labels.get(_KOORDINATOR) or ""
    found = (quota, labels.get(_CPU, ""), labels.get(_GPU, ""), labels.get(_MEMORY, ""))
    return found if any(found) else None


def attributed(*sources: Names | None) -> tuple[str, str]:
    """(quota, types) by the first of ``sources`` that names each; ("", "") where none names a quota."""
    named = [source for source in sources if source is not None]
    quota, *types = (
        (next(filter(None, place), "") for place in zip(*named, strict=True)) if named else ("",)
    )
    if not quota or not any(types):
        return quota, NO_TYPES
    return quota, "/".join(types)


def types_of(text: str) -> dict[str, str]:
    """The type of each resource, by the text of a segment."""
    cpu, gpu, memory = text.split("/") if text else ("", "", "")
    return {"cpu": cpu, "gpu": gpu, "memory": memory}
